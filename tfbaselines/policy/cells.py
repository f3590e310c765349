"""From observations to the cells of a table, in numpy and in the graph."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.errors import bad_argument

# Bounds beyond this are none.
LARGEST_BOUND = 1e6


class Cells:
    """A number for each cell: of a Box on a grid, of the other spaces for each value that there is.

    Observations outside of the grid are in its nearest cell.

    Args:
        space: Box, Discrete, MultiDiscrete or MultiBinary.
        grid_size: cells along each dimension of a Box, or a list with a number for each.
        low: where a Box's grid begins, one number or a list with one for each dimension; None for the space's bounds.
        high: where it ends.

    Attributes:
        sizes: [D] cells along each dimension.
        count: all cells.
        low, high: [D] the grid's bounds, float32; infinite where there are none yet.
    """

    def __init__(
        self,
        space: spaces.Space,
        grid_size: int | Sequence[int] = 20,
        low: float | Sequence[float] | None = None,
        high: float | Sequence[float] | None = None,
    ) -> None:
        self._box = isinstance(space, spaces.Box)
        if self._box:
            dimensions = math.prod(space.shape)
            self.sizes = _each(grid_size, dimensions, "grid_size").astype(np.int64)
            self.low = _bounds(low, space.low, "low")
            self.high = _bounds(high, space.high, "high")
            if not (self.low < self.high).all():
                raise bad_argument("low", low, f"below high, which is {self.high.tolist()}, in every dimension")
        else:
            self.sizes, self._starts = _values(space)
            # A value is the middle of its cell.
            self.low = (self._starts - 0.5).astype(np.float32)
            self.high = (self.low + self.sizes).astype(np.float32)
        sizes = self.sizes.tolist()
        self.count = math.prod(sizes)
        # Of more cells than there are numbers no table can be made.
        self._strides = np.array([math.prod(sizes[k + 1 :]) % 2**62 for k in range(len(sizes))])
        self._fit()

    @property
    def unbounded(self) -> np.ndarray:
        """[D] whether a dimension lacks one of its bounds."""
        return ~(np.isfinite(self.low) & np.isfinite(self.high))

    def bound(self, low: np.ndarray, high: np.ndarray) -> None:
        """Set bounds [D] where there are none yet; those of a number that never changes are made to differ."""
        self.low, self.high = (np.where(np.isfinite(own), own, at) for own, at in ((self.low, low), (self.high, high)))
        self.high = np.where(self.high > self.low, self.high, self.low + 1).astype(np.float32)
        self._fit()

    def of(self, obs: np.ndarray) -> np.ndarray:
        """The cells [B] of observations [B, ...]."""
        rows = obs.reshape(len(obs), -1)
        if not self._box:
            return (rows - self._starts).dot(self._strides)
        place = (rows.astype(np.float32, copy=False) - self.low) * self._scale
        # Of small integers `dot` is quicker than `@`.
        return np.minimum(np.maximum(place, self._first), self._last).astype(np.int64).dot(self._strides)

    def in_graph(self, obs: tf.Tensor) -> tf.Tensor:
        """`of` for tensors."""
        rows = tf.reshape(obs, (-1, len(self.sizes)))
        if self._box:
            place = (tf.cast(rows, tf.float32) - self.low) * self._scale
            digits = tf.cast(tf.clip_by_value(place, 0.0, self._last), tf.int64)
        else:
            digits = tf.cast(rows, tf.int64) - self._starts
        return tf.reduce_sum(digits * self._strides, axis=1)

    def state(self) -> dict[str, Any]:
        """The grid."""
        return {"sizes": self.sizes, "low": self.low, "high": self.high}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `state` gave; ValueError when it has other sizes."""
        saved = np.asarray(state["sizes"]).tolist()
        if saved != self.sizes.tolist():
            raise ValueError(f"the saved table has {saved} cells along its dimensions, this one {self.sizes.tolist()}")
        self.low, self.high = (np.array(state[name], np.float32).reshape(self.low.shape) for name in ("low", "high"))
        self._fit()

    def _fit(self) -> None:
        with np.errstate(invalid="ignore"):
            self._scale = (self.sizes / (self.high - self.low)).astype(np.float32) if self._box else None
        self._first, self._last = np.zeros(len(self.sizes), np.float32), (self.sizes - 1).astype(np.float32)


def _values(space: spaces.Space) -> tuple[np.ndarray, np.ndarray]:
    """How many values each part of a discrete space has, and the first of each."""
    if isinstance(space, spaces.Discrete):
        return np.array([space.n], np.int64), np.array([space.start], np.int64)
    if isinstance(space, spaces.MultiDiscrete):
        return space.nvec.ravel().astype(np.int64), np.asarray(space.start, np.int64).ravel()
    if isinstance(space, spaces.MultiBinary):
        count = math.prod(space.shape)
        return np.full(count, 2), np.zeros(count, np.int64)
    raise ValueError(f"a table of {space} is not supported: accepted are Box, Discrete, MultiDiscrete and MultiBinary")


def _bounds(given: float | Sequence[float] | None, own: np.ndarray, name: str) -> np.ndarray:
    """A grid's bounds [D], float32: those given, else the space's own, infinite where they are too large to be any."""
    if given is not None:
        return _each(given, own.size, name).astype(np.float32)
    bounds = own.ravel().astype(np.float32)
    return np.where(np.abs(bounds) < LARGEST_BOUND, bounds, np.inf if name == "high" else -np.inf).astype(np.float32)


def _each(given: Any, dimensions: int, name: str) -> np.ndarray:
    """A number for each dimension."""
    numbers = np.asarray(given, np.float64)
    if numbers.ndim > 1 or (numbers.ndim == 1 and len(numbers) != dimensions):
        accepted = f"a number, or a list of {dimensions}: one for each dimension of the observations"
        raise bad_argument(name, given, accepted)
    return np.broadcast_to(numbers, dimensions)
