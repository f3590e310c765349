"""The process of a suite's cell: `python -m tfbaselines.bench.suite_run LOGS WORDS`, as bench/table.py starts it."""

import json
import sys

from tfbaselines.bench.table import Cell, run
from tfbaselines.cli import exit_status

if __name__ == "__main__":
    cell = Cell.of_words(json.loads(sys.argv[2]))
    sys.exit(exit_status("tfbaselines bench", lambda: run(cell, sys.argv[1])))
