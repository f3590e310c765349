"""A table of values as a policy: the cells of the observations, in numpy and in the graph, and a value per action."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.envs.vec.observations import MASK as ACTION_MASK
from tfbaselines.envs.vec.observations import parts_of
from tfbaselines.envs.vec.packed import opened, unpacked
from tfbaselines.errors import UsageError, bad_argument
from tfbaselines.files import require_memory
from tfbaselines.policy.base import BasePolicy, Outputs, Step
from tfbaselines.policy.encoding import FORBIDDEN, parts_in, without_mask
from tfbaselines.policy.policy import CertainHead

# A larger bound counts as no bound.
LARGEST_BOUND = 1e6
LARGEST_NUMBER = float(np.finfo(np.float32).max) / 2


class Cells:
    """Numbers the cells of a space: of a grid for a Box, of all values for the other spaces.

    Observations outside the grid are in its nearest cell.

    Args:
        space: Box, Discrete, MultiDiscrete or MultiBinary.
        grid_size: cells along each dimension of a Box, or a list with a number for each.
        low: start of a Box's grid, one number or a list with one for each dimension; None for the space's bounds.
        high: end of a Box's grid, likewise.

    Attributes:
        sizes: [D] cells along each dimension.
        count: number of all cells.
        low: [D] start of the grid, float32; infinite where the space has no bound yet.
        high: [D] end of the grid, likewise.
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
        # The remainder avoids overflow; a table of that many cells does not fit into memory anyway.
        strides = [*itertools.accumulate(sizes[:0:-1], lambda total, size: total * size % 2**62, initial=1)]
        self._strides = np.array(strides[::-1])
        self._fit()

    @property
    def unbounded(self) -> np.ndarray:
        """Dimensions [D] that lack a bound."""
        return ~(np.isfinite(self.low) & np.isfinite(self.high))

    def bound(self, low: np.ndarray, high: np.ndarray) -> None:
        """Set missing bounds [D]; a number that never changes gets a grid of width 1."""
        self.low = np.where(np.isfinite(self.low), self.low, _within(low))
        self.high = np.where(np.isfinite(self.high), self.high, _within(high))
        self.high = np.where(self.high > self.low, self.high, self.low + 1).astype(np.float32)
        self._fit()

    def of(self, obs: np.ndarray) -> np.ndarray:
        """Find the cells [B] of observations [B, ...]."""
        rows = obs.reshape(len(obs), -1)
        if not self._box:
            return (rows - self._starts).dot(self._strides)
        place = (rows.astype(np.float32, copy=False) - self.low) * self._scale
        # `dot` is faster than `@` for small integers.
        return np.minimum(np.maximum(place, self._first), self._last).astype(np.int64).dot(self._strides)

    def in_graph(self, obs: tf.Tensor) -> tf.Tensor:
        """Find the cells of tensors, as `of` does."""
        rows = tf.reshape(obs, (-1, len(self.sizes)))
        if self._box:
            place = (tf.cast(rows, tf.float32) - self.low) * self._scale
            digits = tf.cast(tf.clip_by_value(place, 0.0, self._last), tf.int64)
        else:
            digits = tf.cast(rows, tf.int64) - self._starts
        return tf.reduce_sum(digits * self._strides, axis=1)

    def state(self) -> dict[str, Any]:
        """Return the grid."""
        return {"sizes": self.sizes, "low": self.low, "high": self.high}

    def restore(self, state: dict[str, Any]) -> None:
        """Load the result of `state`; UsageError when it has other sizes."""
        saved = np.asarray(state["sizes"]).tolist()
        if saved != self.sizes.tolist():
            raise UsageError(f"the saved table has {saved} cells along its dimensions, this one {self.sizes.tolist()}")
        self.low, self.high = (np.array(state[name], np.float32).reshape(self.low.shape) for name in ("low", "high"))
        self._fit()

    def _fit(self) -> None:
        with np.errstate(invalid="ignore"):
            width = self.high.astype(np.float64) - self.low
            self._scale = (self.sizes / width).astype(np.float32) if self._box else None
        self._first = np.zeros(len(self.sizes), np.float32)
        self._last = (self.sizes - 1).astype(np.float32)


def _values(space: spaces.Space) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of values of each part of a discrete space, and the first value of each part."""
    if isinstance(space, spaces.Discrete):
        return np.array([space.n], np.int64), np.array([space.start], np.int64)
    if isinstance(space, spaces.MultiDiscrete):
        return space.nvec.ravel().astype(np.int64), np.asarray(space.start, np.int64).ravel()
    if isinstance(space, spaces.MultiBinary):
        count = math.prod(space.shape)
        return np.full(count, 2), np.zeros(count, np.int64)
    raise UsageError(f"a table of {space} is not supported: accepted are Box, Discrete, MultiDiscrete and MultiBinary")


def _bounds(given: float | Sequence[float] | None, own: np.ndarray, name: str) -> np.ndarray:
    """Return a grid's bounds [D], float32: the given ones, else the space's; infinite where these are too large."""
    if given is not None:
        return _within(_each(given, own.size, name)).astype(np.float32)
    bounds = own.ravel().astype(np.float64)
    return np.where(np.abs(bounds) < LARGEST_BOUND, bounds, np.inf if name == "high" else -np.inf).astype(np.float32)


def _within(numbers: np.ndarray) -> np.ndarray:
    """Clip numbers so that float32 can hold them and their differences."""
    return np.clip(numbers, -LARGEST_NUMBER, LARGEST_NUMBER)


def _each(given: Any, dimensions: int, name: str) -> np.ndarray:
    """Return a number for each dimension."""
    numbers = np.asarray(given, np.float64)
    if numbers.ndim > 1 or (numbers.ndim == 1 and len(numbers) != dimensions):
        accepted = f"a number, or a list of {dimensions}: one for each dimension of the observations"
        raise bad_argument(name, given, accepted)
    return np.broadcast_to(numbers, dimensions)


FLOAT_BYTES = 4
# The table and the copies that saving makes.
COPIES = 4
MOST_CELLS = 2**60


class ArrayVariable:
    """A float32 array that changes in place, with the interface of a Keras variable."""

    def __init__(self, array: np.ndarray, path: str) -> None:
        self.array = array
        self.path = path
        self.shape = array.shape
        self.dtype = array.dtype.name
        self._variable: tf.Variable | None = None

    def numpy(self) -> np.ndarray:
        """Copy the numbers."""
        return self.array.copy()

    def assign(self, value: Any) -> None:
        """Set the numbers to others of the same shape."""
        self.array[...] = value

    @property
    def value(self) -> tf.Variable:
        """The TensorFlow variable with the present numbers; it is made on first use."""
        with tf.init_scope():
            if self._variable is None:
                self._variable = tf.Variable(self.array, trainable=False, name=self.path)
            else:
                self._variable.assign(self.array)
        return self._variable


def tables_part(space: spaces.Space) -> spaces.Space:
    """Return the space of the table's observations: the only part apart from an action mask."""
    rest = without_mask(opened(space))
    parts = list(parts_of(rest).values())
    return parts[0] if len(parts) == 1 else rest


