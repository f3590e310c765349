"""Runs in no time: a process that writes the log of a run, resumes, and saves at SIGTERM as the ordinary command does.

The mean return of evaluation i of n is (1 - |log10(lr) + 3|) * i / n * 100, plus noise of the seed; an lr above 0.5 is
not finite.
"""

import json
import math
import signal
import sys
import time
from pathlib import Path


def command(seconds=0.0, script=__file__):
    """The command of a cell, of a run that takes some seconds."""

    def of_cell(cell, directory):
        return [sys.executable, "-S", "-E", script, str(directory), str(seconds), json.dumps(dict(cell.words))]

    return of_cell


def run(directory, seconds, words):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    lr = float(words.get("lr", "3e-4").rpartition("_")[2])
    if lr > 0.5:
        sys.exit(3)
    steps, every = float(words["num_timesteps"]), int(words["evaluate_every"])
    evaluations = int(steps // every)
    log = directory / "progress.csv"
    lines = log.read_text().splitlines() if log.exists() else []
    # The checkpoint is the log; a line that was being written is lost.
    done = max(0, len(lines) - 1)
    (directory / "checkpoints" / f"{done:05d}").mkdir(parents=True, exist_ok=True)
    with open(log, "a") as file:
        if not lines:
            file.write("misc/total_timesteps,evaluation/return\n")
        for i in range(done + 1, evaluations + 1):
            time.sleep(seconds / evaluations)
            score = (1 - abs(math.log10(lr) + 3)) * i / evaluations * 100 + int(words["seed"]) * 3 % 7 * 5
            file.write(f"{i * every},{score}\n")
            file.flush()
    # A finished run that is continued trains nothing.
    if done < evaluations:
        with open(directory / "ends", "a") as file:
            file.write("end\n")


if __name__ == "__main__":
    run(Path(sys.argv[1]), float(sys.argv[2]), json.loads(sys.argv[3]))
