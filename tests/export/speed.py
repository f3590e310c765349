"""Processor time of one action, and size, of each export of one policy, measured in one run.

python -m tests.export.speed RUN [--to TARGET ...]
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tfbaselines.evaluate import load
from tfbaselines.export import TARGETS, check, export, target
from tfbaselines.export.vectors import read_vectors
from tfbaselines.loading import load_tensorflow

# Files that only people and checks read.
ASIDE = ("README.md", "export.json", "vectors.npz", "vectors.bin", "main.c", "Makefile", "check.js", "main")
# Files of the page, which the policy itself does not need.
ASIDE += ("index.html", "page.js", "tasks.js", "example.html")
PASSES, REPEATS = 5, 50
HEAD = ["target", "difference", "one action, µs of a processor", "bytes", "files"]


def python_time(act, inputs) -> float:
    """Return the shortest mean processor time of one action of a function of a batch, in microseconds."""
    rows = [{name: values[k : k + 1] for name, values in inputs.items()} for k in range(1000)]
    act(rows[0])
    times = []
    for _ in range(PASSES):
        begin = time.process_time()
        for one in rows:
            act(one)
        times.append((time.process_time() - begin) / len(rows))
    return 1e6 * min(times)


def program_time(command: list, place: Path) -> float:
    """Return the shortest time that an example prints."""
    texts = [
        subprocess.run(command, cwd=place, capture_output=True, text=True, check=True).stdout for _ in range(PASSES)
    ]
    return min(float(re.search(r"([\d.]+) microseconds", text)[1]) for text in texts)


def time_of(to: str, place: Path) -> float:
    """Return the time of one action of an export."""
    if to == "c":
        subprocess.run(["make", "-s", "main"], cwd=place, check=True)
        return program_time(["./main", "vectors.bin", str(REPEATS)], place)
    if to == "js":
        return program_time(["node", "check.js", "vectors.bin", "weights.js", str(REPEATS)], place)
    return python_time(target(to).load(place), read_vectors(place)[0])


def row(model, to: str, place: Path) -> list[str]:
    """Export, check and measure; return a row of the table."""
    export(model, place, to, episodes=0)
    files = [path for path in sorted(place.rglob("*")) if path.is_file() and path.name not in ASIDE]
    size = sum(path.stat().st_size for path in files)
    difference = check(place)[0]
    names = ", ".join(path.name for path in files) if len(files) < 4 else f"{len(files)} files"
    return [to, f"{difference:.1e}", f"{time_of(to, place):.1f}", f"{size:,}", names]


def measured(model, targets: list[str], place: Path) -> list[list[str]]:
    """Return rows of the model itself and of its exports."""
    rows = [row(model, to, place / to) for to in targets]
    inputs, _ = read_vectors(place / targets[0])
    own = python_time(lambda one: model.act(one["observations"], deterministic=True), inputs)
    return [["model.act", "", f"{own:.1f}", "", ""], *rows]


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """Format a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(argv: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="log directory of a run")
    parser.add_argument("--to", nargs="*", choices=TARGETS, default=list(TARGETS), help="targets")
    args = parser.parse_args(argv)
    load_tensorflow()
    with tempfile.TemporaryDirectory() as scratch:
        print(markdown(HEAD, measured(load(args.run), args.to, Path(scratch))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
