"""Outputs of the logger to files: tables, text, CSV and JSON lines; and their readers."""

import contextlib
import csv
import io
import itertools
import json
import math
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from tfbaselines.config.options import to_jsonable
from tfbaselines.errors import UsageError, beside_progress, unknown
from tfbaselines.files import drop_torn_line, replacing

if TYPE_CHECKING:
    import pandas

# Columns that count environment steps, for all algorithms.
STEPS = (
    *("misc/total_timesteps", "total_timesteps", "TotalEnvInteracts", "TimestepsSoFar", "total/steps", "timesteps"),
    "steps",
)


def _open(path: str | os.PathLike, append: bool) -> TextIO:
    if append:
        drop_torn_line(path)
    return open(path, "a" if append else "w", encoding="utf-8", newline="")


# The main columns of all algorithms, in order of preference.
MAIN_COLUMNS = {
    "steps": STEPS,
    "return": (
        *("eprewmean", "EpTrueRewMean", "EpRewMean", "AverageEpRet", "mean 100 episode reward", "mean_episode_reward"),
        *("rollout/return_history", "rollout/return", "train_reward_mean", "eprew"),
    ),
    "tests": ("AverageTestEpRet", "eval/return", "test_reward", "eval_eprewmean"),
    "success": ("test/success_rate",),
    "length": ("eplenmean", "EpLenMean", "EpLen", "mean_episode_length", "rollout/episode_steps"),
    "steps/s": ("fps", "misc/fps", "total/steps_per_second"),
}

# Largest width of a cell of the table; longer texts end in "...".
MAX_CELL = 30


class KVWriter(ABC):
    """An output that takes the key-value pairs of a dump."""

    @abstractmethod
    def writekvs(self, kvs: dict[str, Any]) -> None:
        """Write one row; `kvs` holds Python or NumPy scalars, strings and None."""

    def describe(self, parameters: Mapping[str, Any]) -> None:
        """Record the run's arguments if the output has a place for them."""

    def close(self) -> None:
        """Close the output; a second call does nothing."""

    def flush(self) -> None:
        """Write a row that waits."""

    def lost(self) -> bool:
        """Return True if the output's file was removed."""
        return False

    def reopen(self) -> None:
        """Open the file again after it was removed or a write failed; drop a truncated row."""


class SeqWriter(ABC):
    """An output that takes log messages."""

    @abstractmethod
    def writeseq(self, seq: Iterable[str]) -> None:
        """Write one line of the given words."""


class FileWriter(KVWriter):
    """An output to a file, which somebody may remove during the run.

    Attributes:
        path: path of the file; None for a stream that the caller opened and closes.
        file: file open for writing.
    """

    path: Path | None
    file: TextIO

    def close(self) -> None:
        if self.path is not None:
            self.file.close()

    def lost(self) -> bool:
        return self.path is not None and not self.path.exists()

    def reopen(self) -> None:
        if self.path is None:
            return
        with contextlib.suppress(OSError, ValueError):
            self.file.close()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.file = _open(self.path, append=True)


