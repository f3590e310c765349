"""Statistics for rows of the logs: values stored during an epoch, and the latest episodes."""

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

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


class Moments(NamedTuple):
    """Moments of some values; `square` is the sum of squared deviations from the mean."""

    count: int
    mean: float
    square: float
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
        """Store the returns and lengths of episodes.

        Args:
            episodes: the infos' 'episode' entries.
            prefix: begins the names EpRet and EpLen.
        """
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
        own = _spread(*(self.values(f"{name}{suffix}") for suffix in SPREAD)) if self.count(f"{name}:std") else []
        gathered = self.comm.gather(own or [_moments(self.values(name))])
        parts = [part for of_rank in gathered for part in of_rank if part.count > 0]
        if not parts:
            return Statistics(*[float("nan")] * 4)
        count = sum(part.count for part in parts)
        mean = sum(part.count * part.mean for part in parts) / count
        square = sum(part.square + part.count * (part.mean - mean) ** 2 for part in parts)
        lowest = min(part.min for part in parts)
        highest = max(part.max for part in parts)
        return Statistics(mean, float(np.sqrt(square / count)), lowest, highest)

    def forget(self, *names: str) -> None:
        """Drop the values of these names, or all values."""
        for name in names or list(self._values):
            for suffix in SPREAD:
                self._values.pop(f"{name}{suffix}", None)

    def state(self) -> dict[str, Any]:
        """Return the values stored so far."""
        return {"values": {name: np.concatenate(arrays) for name, arrays in self._values.items()}}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over values that `state` returned."""
        self._values = {name: [array] for name, array in state["values"].items()}


def _moments(values: np.ndarray) -> Moments:
    if not values.size:
        return Moments(0, 0.0, 0.0, 0.0, 0.0)
    mean = float(values.mean())
    square = float(np.square(values - mean).sum())
    return Moments(values.size, mean, square, float(values.min()), float(values.max()))


def _spread(mean: np.ndarray, std: np.ndarray, low: np.ndarray, high: np.ndarray) -> list[Moments]:
    """Return the moments of batches, which count alike."""
    rows = zip(mean.tolist(), std.tolist(), low.tolist(), high.tolist(), strict=True)
    return [Moments(1, row[0], row[1] * row[1], row[2], row[3]) for row in rows]


def mean_over_ranks(row: Mapping[str, float], comm: mpi.Communicator) -> dict[str, float]:
    """Return each column's mean over ranks; every rank calls this."""
    means = comm.sum(np.array(list(row.values()), np.float64)) / comm.size
    return dict(zip(row, means.tolist(), strict=True))


class Episodes:
    """Keep the returns and lengths of the latest episodes.

    Attributes:
        count: number of all episodes so far.

    Args:
        in_mean: number of episodes to keep.
    """

    def __init__(self, in_mean: int = EPISODES_IN_MEAN) -> None:
        self._latest: deque[tuple[float, float]] = deque(maxlen=in_mean)
        self.count = 0
        self._mean_reward: float | None = None

    def extend(self, episodes: list[dict[str, Any]]) -> None:
        """Store 'episode' entries of infos."""
        if not episodes:
            return
        self._mean_reward = None
        self.count += len(episodes)
        self._latest.extend((float(episode["r"]), float(episode["l"])) for episode in episodes)

    @property
    def rewards(self) -> list[float]:
        """Returns of the latest episodes."""
        return [reward for reward, _ in self._latest]

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
        return safe_mean([length for _, length in self._latest])

    def state(self) -> dict[str, Any]:
        """Return the episodes and their number."""
        return {"latest": np.asarray(self._latest, np.float64).reshape(-1, 2), "count": self.count}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over episodes that `state` returned."""
        self._mean_reward = None
        self._latest.clear()
        self._latest.extend(tuple(row) for row in state["latest"].tolist())
        self.count = state["count"]
