"""Numbers of a cell's run, from its log directory, which may be growing: steps, return, seconds and rate."""

import csv
import io
import json
import math
import os
from pathlib import Path
from typing import NamedTuple

from tfbaselines.algs import NAMES, get
from tfbaselines.files import read_document
from tfbaselines.logs.formats import MAIN_COLUMNS
from tfbaselines.plot.columns import RETURNS, SUCCESS, TIMES, XAXES
from tfbaselines.plot.results import LARGEST_CONFIG
from tfbaselines.study.cells import Cell

# Tables of a run, and what separates their columns; JSON lines have none.
TABLES = {"progress.csv": ",", "progress.txt": "\t", "progress.json": None}
# Arguments with the length of a run of Spinning Up's algorithms: their product is in steps.
EPOCHS = ({"epochs", "steps_per_epoch"}, {"nb_epochs", "nb_epoch_cycles", "update_every"})
# Bytes at the end of a table that have its last row.
TAIL = 2**16


class Measured(NamedTuple):
    """Numbers of a run; None for numbers that its log does not have yet.

    Attributes:
        steps: environment steps so far.
        score: latest mean return, or success rate of her; of tests, where the run has them.
        seconds: seconds of training so far.
    """

    steps: float | None = None
    score: float | None = None
    seconds: float | None = None

    @property
    def rate(self) -> float | None:
        """Steps per second."""
        return self.steps / self.seconds if self.steps and self.seconds else None


def measure(directory: Path) -> Measured:
    """Read the last row of a run's table."""
    row = last_row(directory)
    steps, seconds = _first(row, XAXES), _first(row, TIMES)
    rate = _first(row, MAIN_COLUMNS["steps/s"])
    if seconds is None and steps is not None and rate:
        seconds = steps / rate
    return Measured(steps, _first(row, (*RETURNS, SUCCESS)), seconds)


def last_row(directory: Path) -> dict[str, object]:
    """Read the last whole row of a run's table, by column; empty if there is none."""
    return next(filter(None, (_row_at_end(directory / name, kind) for name, kind in TABLES.items())), {})


def number_of(value: object) -> float | None:
    """Return a cell's number; None for other texts and for numbers that are not finite."""
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _first(row: dict[str, object], names: tuple[str, ...]) -> float | None:
    """Return the first of some columns that the row has."""
    return next((number_of(row[name]) for name in names if name in row), None)


def _row_at_end(path: Path, separator: str | None) -> dict[str, object]:
    try:
        with open(path, "rb") as file:
            header = file.readline()
            file.seek(max(len(header) if separator else 0, os.fstat(file.fileno()).st_size - TAIL))
            lines = file.read().split(b"\n")[:-1]
        if not lines:
            return {}
        if separator is None:
            row = json.loads(lines[-1])
            return row if isinstance(row, dict) else {}
        text = (header + lines[-1]).decode(errors="replace")
        names, values = list(csv.reader(io.StringIO(text), delimiter=separator))[:2]
    except (OSError, ValueError):
        return {}
    # While the header grows, a row and the header may differ.
    return dict(zip(names, values, strict=True)) if len(names) == len(values) else {}


def total_steps(cell: Cell, directory: Path) -> float | None:
    """Return the environment steps of a whole run; None if the length is given in other units."""
    if "num_timesteps" in cell.words:
        return float(cell.words["num_timesteps"])
    try:
        config = read_document(directory / "config.json", LARGEST_CONFIG)
        given, flags, learn = (config[name] for name in ("given", "arguments", "learn"))
        if config["alg"] not in NAMES:
            # A module of somebody else's, which is not imported.
            return None
        own = get(config["alg"]).config
        if "num_timesteps" in given or learn.keys().isdisjoint(own.length_arguments):
            return float(flags["num_timesteps"])
        values = {name: argument.default for name, argument in own.arguments().items()} | learn
        for names in EPOCHS:
            if names <= values.keys():
                return float(math.prod(values[name] for name in names))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return None
