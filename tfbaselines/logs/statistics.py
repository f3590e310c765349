"""Statistics for rows of the logs: values stored during an epoch, the latest episodes, and Spinning Up's EpochLogger.

An epoch of the logger:

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
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tfbaselines.config.options import to_jsonable
from tfbaselines.errors import UsageError, bad_argument, nearest, unknown
from tfbaselines.files import write_whole
from tfbaselines.logs.formats import CSVOutputFormat, KVWriter, check_format, make_output_format
from tfbaselines.logs.logger import Logger
from tfbaselines.parallel import mpi

# Episodes in the means of the logs.
EPISODES_IN_MEAN = 100
# Suffixes of the statistics of one batch (learn/losses.py, spread); the mean has none.
SPREAD = ("", ":std", ":min", ":max")


class Statistics(NamedTuple):
    """Statistics of stored values; NaN if there are none."""

    mean: float
    std: float
    min: float
    max: float


def safe_mean(values: Any) -> float:
    """Return the mean, or NaN if there are no values."""
    return float(np.mean(values)) if len(values) else float("nan")


class Store:
    """Collect values by name during an epoch, and give their statistics.

    Args:
        comm: ranks that `merged` goes over; None for all of the MPI run.
    """

    def __init__(self, comm: Any = None) -> None:
        self.comm = mpi.wrap(comm)
        self._values: dict[str, list[np.ndarray]] = {}

    def store(self, **values: Any) -> None:
        """Store numbers or arrays of any shape."""
        for name, value in values.items():
            self._values.setdefault(name, []).append(np.ravel(np.asarray(value, dtype=np.float64)))

    def store_episodes(self, episodes: list[dict[str, Any]], prefix: str = "") -> None:
        """Store the returns and lengths of episodes."""
        for episode in episodes:
            self.store(**{f"{prefix}EpRet": episode["r"], f"{prefix}EpLen": episode["l"]})

    def values(self, name: str) -> np.ndarray:
        """Return all values of this rank [n], in order."""
        return np.concatenate(self._values.get(name) or [np.empty(0)])

    def count(self, name: str) -> int:
        """Return the number of values of this rank."""
        return sum(map(len, self._values.get(name, ())))

    def mean(self, name: str) -> float:
        """Return the mean of this rank's values; NaN if there are none."""
        return safe_mean(self.values(name))

    def std(self, name: str) -> float:
        """Return the standard deviation of this rank's values; NaN if there are none."""
        return float(np.std(self.values(name))) if self.count(name) else float("nan")

    def merged(self, name: str) -> Statistics:
        """Return the statistics over all ranks; every rank calls this.

        Values may be stored one by one, or as statistics of equal batches with the suffixes of SPREAD.
        """
        count, mean, square, low, high = np.concatenate(self.comm.gather(self._moments(name))).T
        if not count.size:
            return Statistics(*[float("nan")] * 4)
        total = count.sum()
        mean_of_all = (count * mean).sum() / total
        variance = (square + count * (mean - mean_of_all) ** 2).sum() / total
        return Statistics(float(mean_of_all), float(np.sqrt(variance)), float(low.min()), float(high.max()))

    def _moments(self, name: str) -> np.ndarray:
        """Return rows [K, 5]: count, mean, sum of squared deviations from the mean, minimum and maximum of some values.

        Statistics of batches, which count alike, have a row each.
        """
        values = self.values(name)
        if self.count(f"{name}:std"):
            std, low, high = (self.values(f"{name}{suffix}") for suffix in SPREAD[1:])
            return np.stack([np.ones_like(values), values, std * std, low, high], axis=1)
        if not values.size:
            return np.empty((0, 5))
        mean = values.mean()
        return np.array([[values.size, mean, np.square(values - mean).sum(), values.min(), values.max()]])

    def forget(self, *names: str) -> None:
        """Drop the values of these names, or all values."""
        for name in names or list(self._values):
            for suffix in SPREAD:
                self._values.pop(f"{name}{suffix}", None)

    def state(self) -> dict[str, Any]:
        """Return the values stored so far."""
        return {"values": {name: np.concatenate(arrays) for name, arrays in self._values.items()}}

    def restore(self, state: dict[str, Any]) -> None:
        self._values = {name: [array] for name, array in state["values"].items()}


def mean_over_ranks(row: Mapping[str, float], comm: mpi.Communicator) -> dict[str, float]:
    """Return each column's mean over ranks; every rank calls this."""
    means = comm.sum(np.array(list(row.values()), np.float64)) / comm.size
    return dict(zip(row, means.tolist(), strict=True))