class TablePolicy(BasePolicy):
    """Chooses the first action of the largest value [cells, actions] in the observation's cell."""

    one_hot = False

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Discrete,
        cells: Cells,
        initial_value: float = 0.0,
    ) -> None:
        if not isinstance(action_space, spaces.Discrete):
            raise UsageError(f"a table needs Discrete actions, not {action_space}")
        super().__init__(observation_space, action_space, CertainHead(action_space))
        self.cells = cells
        self._several = isinstance(opened(observation_space), spaces.Dict)
        # The number of bytes overflows a float for a grid of very many dimensions.
        needed = min(cells.count, MOST_CELLS) * int(action_space.n) * FLOAT_BYTES * COPIES
        require_memory(needed, "grid_size", "the table")
        table = np.full((cells.count, int(action_space.n)), initial_value, np.float32)
        self.table = ArrayVariable(table, "table")

    @property
    def parameter_groups(self) -> dict[str, list[ArrayVariable]]:
        return {"q": self.trainable_variables}

    @property
    def modules(self) -> list[Any]:
        return []

    @property
    def trainable_variables(self) -> list[ArrayVariable]:
        return [self.table]

    def forward(self, obs: Any, episode_start: Any = None, states: Any = None) -> Outputs:
        own, mask = self._apart(parts_in(obs, self.observation_space)) if self._several else (obs, None)
        values = tf.gather(self.table.value, self.cells.in_graph(own))
        if mask is not None:
            values += FORBIDDEN * (1.0 - tf.cast(mask, tf.float32))
        return Outputs(values, tf.reduce_max(values, axis=-1))

    def apart(self, obs: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """Split observations [B, ...] into the table's part and the action mask [B, A], or None."""
        return self._apart(unpacked(obs, self.observation_space)) if self._several else (obs, None)

    def look(self, obs: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """Find the cells [B] of observations [B, ...], and the penalties [B, A] of forbidden actions, or None."""
        seen, mask = self.apart(obs)
        return self.cells.of(seen), None if mask is None else np.float32(FORBIDDEN) * (1 - mask)

    def values(self, cells: np.ndarray, forbidden: np.ndarray | None) -> np.ndarray:
        """Return the values [B, A] of all actions in cells [B], with the penalties of forbidden actions."""
        # np.take is faster than indexing for a few rows.
        values = self.table.array.take(cells, axis=0)
        return values if forbidden is None else values + forbidden

    def _apart(self, parts: Mapping[str, Any]) -> tuple[Any, Any]:
        (own,) = (part for name, part in parts.items() if name != ACTION_MASK)
        return own, parts.get(ACTION_MASK)

    def make_actor(self) -> "TableActor":
        return TableActor(self)

    def state(self) -> dict[str, Any]:
        return super().state() | {"cells": self.cells.state()}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.cells.restore(state["cells"])


class TableActor:
    """A SamplingActor (policy/base.py) that reads a table without a graph; it ignores states and episode_start."""

    def __init__(self, policy: TablePolicy) -> None:
        self._policy = policy
        self._head = policy.head

    def refresh(self) -> None:
        """Do nothing: the actor reads the table itself."""

    def choose(self, obs: np.ndarray, states: Any, episode_start: Any, noise: Any) -> tuple[np.ndarray, None]:
        """Choose actions [N]; return them and no states."""
        return self._head.mode_numpy(self._values(obs)), None

    def value(self, obs: np.ndarray, states: Any = None, episode_start: Any = None) -> np.ndarray:
        """Return the largest values [N]."""
        return self._values(obs).max(axis=1)

    def step(self, obs: np.ndarray, states: Any, episode_start: Any, noise: Any) -> Step:
        """Choose actions; return them, the largest values, and zeros as negative log probabilities."""
        values = self._values(obs)
        return Step(self._head.mode_numpy(values), values.max(axis=1), None, np.zeros(len(values), np.float32))

    def behave(
        self, obs: np.ndarray, states: Any, episode_start: Any, noise: Any
    ) -> tuple[np.ndarray, np.ndarray, None]:
        """Choose actions [N]; return them, the values [N, A] of all actions, and no states."""
        values = self._values(obs)
        return self._head.mode_numpy(values), values, None

    def _values(self, obs: np.ndarray) -> np.ndarray:
        return self._policy.values(*self._policy.look(obs))
