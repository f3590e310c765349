"""Running means and variances, in one process and merged over ranks."""

import threading
from typing import Any

import numpy as np

from tfbaselines.parallel import mpi


class RunningMeanStd:
    """Mean and population variance of all observations, by merging each batch's moments (float64).

    Args:
        epsilon: initial count, with mean 0 and variance 1.
        shape: of one observation.
    """

    def __init__(self, epsilon: float = 1e-4, shape: tuple[int, ...] = ()) -> None:
        self.mean = np.zeros(shape, np.float64)
        self.var = np.ones(shape, np.float64)
        self.count = float(epsilon)
        self._shared = self._sums()
        # Several threads may update the statistics.
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    def update(self, x: np.ndarray) -> None:
        """Merge a batch [B, ...]."""
        count = len(x)
        if count == 1:
            # A number without axes is several times faster than an array without axes.
            self.update_from_moments(x[0] if self.mean.shape else float(x[0]), 0.0, 1)
            return
        # np.mean and np.var cost ten times these calls for the few rows of a step.
        x = np.asarray(x, np.float64)
        mean = np.add.reduce(x, 0) / count
        centered = x - mean
        self.update_from_moments(mean, np.add.reduce(centered * centered, 0) / count, count)

    def update_from_moments(self, mean: Any, var: Any, count: float) -> None:
        """Merge the moments of `count` observations."""
        with self._lock:
            total = self.count + count
            delta = mean - self.mean
            self.mean = self.mean + delta * (count / total)
            square = delta * delta
            square *= self.count * count / total
            square += self.var * self.count
            if count > 1:
                square += var * count
            square /= total
            self.var = square
            self.count = total

    def state(self) -> dict[str, Any]:
        return {"mean": self.mean, "var": self.var, "count": self.count}

    def restore(self, state: dict[str, Any]) -> None:
        self.mean = np.array(state["mean"], np.float64)
        self.var = np.array(state["var"], np.float64)
        self.count = float(state["count"])
        self._shared = self._sums()

    def merge(self, comm: mpi.Communicator) -> None:
        """Merge the observations of all ranks since the last merge into the statistics of every rank."""
        if comm.size == 1:
            return
        added = [now - before for now, before in zip(self._sums(), self._shared, strict=True)]
        total = _summed(comm, added)
        sums, squares, count = (before + part for before, part in zip(self._shared, total, strict=True))
        self.count = float(count)
        self.mean = sums / self.count
        self.var = np.maximum(squares / self.count - np.square(self.mean), 0.0)
        self._shared = self._sums()

    def _sums(self) -> tuple[np.ndarray, np.ndarray, float]:
        return self.mean * self.count, (self.var + np.square(self.mean)) * self.count, self.count


class MpiRunningMeanStd:
    """Mean and standard deviation from running sums, every batch merged over ranks (sums float64, results float32).

    Args:
        epsilon: initial sum of squares.
        shape: of one observation.
        comm: ranks that merge their observations.
        count: initial count; None for epsilon.
        least_std: lower bound of the standard deviation, for constant components.
    """

    def __init__(
        self,
        epsilon: float = 1e-2,
        shape: tuple[int, ...] = (),
        comm: mpi.Communicator | None = None,
        count: float | None = None,
        least_std: float = 0.1,
    ) -> None:
        self._comm = mpi.wrap(comm)
        self._sum = np.zeros(shape, np.float64)
        self._sumsq = np.full(shape, epsilon, np.float64)
        self._count = float(epsilon if count is None else count)
        self._least_variance = np.float32(least_std**2)

    @property
    def mean(self) -> np.ndarray:
        """Mean of all observations."""
        return np.asarray(self._sum / self._count, np.float32)

    @property
    def std(self) -> np.ndarray:
        """Standard deviation, at least `least_std`."""
        variance = np.asarray(self._sumsq / self._count, np.float32) - np.square(self.mean)
        return np.sqrt(np.maximum(variance, self._least_variance))

    def update(self, x: np.ndarray) -> None:
        """Merge the batches [B, ...] of all ranks; every rank must call this."""
        x = np.asarray(x, np.float64)
        total, squares, count = _summed(self._comm, [x.sum(axis=0), np.square(x).sum(axis=0), float(len(x))])
        self.add(total, squares, float(count))

    def add(self, total: np.ndarray, squares: np.ndarray, count: float) -> None:
        """Add the sums of `count` observations and of their squares; they are equal on all ranks."""
        self._sum = self._sum + total
        self._sumsq = self._sumsq + squares
        self._count += count

    def fit(self, x: np.ndarray, added_std: float) -> None:
        """Replace the statistics by a batch's [B, ...], which is equal on all ranks.

        `added_std` is added to its standard deviation in place of a lower bound.
        """
        x = np.asarray(x, np.float64)
        self._count = float(len(x))
        mean = x.mean(axis=0)
        std = x.std(axis=0) + added_std
        self._sum = self._count * mean
        self._sumsq = self._count * (np.square(mean) + np.square(std))
        self._least_variance = np.float32(0.0)

    def state(self) -> dict[str, Any]:
        state = {"sum": self._sum, "sumsq": self._sumsq, "count": self._count}
        return state | ({} if self._least_variance else {"fitted": True})

    def restore(self, state: dict[str, Any]) -> None:
        self._sum = np.array(state["sum"], np.float64)
        self._sumsq = np.array(state["sumsq"], np.float64)
        self._count = float(state["count"])
        if state.get("fitted"):
            self._least_variance = np.float32(0.0)


def _summed(comm: mpi.Communicator, arrays: list[Any]) -> list[np.ndarray]:
    """Return the sums over ranks of several arrays, in one message."""
    flat = comm.sum(np.concatenate([np.ravel(array) for array in arrays]))
    parts = np.split(flat, np.cumsum([np.size(array) for array in arrays])[:-1])
    return [part.reshape(np.shape(array)) for part, array in zip(parts, arrays, strict=True)]


def mpi_moments(
    x: np.ndarray, axis: int = 0, comm: mpi.Communicator | None = None, keepdims: bool = False
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the mean, standard deviation and count along an axis, over the arrays of all ranks.

    The length of `axis` may differ between ranks.
    """
    comm = mpi.wrap(comm)
    x = np.asarray(x)
    sums = comm.sum(np.append(x.sum(axis=axis, dtype=np.float64).ravel(), float(x.shape[axis])))
    count = int(sums[-1])
    shape = np.delete(x.shape, axis)
    mean = (sums[:-1] / count).reshape(shape)
    squares = comm.sum(np.square(x - np.expand_dims(mean, axis)).sum(axis=axis, dtype=np.float64))
    std = np.sqrt(squares / count)
    if keepdims:
        mean, std = np.expand_dims(mean, axis), np.expand_dims(std, axis)
    return mean, std, count
