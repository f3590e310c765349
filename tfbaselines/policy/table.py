"""A table of values, one for each cell of the observations and each action, as a policy."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.envs.vec.action_mask import MASK as ACTION_MASK
from tfbaselines.envs.vec.observations import parts_of
from tfbaselines.envs.vec.packed import opened, unpacked
from tfbaselines.memory import require_memory
from tfbaselines.policy.base import BasePolicy
from tfbaselines.policy.cells import Cells
from tfbaselines.policy.direct import CertainHead
from tfbaselines.policy.encoding import parts_in
from tfbaselines.policy.parts import FORBIDDEN, without_mask
from tfbaselines.policy.protocol import Outputs, Step

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
            raise ValueError(f"a table needs Discrete actions, not {action_space}")
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
    """Acts by a table; see SamplingActor in policy/protocol.py. States and episode_start are ignored.

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