class Episodes:
    """Keep the returns and lengths of the latest episodes.

    Attributes:
        count: number of all episodes so far.
    """

    def __init__(self, in_mean: int = EPISODES_IN_MEAN) -> None:
        self._latest: deque[tuple[float, float]] = deque(maxlen=in_mean)
        self.count = 0
        self._mean_reward: float | None = None
        self._further: dict[str, deque[float]] = {}

    def keep(self, keys: Sequence[str]) -> None:
        """Keep these entries of the episodes too."""
        self._further = {key: deque(maxlen=self._latest.maxlen) for key in keys}

    def further_means(self) -> dict[str, float]:
        """Return the means of the further entries, as columns of the logs."""
        return {f"episode/{key}": safe_mean(values) for key, values in self._further.items()}

    def extend(self, episodes: list[dict[str, Any]]) -> None:
        """Store 'episode' entries of infos."""
        if not episodes:
            return
        self._mean_reward = None
        self.count += len(episodes)
        self._latest.extend((float(episode["r"]), float(episode["l"])) for episode in episodes)
        for key, values in self._further.items():
            for episode in episodes:
                try:
                    values.append(float(episode[key]))
                except (LookupError, TypeError, ValueError):
                    accepted = f"at the end of an episode, info['{key}'] must be a number, not {episode.get(key)!r:.80}"
                    raise bad_argument("monitor_keys", key, accepted) from None

    @property
    def rewards(self) -> list[float]:
        """Returns of the latest episodes."""
        return [reward for reward, _ in self._latest]

    @property
    def lengths(self) -> list[float]:
        """Lengths of the latest episodes."""
        return [length for _, length in self._latest]

    @property
    def mean_reward(self) -> float:
        """Mean return of the latest episodes; NaN before the first one ends."""
        if self._mean_reward is None:
            self._mean_reward = safe_mean(self.rewards)
        return self._mean_reward

    @property
    def full(self) -> bool:
        """True if as many episodes have ended as this object keeps."""
        return len(self._latest) == self._latest.maxlen

    @property
    def std_reward(self) -> float:
        """Standard deviation of the returns of the latest episodes; NaN before the first one ends."""
        return float(np.std(self.rewards)) if self._latest else float("nan")

    @property
    def mean_length(self) -> float:
        """Mean length of the latest episodes; NaN before the first one ends."""
        return safe_mean(self.lengths)

    def state(self) -> dict[str, Any]:
        """Return the episodes and their number."""
        further = {key: np.asarray(values, np.float64) for key, values in self._further.items()}
        latest = np.asarray(self._latest, np.float64).reshape(-1, 2)
        return {"latest": latest, "count": self.count} | ({"further": further} if further else {})

    def restore(self, state: dict[str, Any]) -> None:
        self._mean_reward = None
        self._latest.clear()
        self._latest.extend(tuple(row) for row in state["latest"].tolist())
        for key, values in self._further.items():
            values.clear()
            values.extend(np.ravel(state.get("further", {}).get(key, [])).tolist())
        self.count = state["count"]


# Terminal codes of foreground colors; a background color has a code 10 higher.
_NAMES = ("gray", "red", "green", "yellow", "blue", "magenta", "cyan", "white", "crimson")
COLORS = {name: 30 + k for k, name in enumerate(_NAMES)}


def colorize(string: str, color: str, bold: bool = False, highlight: bool = False) -> str:
    """Color a text for terminals.

    Args:
        color: one of COLORS.
        highlight: color the background instead of the letters.
    """
    if color not in COLORS:
        raise unknown("color", color, COLORS)
    codes = [str(COLORS[color] + 10 * highlight), *(["1"] if bold else [])]
    return f"\x1b[{';'.join(codes)}m{string}\x1b[0m"


class EpochTable(Store):
    """Stores values during an epoch, and makes the row of their statistics."""

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
        output_dir: log directory, made if missing; default: `experiments-<seconds since 1970>-<random name>` in the
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
        self.logger.close()
        atexit.unregister(self.logger.close)

    def _open(self, fname: str, format_strs: Sequence[str], resume: bool) -> tuple[CSVOutputFormat, list[KVWriter]]:
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
    """Return the directory, or a new one of a random name in the system's temporary one if it is None."""
    if output_dir is None:
        return tempfile.mkdtemp(prefix=f"experiments-{int(time.time())}-")
    output_dir = os.fspath(output_dir)
    if not output_dir.strip():
        raise bad_argument("output_dir", output_dir, "the name of a directory")
    return os.path.expanduser(output_dir)
