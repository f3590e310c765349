"""Experiments in no time: a process that writes the log of a cell's run row by row, and goes on with it."""

import json
import sys
import time
from pathlib import Path

ROWS = 10


def command(cell, directory):
    """The command of a cell."""
    return [sys.executable, "-S", "-E", __file__, str(directory), json.dumps(dict(cell.words))]


def run(directory, words):
    if words.get("fail") == "True":
        print("tfbaselines: error: boom", file=sys.stderr)
        sys.exit(2)
    log = directory / "progress.txt"
    lines = log.read_text().splitlines() if log.exists() else []
    with open(log, "a") as file:
        if not lines:
            file.write("Epoch\tAverageEpRet\tTotalEnvInteracts\tTime\n")
        for row in range(max(0, len(lines) - 1), ROWS):
            score = row * float(words["clip_ratio"]) + int(words["seed"])
            file.write(f"{row}\t{score}\t{row * 100}\t{row + 1}\n")
            file.flush()
            time.sleep(0.03)


if __name__ == "__main__":
    run(Path(sys.argv[1]), json.loads(sys.argv[2]))