class HumanOutputFormat(FileWriter, SeqWriter):
    """Writes a table per dump, and a line per message.

    Attributes:
        rows: one of config.options.ROWS.

    Args:
        filename_or_file: path of a text file, or an open stream such as sys.stdout (which stays open on close()).
    """

    def __init__(self, filename_or_file: str | os.PathLike | TextIO, append: bool = False):
        self.path = Path(filename_or_file) if isinstance(filename_or_file, str | os.PathLike) else None
        self.file = filename_or_file if self.path is None else _open(self.path, append)
        self.rows = "table"
        # The latest short row that is not shown yet, and the time of the one before it.
        self._waiting = ""
        self._shown_at = -math.inf

    def writekvs(self, kvs: dict[str, Any]) -> None:
        if self.rows == "table":
            self._write_table(kvs)
        elif self.rows == "short":
            self._waiting = short_row(kvs)
            if time.monotonic() - self._shown_at >= SECONDS_BETWEEN_ROWS:
                self.flush()

    def flush(self) -> None:
        if self._waiting:
            self._write_lines(self._waiting)
            self._waiting = ""
            self._shown_at = time.monotonic()

    def _write_lines(self, text: str) -> None:
        with beside_progress(self.file):
            self.file.write(text + "\n")
            self.file.flush()

    def close(self) -> None:
        self.flush()
        super().close()

    def _write_table(self, kvs: dict[str, Any]) -> None:
        written = _plain if self.path is None and self.file.isatty() else _shown
        cells = [(_cell(key), _cell(written(value))) for key, value in sorted(kvs.items(), key=lambda item: item[0])]
        if not cells:
            print("WARNING: tried to write an empty key-value dict")
            return
        cells.sort(key=lambda cell: cell[0].lower())
        key_width, value_width = (max(map(len, column)) for column in zip(*cells, strict=True))
        rule = "-" * (key_width + value_width + 7)
        rows = [f"| {key:<{key_width}} | {value:<{value_width}} |" for key, value in cells]
        self._write_lines("\n".join([rule, *rows, rule]))

    def writeseq(self, seq: Iterable[str]) -> None:
        self.flush()
        self._write_lines(" ".join(seq))


# Shortest time between two short rows.
SECONDS_BETWEEN_ROWS = 1.0


def short_row(kvs: Mapping[str, Any]) -> str:
    """Write the main columns of a row on one line; without any of them the first columns."""
    found = {word: next((kvs[name] for name in names if name in kvs), None) for word, names in MAIN_COLUMNS.items()}
    found = {word: value for word, value in found.items() if value is not None}
    if not found:
        found = dict(itertools.islice(kvs.items(), len(MAIN_COLUMNS)))
    return "  ".join(f"{_cell(word)} {_cell(_plain(value))}" for word, value in found.items())


def _plain(value: Any) -> str:
    if not hasattr(value, "__float__"):
        return str(value)
    number = float(value)
    return f"{number:,.0f}" if number.is_integer() or abs(number) >= 1e4 else f"{number:.4g}"


def _shown(value: Any) -> str:
    # The trailing spaces of "%-8.3g" belong to the original's format: they widen the column.
    return f"{float(value):<8.3g}" if hasattr(value, "__float__") else str(value)


def _one_line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ")


def _cell(text: str) -> str:
    text = _one_line(text)
    return text[: MAX_CELL - 3] + "..." if len(text) > MAX_CELL else text


class JSONOutputFormat(FileWriter):
    """Writes a JSON object per dump, one a line."""

    def __init__(self, filename: str | os.PathLike, append: bool = False):
        self.path = Path(filename)
        self.file = _open(self.path, append)

    def writekvs(self, kvs: dict[str, Any]) -> None:
        for key, value in kvs.items():
            if isinstance(value, np.number | np.bool_):
                # In place, as in the original: the outputs after this one see Python floats. The golden
                # files are equal byte by byte. The logger passes a copy.
                kvs[key] = float(value)
        self.file.write(json.dumps(kvs, default=to_jsonable) + "\n")
        self.file.flush()


