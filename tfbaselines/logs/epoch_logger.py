"""Spinning Up's EpochLogger: store values during an epoch, write a row of their statistics at its end.

An epoch:

    logger = EpochLogger(output_dir="/tmp/run", exp_name="walk")
    logger.store(EpRet=12.5, VVals=values)
    logger.log_tabular("Epoch", 0)
    logger.log_tabular("EpRet", with_min_and_max=True)
    logger.log_tabular("VVals", average_only=True)
    logger.dump_tabular()
"""

import atexit
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from tfbaselines.config.files import to_jsonable
from tfbaselines.errors import UsageError, bad_argument, nearest, unknown
from tfbaselines.files import write_whole
from tfbaselines.logs.formats import CSVOutputFormat, KVWriter, check_format, make_output_format
from tfbaselines.logs.logger import Logger
from tfbaselines.logs.statistics import Store

# Terminal codes of foreground colors; a background color has a code 10 higher.
COLORS = {
    "gray": 30,
    "red": 31,
    "green": 32,
    "yellow": 33,
    "blue": 34,
    "magenta": 35,
    "cyan": 36,
    "white": 37,
    "crimson": 38,
}


def colorize(string: str, color: str, bold: bool = False, highlight: bool = False) -> str:
    """Color a text for terminals.

    Args:
        string: the text.
        color: one of COLORS.
        bold: use bold letters.
        highlight: color the background instead of the letters.
    """
    if color not in COLORS:
        raise unknown("color", color, COLORS)
    codes = [str(COLORS[color] + 10 * highlight), *(["1"] if bold else [])]
    return f"\x1b[{';'.join(codes)}m{string}\x1b[0m"


class EpochTable(Store):
    """Stores values during an epoch, and makes the row of their statistics.

    Args:
        comm: communicator; statistics are over its ranks. None for all ranks of the MPI run.
    """

    def __init__(self, comm: Any = None) -> None:
        super().__init__(comm)
        self._row: dict[str, Any] = {}
        self._columns: list[str] = []
        # True after the first row, which fixes the columns.
        self._decided = False

    def log_tabular(
        self, key: str, val: Any = None, with_min_and_max: bool = False, average_only: bool = False
    ) -> None:
        """Put a value, or the statistics of what was stored under `key`, into this epoch's row.

        Args:
            key: column, or the key used with `store`; its columns are Average<key>, Std<key>, and with
                `with_min_and_max` Max<key> and Min<key>. They are NaN if the epoch has no values.
            val: the value; None takes the stored ones, and clears them.
            with_min_and_max: add the two columns.
            average_only: one column only, called `key`.
        """
        if val is not None:
            return self._put(key, val)
        stats = self.merged(key)
        self._put(key if average_only else f"Average{key}", stats.mean)
        if not average_only:
            self._put(f"Std{key}", stats.std)
        if with_min_and_max:
            self._put(f"Max{key}", stats.max)
            self._put(f"Min{key}", stats.min)
        self.forget(key)
        return None

    def get_stats(self, key: str) -> tuple[float, float]:
        """Return mean and standard deviation over all ranks of the values stored under `key` in this epoch."""
        stats = self.merged(key)
        return stats.mean, stats.std

    def take_row(self) -> dict[str, Any]:
        """Return this epoch's row and begin the next one; the first row fixes the columns, a missing value is empty."""
        self._columns += [key for key in self._row if key not in self._columns]
        self._decided = True
        row, self._row = {key: self._row.get(key, "") for key in self._columns}, {}
        return row

    def _put(self, key: str, value: Any) -> None:
        if self._decided and key not in self._columns:
            guess = nearest(key, self._columns)
            hint = f"did you mean '{guess}'?" if guess else f"it has {', '.join(self._columns)}"
            raise UsageError(f"'{key}' is a new key, but the columns are those of the first epoch: {hint}")
        if key in self._row:
            raise UsageError(f"'{key}' was already set in this epoch: call dump_tabular() first")
        self._row[key] = value


class EpochLogger(EpochTable):
    """Writes one row per epoch to `progress.txt` (tab-separated, columns in the order of the first epoch).

    Args:
        output_dir: log directory, made if missing; default: `experiments/<seconds since 1970>` in the
            system's temporary directory.
        output_fname: name of the table in it.
        exp_name: name of the experiment; plots group runs by it. Goes to config.json.
        comm: communicator; statistics are over its ranks. None for all ranks of the MPI run.
        resume: continue an existing table; the first row may add columns to it, at the right.
        format_strs: further outputs of each row, as in `logger.configure`.

    Only rank 0 writes files. Under MPI every rank must make the same calls of log_tabular and get_stats.
    """

    def __init__(
        self,
        output_dir: str | os.PathLike | None = None,
        output_fname: str = "progress.txt",
        exp_name: str | None = None,
        comm: Any = None,
        resume: bool = False,
        format_strs: Sequence[str] = ("stdout",),
    ):
        super().__init__(comm)
        self.exp_name = exp_name
        self.output_dir = default_directory(output_dir)
        for name in format_strs:
            check_format(name)
        outputs: list[KVWriter] = []
        if self.comm.rank == 0:
            table, outputs = self._open(output_fname, format_strs, resume)
            self._columns = list(table.keys)
        # Rank 0 has the file, and shares the columns of a resumed table.
        self._columns = self.comm.broadcast_object(self._columns)
        self.logger = Logger(self.output_dir, outputs)
        atexit.register(self.logger.close)
        self.log(f"Logging data to {os.path.join(self.output_dir, output_fname)}")

    def log(self, msg: str, color: str = "green") -> None:
        """Print a message on rank 0, in color on a terminal."""
        self.logger.log(colorize(msg, color, bold=True) if sys.stdout.isatty() else msg)

    def dump_tabular(self) -> dict[str, Any]:
        """Write this epoch's row and return it; the first row fixes the columns."""
        row = self.take_row()
        self.logger.logkvs(row)
        self.logger.dumpkvs()
        return row

    def save_config(self, config: dict[str, Any]) -> None:
        """Write the run's configuration to config.json; values that are not JSON become readable strings."""
        readable = to_jsonable(config)
        if self.exp_name is not None:
            readable["exp_name"] = self.exp_name
        if self.comm.rank == 0:
            text = json.dumps(readable, indent=4, sort_keys=True)
            write_whole(os.path.join(self.output_dir, "config.json"), text + "\n")

    def close(self) -> None:
        """Close the files."""
        self.logger.close()
        atexit.unregister(self.logger.close)

    def _open(self, fname: str, format_strs: Sequence[str], resume: bool) -> tuple[CSVOutputFormat, list[KVWriter]]:
        """Open the table and all outputs of rank 0."""
        try:
            os.makedirs(self.output_dir, exist_ok=True)
            table = CSVOutputFormat(
                os.path.join(self.output_dir, fname), append=resume, separator="\t", sort_keys=False
            )
            others = [make_output_format(name, self.output_dir, append=resume) for name in format_strs]
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise bad_argument("output_dir", self.output_dir, f"a directory that can be written to ({why})") from None
        return table, [*others, table]


def default_directory(output_dir: str | os.PathLike | None) -> str:
    """Return the directory, or experiments/<seconds since 1970> in the system's temporary one if it is None."""
    if output_dir is None:
        return os.path.join(tempfile.gettempdir(), "experiments", str(int(time.time())))
    output_dir = os.fspath(output_dir)
    if not output_dir.strip():
        raise bad_argument("output_dir", output_dir, "the name of a directory")
    return os.path.expanduser(output_dir)
