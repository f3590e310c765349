"""A table of values, one for each cell of the observations and each action, as a policy.

From observations to the cells of a table, in numpy and in the graph.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.arrays import require_memory
from tfbaselines.envs.vec.observations import MASK as ACTION_MASK
from tfbaselines.envs.vec.observations import parts_of
from tfbaselines.envs.vec.packed import opened, unpacked
from tfbaselines.errors import UsageError, bad_argument
from tfbaselines.policy.base import BasePolicy, Outputs, Step
from tfbaselines.policy.direct import CertainHead
from tfbaselines.policy.encoding import FORBIDDEN, parts_in, without_mask

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
            raise UsageError(f"the saved table has {saved} cells along its dimensions, this one {self.sizes.tolist()}")
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
    raise UsageError(f"a table of {space} is not supported: accepted are Box, Discrete, MultiDiscrete and MultiBinary")


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


FLOAT_BYTES = 4
# The table, and the copies that saving it makes.
COPIES = 4
MOST_CELLS = 2**60


class ArrayVariable:
    """A numpy array that changes in place, with what is asked of a Keras variable.

    Args:
        array: float32.
        path: its name.
    """

    def __init__(self, array: np.ndarray, path: str) -> None:
        self.array, self.path = array, path
        self.shape, self.dtype = array.shape, array.dtype.name
        self._variable: tf.Variable | None = None

    def numpy(self) -> np.ndarray:
        """A copy of the numbers."""
        return self.array.copy()

    def assign(self, value: Any) -> None:
        """Take over numbers of the same shape."""
        self.array[...] = value

    @property
    def value(self) -> tf.Variable:
        """A TensorFlow variable with the present numbers: one and the same, made when it is first asked for."""
        with tf.init_scope():
            if self._variable is None:
                self._variable = tf.Variable(self.array, trainable=False, name=self.path)
            else:
                self._variable.assign(self.array)
        return self._variable


def tables_part(space: spaces.Space) -> spaces.Space:
    """The space of what a table sees: the only part beside an action mask."""
    rest = without_mask(opened(space))
    parts = list(parts_of(rest).values())
    return parts[0] if len(parts) == 1 else rest


class TablePolicy(BasePolicy):
    """The action of the largest value in the observation's cell; the first of them where there are several.

    Args:
        observation_space: of one environment.
        action_space: of one environment, Discrete.
        cells: from observations to cells.
        initial_value: of every cell and action.

    Attributes:
        cells: from observations to cells.
        table: the values [cells, actions].
    """

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
        self.cells, self._several = cells, isinstance(opened(observation_space), spaces.Dict)
        # A float overflows where a grid has very many dimensions.
        needed = min(cells.count, MOST_CELLS) * int(action_space.n) * FLOAT_BYTES * COPIES
        require_memory(needed, "grid_size", "the table")
        table = np.full((cells.count, int(action_space.n)), initial_value, np.float32)
        self.table = ArrayVariable(table, "table")

    @property
    def modules(self) -> list[Any]:
        """None."""
        return []

    @property
    def trainable_variables(self) -> list[ArrayVariable]:
        """The table."""
        return [self.table]

    def forward(self, obs: Any, episode_start: Any = None, states: Any = None) -> Outputs:
        """See ActingPolicy; a row of parameters has the values of all actions."""
        own, mask = self._apart(parts_in(obs, self.observation_space)) if self._several else (obs, None)
        values = tf.gather(self.table.value, self.cells.in_graph(own))
        if mask is not None:
            values += FORBIDDEN * (1.0 - tf.cast(mask, tf.float32))
        return Outputs(values, tf.reduce_max(values, axis=-1))

    def apart(self, obs: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """What the table sees of observations [B, ...], and the action mask [B, A], if there is one."""
        return self._apart(unpacked(obs, self.observation_space)) if self._several else (obs, None)

    def look(self, obs: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """The cells [B] of observations [B, ...], and what the action mask adds to values [B, A], or None."""
        own, mask = self.apart(obs)
        return self.cells.of(own), None if mask is None else np.float32(FORBIDDEN) * (1 - mask)

    def values(self, cells: np.ndarray, forbidden: np.ndarray | None) -> np.ndarray:
        """The values [B, A] of all actions in cells [B], far below all others where an action is forbidden."""
        # np.take is quicker than an index of one row or a few.
        values = self.table.array.take(cells, axis=0)
        return values if forbidden is None else values + forbidden

    def _apart(self, parts: Mapping[str, Any]) -> tuple[Any, Any]:
        (own,) = (part for name, part in parts.items() if name != ACTION_MASK)
        return own, parts.get(ACTION_MASK)

    def make_actor(self) -> "TableActor":
        """What acts by the table without a graph."""
        return TableActor(self)

    def state(self) -> dict[str, Any]:
        """See BasePolicy; and the grid."""
        return super().state() | {"cells": self.cells.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """See BasePolicy."""
        super().restore(state)
        self.cells.restore(state["cells"])


class TableActor:
    """Acts by a table; see SamplingActor in policy/base.py. States and episode_start are ignored.

    Args:
        policy: whose table it is.
    """

    def __init__(self, policy: TablePolicy) -> None:
        self._policy, self._head = policy, policy.head

    def refresh(self) -> None:
        """Do nothing: the table itself is read."""

    def choose(self, obs: np.ndarray, states: Any, episode_start: Any, noise: Any) -> tuple[np.ndarray, None]:
        """Actions [N] and no states."""
        return self._head.mode_numpy(self._values(obs)), None

    def value(self, obs: np.ndarray, states: Any = None, episode_start: Any = None) -> np.ndarray:
        """The largest values [N]."""
        return self._values(obs).max(axis=1)

    def step(self, obs: np.ndarray, states: Any, episode_start: Any, noise: Any) -> Step:
        """Actions, their values, and zeros for negative log probabilities."""
        values = self._values(obs)
        return Step(self._head.mode_numpy(values), values.max(axis=1), None, np.zeros(len(values), np.float32))

    def behave(
        self, obs: np.ndarray, states: Any, episode_start: Any, noise: Any
    ) -> tuple[np.ndarray, np.ndarray, None]:
        """Actions [N], the values [N, A] that they were chosen by, and no states."""
        values = self._values(obs)
        return self._head.mode_numpy(values), values, None

    def _values(self, obs: np.ndarray) -> np.ndarray:
        return self._policy.values(*self._policy.look(obs))