class CSVOutputFormat(FileWriter):
    """Writes a table as text; a key that first appears in a later row adds a column at the right.

    Values that contain the separator or a quote are quoted, newlines become spaces (a row is one line, so that a
    truncated row can be found and dropped); all other values are written unchanged.

    Args:
        append: continue an existing file with the columns of its header.
        separator: ',' or '\\t'.
        sort_keys: new columns in sorted order (baselines) or in the order given (Spinning Up).
    """

    def __init__(self, filename: str | os.PathLike, append: bool = False, separator: str = ",", sort_keys: bool = True):
        self.path = Path(filename)
        self._separator = separator
        self._sort_keys = sort_keys
        self.file = _open(self.path, append)
        self.keys = next(iter(self._rows()), [])

    def writekvs(self, kvs: dict[str, Any]) -> None:
        kvs = {_one_line(key): value for key, value in kvs.items()}
        new = [key for key in kvs if key not in self.keys]
        if new:
            self._add_columns(sorted(new) if self._sort_keys else new)
        values = (kvs.get(key) for key in self.keys)
        self._writer(self.file).writerow(["" if value is None else _one_line(str(value)) for value in values])
        self.file.flush()

    def reopen(self) -> None:
        super().reopen()
        self.keys = next(iter(self._rows()), [])

    def _add_columns(self, new: list[str]) -> None:
        """Rewrite the file with wider rows; a crash leaves the old or the new table."""
        self.keys = self.keys + new
        rows = self._rows()[1:]
        self.file.close()
        with replacing(self.path, encoding="utf-8", newline="") as file:
            writer = self._writer(file)
            writer.writerow(self.keys)
            writer.writerows(row + [""] * (len(self.keys) - len(row)) for row in rows)
        self.file = _open(self.path, append=True)

    def _rows(self) -> list[list[str]]:
        with open(self.path, encoding="utf-8", newline="") as file:
            return list(csv.reader(file, delimiter=self._separator))

    def _writer(self, file: TextIO) -> Any:
        return csv.writer(file, delimiter=self._separator, lineterminator="\n")


FORMATS = ("stdout", "log", "csv", "json", "tensorboard", "wandb", "mlflow")


def check_format(name: str, source: str = "format_strs") -> None:
    """Refuse an unknown format, and suggest the nearest; `source` is the argument or variable that named it."""
    if name not in FORMATS:
        raise unknown(f"log format in {source}", name, FORMATS)


def make_output_format(name: str, directory: str | os.PathLike, log_suffix: str = "", append: bool = False) -> KVWriter:
    """Make an output with its file in a directory, which is made if missing.

    Args:
        log_suffix: text put before the file's extension, e.g. '-rank001'.
    """
    check_format(name)
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    if name == "stdout":
        # sys.stdout is None if standard output was closed before Python started.
        return HumanOutputFormat(sys.stdout if sys.stdout is not None else io.StringIO())
    if name == "log":
        return HumanOutputFormat(directory / f"log{log_suffix}.txt", append)
    if name == "csv":
        return CSVOutputFormat(directory / f"progress{log_suffix}.csv", append)
    if name == "json":
        return JSONOutputFormat(directory / f"progress{log_suffix}.json", append)
    from tfbaselines.logs.services import SERVICES, TensorBoardOutputFormat

    if name == "tensorboard":
        return TensorBoardOutputFormat(directory / f"tb{log_suffix}", append)
    return SERVICES[name](directory, append)


def read_json(fname: str | os.PathLike) -> "pandas.DataFrame":
    """Read the rows of a progress.json; drop a last line that a crash truncated."""
    import pandas

    with open(fname, encoding="utf-8") as file:
        lines = [line for line in file if line.endswith("\n") and line.strip()]
    try:
        return pandas.DataFrame([json.loads(line) for line in lines])
    except json.JSONDecodeError:
        raise UsageError(f"{fname} is not a log of JSON lines") from None


def read_csv(fname: str | os.PathLike, separator: str = ",") -> "pandas.DataFrame":
    """Read the rows of a progress.csv, or of a monitor file after its first line."""
    import pandas

    with open(fname, encoding="utf-8", newline="") as file:
        if not file.readline().startswith("# {"):
            file.seek(0)
        try:
            return pandas.read_csv(file, index_col=None, sep=separator)
        except pandas.errors.EmptyDataError:
            return pandas.DataFrame()
        except pandas.errors.ParserError as why:
            raise UsageError(f"{fname} is not a table of values: {str(why).strip().splitlines()[-1]}") from None
