"""Judge the doctor by spoiled runs: the place of the true cause among its findings.

    python tests/doctor/judge.py DIR [--probe] [--healthy | --further] [--out FILE.csv] [--seed 0 1] [--alg ppo2]

reads the runs of spoiled.py in DIR, or those of healthy.py or further.py. A run counts as found if the true cause is
among the causes of its first or second finding; `strict` counts causes one by one, each finding's likeliest first.
--probe gives `tfbaselines doctor RUN --probe` for each run and keeps its report in DIR/NAME.probe.json. Runs that the
output file has are left out then, so the command may be stopped and given again.
"""

import argparse
import csv
import json
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT)]

from tests.doctor import further, healthy  # noqa: E402  The path comes first.
from tests.doctor.spoiled import FINISHED, SEEDS, USUAL, WAYS, cases, start  # noqa: E402
from tfbaselines.doctor.__main__ import defaults  # noqa: E402
from tfbaselines.doctor.examine import examine_directory  # noqa: E402

COLUMNS = ("alg", "way", "env", "seed", "cause", "place", "strict", "surely", "first", "second")
# Longest examination, also on a busy machine.
SECONDS = 1800


def place_of(cause, findings):
    """Place of the first finding that points to a cause, from 1; 0 if none does."""
    return next((place for place, found in enumerate(findings, 1) if cause in found["causes"]), 0)


def strict_place_of(cause, findings):
    """Place of a cause among all causes, each finding's likeliest first; 0 if no finding has it."""
    causes = list(dict.fromkeys(cause for found in findings for cause in found["causes"]))
    return causes.index(cause) + 1 if cause in causes else 0


def findings_of(directory):
    """Findings of the files alone."""
    return json.loads(examine_directory(str(directory), defaults).as_json())["findings"]


def probed(directory):
    """Findings of the files and the probes, by the command as a user gives it."""
    out = directory.with_name(f"{directory.name}.probe.json")
    # The runs' wrappers lie in a module of this repository, hence --trust.
    process = start(["tfbaselines.doctor", directory, "--probe", "--trust", "--json"])
    report, lines = process.communicate(SECONDS)
    if process.returncode != 0:
        raise RuntimeError(f"{directory.name}: status {process.returncode}: {lines[-300:]}")
    out.write_text(report)
    return json.loads(report)["findings"]


def row_of(case, findings):
    names = [found["rule"] for found in findings] + ["", ""]
    places = (place_of(case.cause, findings), strict_place_of(case.cause, findings))
    surely = sum(found["sure"] == "surely" for found in findings)
    return tuple(map(str, (case.alg, case.way, case.env, case.seed, case.cause, *places, surely, *names[:2])))


def share(rows, column):
    return sum(row[column] in ("1", "2") for row in rows) / max(1, len(rows))


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


def written(out):
    """Rows of an output file by algorithm, way, environment and seed; empty without a file."""
    if not out or not out.exists():
        return {}
    with open(out, encoding="utf-8", newline="") as file:
        return {row[:4]: row for row in map(tuple, csv.reader(file)) if row != COLUMNS}


def write(out, rows):
    with open(out, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])


def judged(directory, chosen, probe, out):
    """Judge some runs; return the rows of the output file, in the order of the cases."""
    rows = written(out) if probe else {}
    for case in chosen:
        key = (case.alg, case.way, case.env, str(case.seed))
        if key in rows:
            continue
        run = directory / case.name
        rows[key] = row_of(case, probed(run) if probe else findings_of(run))
        print(" ".join(cell.ljust(12) for cell in rows[key]), flush=True)
        if out:
            write(out, rows.values())
    return list(rows.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--probe", action="store_true", help="examine with probes, half a minute for each run")
    parser.add_argument("--healthy", action="store_true", help="judge the runs of healthy.py")
    parser.add_argument("--further", action="store_true", help="judge the runs of further.py")
    parser.add_argument("--alg", nargs="+", help="algorithms; all without")
    parser.add_argument("--way", nargs="+", choices=["healthy", *WAYS], default=["healthy", *WAYS])
    parser.add_argument("--seed", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--keep", type=Path, help="write the files of the runs to a zip file, for the tests")
    args = parser.parse_args()
    directory = args.directory.resolve()
    every = [case for case in cases() if (case.way or "healthy") in args.way]
    every = healthy.runs() if args.healthy else further.cases() if args.further else every
    chosen = [case for case in every if case.seed in args.seed and (not args.alg or case.alg in args.alg)]
    there = [case for case in chosen if (directory / case.name / FINISHED).exists()]
    rows = judged(directory, there, args.probe, args.out)
    spoiled, well = [row for row in rows if row[1]], [row for row in rows if not row[1]]
    place, strict, surely = (COLUMNS.index(name) for name in ("place", "strict", "surely"))
    for alg in (*USUAL, ""):
        own = [row for row in spoiled if alg in ("", row[0])]
        print(f"{alg or 'all'}: {len(own)} runs, found {share(own, place):.0%}, strict {share(own, strict):.0%}")
    print(f"healthy: {len(well)} runs, surely {sum(int(row[surely]) for row in well)}")
    if args.keep:
        keep(directory, [case.name for case in there], args.keep)
    return 0


if __name__ == "__main__":
    sys.exit(main())
