"""Spinning Up's EpochLogger: values stored during an epoch, a row of their statistics at its end.

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
import tempfile
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tfbaselines.errors import bad_argument, nearest
from tfbaselines.files import write_whole
from tfbaselines.parallel import mpi
from tfbaselines.running.jsonable import to_jsonable
from tfbaselines.running.log_formats import CSVOutputFormat, KVWriter, check_format, make_output_format
from tfbaselines.running.logger import Logger


class Statistics(NamedTuple):
    """Of all values stored under a key on all ranks; NaN when there are none."""

    mean: float
    std: float
    min: float
    max: float


class EpochLogger:
    """Writes one row per epoch to `progress.txt` (tab-separated, columns in the order of the first epoch).

    Args:
        output_dir: log directory, made if missing; default: `experiments/<seconds since 1970>` in the
            system's temporary directory.
        output_fname: name of the table in it.
        exp_name: name of the experiment; plots group runs by it. Goes to config.json.
        comm: statistics are over all ranks of this communicator, by default over those of the MPI run.
        resume: continue an existing table.
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
        self.comm = mpi.wrap(comm)
        self.exp_name = exp_name
        self.output_dir = _directory(output_dir)
        self._stored: dict[str, list[np.ndarray]] = {}
        self._row: dict[str, Any] = {}
        for name in format_strs:
            check_format(name)
        outputs: list[KVWriter] = []
        self._columns: list[str] = []
        if self.comm.rank == 0:
            table, outputs = self._open(output_fname, format_strs, resume)
            self._columns = list(table.keys)
        # A rank without the file learns from rank 0 which columns a resumed table has.
        self._columns = self.comm.broadcast_object(self._columns)
        self.logger = Logger(self.output_dir, outputs)
        atexit.register(self.logger.close)
        self.log(f"Logging data to {os.path.join(self.output_dir, output_fname)}")

    def log(self, msg: str) -> None:
        """Print a message (on rank 0)."""
        self.logger.log(msg)

    def store(self, **kwargs: Any) -> None:
        """Remember values for the statistics of this epoch: scalars or arrays of any shape."""
        for key, value in kwargs.items():
            self._stored.setdefault(key, []).append(np.ravel(np.asarray(value, dtype=np.float64)))

    def log_tabular(
        self, key: str, val: Any = None, with_min_and_max: bool = False, average_only: bool = False
    ) -> None:
        """Put a value, or the statistics of what was stored under `key`, into this epoch's row.

        Args:
            key: column, or the key that `store` was given; its columns are Average<key>, Std<key>, and with
                `with_min_and_max` Max<key> and Min<key>. Nothing stored in this epoch gives NaN.
            val: the value; None takes the stored ones (and forgets them).
            with_min_and_max: add the two columns.
            average_only: one column only, called `key`.
        """
        if val is not None:
            return self._put(key, val)
        stats = self._statistics(key)
        self._put(key if average_only else f"Average{key}", stats.mean)
        if not average_only:
            self._put(f"Std{key}", stats.std)
        if with_min_and_max:
            self._put(f"Max{key}", stats.max)
            self._put(f"Min{key}", stats.min)
        self._stored[key] = []
        return None

    def dump_tabular(self) -> None:
        """Write this epoch's row. The first one decides which columns there are; a value left out later is empty."""
        self._columns = self._columns or list(self._row)
        self.logger.logkvs({key: self._row.get(key, "") for key in self._columns})
        self.logger.dumpkvs()
        self._row = {}

    def get_stats(self, key: str) -> tuple[float, float]:
        """Mean and standard deviation of what was stored under `key` in this epoch, over all ranks."""
        stats = self._statistics(key)
        return stats.mean, stats.std

    def save_config(self, config: dict[str, Any]) -> None:
        """Write what made the run to config.json; what is not JSON becomes a readable string."""
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
        """The table and all outputs of rank 0."""
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

    def _put(self, key: str, value: Any) -> None:
        if self._columns and key not in self._columns:
            guess = nearest(key, self._columns)
            hint = f"did you mean '{guess}'?" if guess else f"it has {', '.join(self._columns)}"
            raise ValueError(f"'{key}' is a new key, but the columns are those of the first epoch: {hint}")
        if key in self._row:
            raise ValueError(f"'{key}' was already set in this epoch: call dump_tabular() first")
        self._row[key] = value

    def _statistics(self, key: str) -> Statistics:
        """Moments of each rank's values, merged."""
        mine = np.concatenate(self._stored.get(key) or [np.empty(0)])
        parts = [part for part in self.comm.gather(_moments(mine)) if part[0] > 0]
        if not parts:
            return Statistics(*[float("nan")] * 4)
        count = sum(part[0] for part in parts)
        mean = sum(part[0] * part[1] for part in parts) / count
        square = sum(part[2] + part[0] * (part[1] - mean) ** 2 for part in parts)
        lowest, highest = min(part[3] for part in parts), max(part[4] for part in parts)
        return Statistics(mean, float(np.sqrt(square / count)), lowest, highest)


def _moments(values: np.ndarray) -> tuple[int, float, float, float, float]:
    """Count, mean, sum of squared deviations, minimum and maximum; zeros when there is none."""
    if not values.size:
        return 0, 0.0, 0.0, 0.0, 0.0
    mean = float(values.mean())
    return values.size, mean, float(np.square(values - mean).sum()), float(values.min()), float(values.max())


def _directory(output_dir: str | os.PathLike | None) -> str:
    if output_dir is None:
        return os.path.join(tempfile.gettempdir(), "experiments", str(int(time.time())))
    output_dir = os.fspath(output_dir)
    if not output_dir.strip():
        raise bad_argument("output_dir", output_dir, "the name of a directory")
    return os.path.expanduser(output_dir)
