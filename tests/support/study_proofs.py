"""What studies promise, shown on real runs: `python tests/support/study_proofs.py kills|dispatch DIR`.

kills: two equal studies; one is disturbed by SIGKILLs of its worker and of its runs. Both must have equal logs but for
times, and each run must have ended once. dispatch: milliseconds a cell of 1,000 cells that do nothing.
"""

import argparse
import csv
import itertools
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from tfbaselines.study.cells import Cell
from tfbaselines.study.store import FAILED, RUNNING, Study
from tfbaselines.study.worker import work

COMMAND = [sys.executable, "-m", "tfbaselines.study"]
ARGUMENTS = "--alg a2c ppo2 --env CartPole-v1 --seeds 4 --num_timesteps 30000 --set save_every=2000 nsteps=64"
TIMES = ("fps", "misc/time_elapsed", "time_elapsed")
# Seconds between two kills.
BETWEEN = (2, 12)
# Printed by a run at its end.
ENDED = "train it more:"


def start(study):
    return subprocess.Popen([*COMMAND, "work", str(study), "--jobs", "2"], stdout=subprocess.DEVNULL)


def children(process):
    return [int(word) for word in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def disturb(study, kills, moments):
    """Kill the worker or one of its runs up to `kills` times during the study; return the number of kills of each."""
    count = {"worker": 0, "run": 0}
    process = start(study)
    while sum(count.values()) < kills and process.poll() is None:
        time.sleep(moments.uniform(*BETWEEN))
        victim = moments.choice(list(count))
        runs = children(process) if process.poll() is None else []
        if process.poll() is not None or (victim == "run" and not runs):
            continue
        os.kill(process.pid if victim == "worker" else moments.choice(runs), signal.SIGKILL)
        count[victim] += 1
        if victim == "worker":
            process.wait()
            process = start(study)
    # A run fails after three kills without a new checkpoint.
    while process.wait() and Study(study).names(FAILED):
        subprocess.run([*COMMAND, "retry", str(study)], check=True)
        process = start(study)
    return count


def rows(place):
    with open(place / "progress.csv", encoding="utf-8") as file:
        return [{name: value for name, value in row.items() if name not in TIMES} for row in csv.DictReader(file)]


def show_kills(directory, kills, seed):
    calm, disturbed = directory / "calm", directory / "disturbed"
    for study in (calm, disturbed):
        subprocess.run([*COMMAND, "new", str(study), *ARGUMENTS.split()], check=True)
    start(calm).wait()
    print(f"kills: {disturb(disturbed, kills, random.Random(seed))}")
    assert not Study(disturbed).names(RUNNING)
    wrong = 0
    for place in sorted((calm / "runs").iterdir()):
        other = disturbed / "runs" / place.name
        equal, ended = rows(place) == rows(other), (other / "output.txt").read_text().count(ENDED)
        wrong += not equal or ended != 1
        print(f"{place.name}: {'equal' if equal else 'DIFFERENT'}, ended {ended} times")
    return wrong


def show_dispatch(directory, count=1000):
    study = Study.create(directory / "nothing", [Cell(f"{i:04d}", "g", f"runs/{i}", {}) for i in range(count)])
    began, numbers = time.perf_counter(), itertools.count(1)
    work(study, 1, lambda cell, place: ["true"], say=lambda line: next(numbers))
    print(f"{1000 * (time.perf_counter() - began) / (next(numbers) - 1):.1f} ms a cell")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("proof", choices=("kills", "dispatch"))
    parser.add_argument("dir", type=Path, help="new directory")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    args = parser.parse_args()
    if args.proof == "dispatch":
        show_dispatch(args.dir)
    else:
        sys.exit(bool(show_kills(args.dir, args.kills, args.seed)))
