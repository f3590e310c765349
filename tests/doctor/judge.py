"""Judge the doctor by spoiled runs: the place of the true cause among its findings.

    python tests/doctor/judge.py DIR [--out data/benchmarks/doctor.csv] [--seed 0 1] [--alg ppo2]

reads the runs of tests/doctor/spoiled.py and healthy.py in DIR. A run counts as found if the true cause is among the
causes of its first or second finding; `strict` counts causes one by one, each finding's likeliest first.
"""

import argparse
import csv
import json
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT)]

from tests.doctor.spoiled import FINISHED, SEEDS, USUAL, cases  # noqa: E402  The path comes first.
from tfbaselines.doctor.__main__ import defaults  # noqa: E402
from tfbaselines.doctor.examine import examine_directory  # noqa: E402

COLUMNS = ("alg", "way", "env", "seed", "cause", "place", "strict", "surely", "first", "second")


def place_of(cause, findings):
    """Place of the first finding that points to a cause, from 1; 0 if none does."""
    return next((place for place, found in enumerate(findings, 1) if cause in found.causes), 0)


def strict_place_of(cause, findings):
    """Place of a cause among all causes, each finding's likeliest first; 0 if no finding has it."""
    causes = list(dict.fromkeys(cause for found in findings for cause in found.causes))
    return causes.index(cause) + 1 if cause in causes else 0


def row_of(directory, case):
    findings = examine_directory(str(directory), defaults).findings
    names = [found.rule for found in findings] + ["", ""]
    places = (place_of(case.cause, findings), strict_place_of(case.cause, findings))
    surely = sum(found.sure == "surely" for found in findings)
    return (case.alg, case.way, case.env, case.seed, case.cause, *places, surely, *names[:2])


def share(rows, column):
    return sum(row[column] in (1, 2) for row in rows) / max(1, len(rows))


def keep(directory, names, out):
    """Write what the doctor reads of some runs, monitor files without times and configs without the machine."""
    out.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_LZMA) as archive:
        for path in sorted(path for name in names for path in (directory / name).iterdir()):
            if path.name.endswith("monitor.csv"):
                head, *lines = path.read_text().splitlines()
                head = "#" + json.dumps({"env_id": json.loads(head[1:])["env_id"]})
                text = "\n".join([head, *(",".join(line.split(",")[:2]) for line in lines), ""])
            elif path.name == "config.json":
                config = json.loads(path.read_text())
                config["arguments"] = {"num_timesteps": config["arguments"]["num_timesteps"]}
                text = json.dumps({name: config[name] for name in ("alg", "network", "env", "learn", "arguments")})
            elif path.name == "progress.csv":
                text = path.read_text()
            else:
                continue
            # One time for all, so that equal runs make equal files.
            archive.writestr(zipfile.ZipInfo(f"{path.parent.name}/{path.name}"), text, zipfile.ZIP_LZMA)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--alg", nargs="+", choices=USUAL, default=list(USUAL))
    parser.add_argument("--seed", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--keep", type=Path, help="write the files of the runs to a zip file, for the tests")
    args = parser.parse_args()
    chosen = [case for case in cases() if case.alg in args.alg and case.seed in args.seed]
    there = [case for case in chosen if (args.directory / case.name / FINISHED).exists()]
    rows = [row_of(args.directory / case.name, case) for case in there]
    spoiled, healthy = [row for row in rows if row[1]], [row for row in rows if not row[1]]
    for row in rows:
        print(" ".join(str(cell).ljust(12) for cell in row))
    for alg in (*USUAL, ""):
        own = [row for row in spoiled if alg in ("", row[0])]
        place, strict = COLUMNS.index("place"), COLUMNS.index("strict")
        print(f"{alg or 'all'}: {len(own)} runs, found {share(own, place):.0%}, strict {share(own, strict):.0%}")
    print(f"healthy: {len(healthy)} runs, surely {sum(row[COLUMNS.index('surely')] for row in healthy)}")
    if args.keep:
        keep(args.directory, [case.name for case in there], args.keep)
    if args.out:
        with open(args.out, "w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])
    return 0


if __name__ == "__main__":
    sys.exit(main())
