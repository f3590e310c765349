"""The rows of a run's logs, read from the files of its formats."""

import json
import os
from glob import escape, glob
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from tfbaselines.logs.event_file import read_events

if TYPE_CHECKING:
    import pandas


def read_json(fname: str | os.PathLike) -> "pandas.DataFrame":
    """The rows of a progress.json; a last line that a crash cut short is left out."""
    import pandas

    with open(fname, encoding="utf-8") as file:
        lines = [line for line in file if line.endswith("\n") and line.strip()]
    try:
        return pandas.DataFrame([json.loads(line) for line in lines])
    except json.JSONDecodeError:
        raise ValueError(f"{fname} is not a log of JSON lines") from None


def read_csv(fname: str | os.PathLike, separator: str = ",") -> "pandas.DataFrame":
    """The rows of a progress.csv, or of a monitor file (whose first line is skipped)."""
    import pandas

    with open(fname, encoding="utf-8", newline="") as file:
        if not file.readline().startswith("# {"):
            file.seek(0)
        try:
            return pandas.read_csv(file, index_col=None, sep=separator)
        except pandas.errors.EmptyDataError:
            return pandas.DataFrame()
        except pandas.errors.ParserError as why:
            raise ValueError(f"{fname} is not a table of values: {str(why).strip().splitlines()[-1]}") from None


def read_tb(path: str | os.PathLike) -> "pandas.DataFrame":
    """The scalars of a TensorBoard directory or event file: a row for each step that has any, NaN where one is missing.

    Of a step that is there twice the later value counts.
    """
    import pandas

    path = os.fspath(path)
    files = sorted(glob(os.path.join(escape(path), "events.*"))) if os.path.isdir(path) else [path]
    rows: dict[int, dict[str, float]] = {}
    for name in files:
        for step, values in read_events(name):
            if values:
                rows.setdefault(step, {}).update(values)
    steps = sorted(rows)
    columns = {tag: [rows[step].get(tag, np.nan) for step in steps] for tag in sorted({*chain(*rows.values())})}
    return pandas.DataFrame(columns, index=pandas.Index(steps, name="step"))
