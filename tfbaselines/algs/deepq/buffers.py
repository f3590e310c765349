"""Names that deepq of baselines has beside learn(): replay buffers with segment trees, and schedules; no TensorFlow.

Buffers keep transitions as they are given, so that observations can share frames. Indices are drawn from Python's
generator, one number each, as in the original.

A segment tree keeps the sum or the minimum of every aligned range of an array. A node has WIDTH children, not two: a
numpy call on a row of them costs no more than a call on a pair, and there are few levels. The top level has up to
MOST_AT_TOP nodes, and every search visits them all. Inner nodes are updated when they are next read.
"""

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from tfbaselines.config.schedules import ConstantSchedule, LinearSchedule, PiecewiseSchedule
from tfbaselines.errors import UsageError

__all__ = [
    "ConstantSchedule",
    "LinearSchedule",
    "MinSegmentTree",
    "PiecewiseSchedule",
    "PrioritizedReplayBuffer",
    "ReplayBuffer",
    "SumSegmentTree",
    "load_act",
]

WIDTH = 64
MOST_AT_TOP = 2048


class SegmentTree:
    """A tree of values: a node of a level combines WIDTH nodes of the level below, and leaves hold the values.

    Args:
        capacity: number of leaves, a power of two.
        operation: combines two children; a numpy ufunc is fastest.
        neutral: value of a leaf that was not set.

    Attributes:
        leaves: all values [capacity] as a view. Call `rebuild` after writing to it.
        nbytes: memory of the tree.
    """

    def __init__(self, capacity: int, operation: Callable[[float, float], float], neutral: float) -> None:
        if capacity < 1 or capacity & (capacity - 1):
            raise UsageError(f"capacity={capacity}: expected a power of two")
        self._capacity = capacity
        self._neutral = neutral
        self._operation = operation if isinstance(operation, np.ufunc) else np.frompyfunc(operation, 2, 1)
        # The leaves and the levels above them, each padded to whole nodes; then the top level.
        self._levels = []
        count = capacity
        while not self._levels or count > MOST_AT_TOP:
            count = -(-count // WIDTH)
            self._levels.append(np.full((count, WIDTH), neutral, np.float64))
        self._top = np.full(count, neutral, np.float64)
        self.leaves = self._levels[0].reshape(-1)[:capacity]
        self.nbytes = sum(level.nbytes for level in self._levels) + self._top.nbytes
        # A flat view of the level above each level.
        self._above = [*(level.reshape(-1) for level in self._levels[1:]), self._top]
        self._changed: list[np.ndarray] = []

    def __getitem__(self, index: int | np.ndarray) -> float | np.ndarray:
        return self.leaves[index]

    def __setitem__(self, index: int | np.ndarray, value: float | np.ndarray) -> None:
        self.leaves[index] = value
        self._changed.append(np.atleast_1d(index) // WIDTH)

    def fill(self, start: int, end: int, value: float) -> None:
        """Set the leaves start to end - 1 to one value."""
        self.leaves[start:end] = value
        self._changed.append(np.arange(start // WIDTH, -(-end // WIDTH)))

    def rebuild(self) -> None:
        """Recompute every inner node from the leaves."""
        self._changed = [np.arange(len(self._levels[0]))]

    def reduce(self, start: int = 0, end: int | None = None) -> float:
        """Combine the leaves start to end - 1; None is the capacity, negative ends count from it."""
        end = self._capacity if end is None else end + self._capacity * (end < 0)
        self._update()
        if (start, end) == (0, self._capacity):
            return float(self._operation.reduce(self._top))
        pieces = []
        for level in self._levels:
            # The ends that whole nodes of the next level do not cover.
            first = min(-(-start // WIDTH) * WIDTH, end)
            last = max(end // WIDTH * WIDTH, first)
            pieces += [level.reshape(-1)[start:first], level.reshape(-1)[last:end]]
            start, end = first // WIDTH, last // WIDTH
        pieces.append(self._top[start:end])
        return float(self._operation.reduce([self._operation.reduce(p, initial=self._neutral) for p in pieces]))

    def _update(self) -> None:
        """Recompute the nodes above leaves that changed."""
        if not self._changed:
            return
        # Nodes may repeat: every repetition computes the same value.
        nodes = self._changed[0] if len(self._changed) == 1 else np.concatenate(self._changed)
        self._changed = []
        for level, above in zip(self._levels, self._above, strict=True):
            above[nodes] = self._operation.reduce(level.take(nodes, axis=0), axis=1)
            nodes = nodes // WIDTH


class SumSegmentTree(SegmentTree):
    """A segment tree of sums; `sum` is `reduce`."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity, np.add, 0.0)

    sum = SegmentTree.reduce

    def find_prefixsum_idx(self, prefixsum: float | np.ndarray) -> int | np.ndarray:
        """Find the leaf i with sum(0, i) <= prefixsum < sum(0, i + 1), for each number; never a leaf of 0."""
        self._update()
        ends = self._top.cumsum()
        # Rounding may leave the whole sum as the rest: it belongs to the last leaf that is not 0.
        rest = np.minimum(np.atleast_1d(prefixsum), np.nextafter(ends[-1], 0.0))
        nodes = ends.searchsorted(rest, side="right")
        rest -= np.where(nodes > 0, ends[nodes - 1], 0.0)
        for level in reversed(self._levels):
            ends = level.take(nodes, axis=0).cumsum(axis=1)
            rest = np.minimum(rest, np.nextafter(ends[:, -1], 0.0))
            child = (ends > rest[:, None]).argmax(axis=1)
            nodes = nodes * WIDTH + child
            if level is not self._levels[0]:
                rest -= np.where(child > 0, ends[np.arange(len(rest)), child - 1], 0.0)
        return int(nodes[0]) if np.ndim(prefixsum) == 0 else nodes


class MinSegmentTree(SegmentTree):
    """A segment tree of minima; `min` is `reduce`."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity, np.minimum, np.inf)

    min = SegmentTree.reduce


Columns = tuple[np.ndarray, ...]


class ReplayBuffer:
    """The latest transitions, drawn uniformly by a generator of Python's `random`; None for the global one."""

    def __init__(self, size: int, rng: random.Random | None = None) -> None:
        self._size = int(size)
        self._rng = rng or random
        self._storage: list[tuple] = []
        self._next = 0

    def __len__(self) -> int:
        return len(self._storage)

    def add(self, obs_t: Any, action: Any, reward: float, obs_tp1: Any, done: float) -> None:
        """Store one transition; a full buffer drops the oldest."""
        transition = (obs_t, action, reward, obs_tp1, done)
        if len(self._storage) < self._size:
            self._storage.append(transition)
        else:
            self._storage[self._next] = transition
        self._next = (self._next + 1) % self._size

    def sample(self, batch_size: int) -> Columns:
        """Draw arrays [B, ...]: obs_t, actions, rewards, obs_tp1, dones."""
        return self._columns([self._rng.randint(0, len(self) - 1) for _ in range(batch_size)])

    def _columns(self, idxes: Any) -> Columns:
        return tuple(np.array(column) for column in zip(*(self._storage[i] for i in idxes), strict=True))


class PrioritizedReplayBuffer(ReplayBuffer):
    """The latest transitions, drawn in proportion to priority^alpha.

    As in the original, the latest slot of the storage is left out of the total and never drawn.
    """

    def __init__(self, size: int, alpha: float, rng: random.Random | None = None) -> None:
        super().__init__(size, rng)
        capacity = 1 << (self._size - 1).bit_length()
        self._alpha = alpha
        self._max_priority = 1.0
        self._it_sum = SumSegmentTree(capacity)
        self._it_min = MinSegmentTree(capacity)

    def add(self, obs_t: Any, action: Any, reward: float, obs_tp1: Any, done: float) -> None:
        """Store one transition with the largest priority so far."""
        index = self._next
        super().add(obs_t, action, reward, obs_tp1, done)
        self._set(index, self._max_priority)

    def sample(self, batch_size: int, beta: float) -> tuple[np.ndarray, ...]:
        """Draw the arrays of ReplayBuffer, importance weights [B], at most 1, and indices [B]."""
        part = self._it_sum.sum(0, len(self) - 1) / batch_size
        draws = np.array([self._rng.random() for _ in range(batch_size)])
        idxes = self._it_sum.find_prefixsum_idx(draws * part + np.arange(batch_size) * part)
        weights = (self._it_min.min() / self._it_sum[idxes]) ** beta
        return (*self._columns(idxes), weights, idxes)

    def update_priorities(self, idxes: np.ndarray, priorities: np.ndarray) -> None:
        """Set the priorities [B], above 0, of transitions by their indices [B]."""
        idxes, priorities = np.asarray(idxes), np.asarray(priorities, np.float64)
        if not (len(idxes) == len(priorities) and (priorities > 0).all()):
            raise UsageError("priorities: expected a number above 0 for each index")
        if not ((idxes >= 0) & (idxes < len(self))).all():
            raise UsageError(f"idxes: expected 0 to {len(self) - 1}")
        self._set(idxes, priorities)
        self._max_priority = max(self._max_priority, float(priorities.max()))

    def _set(self, idxes: Any, priorities: Any) -> None:
        self._it_sum[idxes] = self._it_min[idxes] = priorities**self._alpha


class Memory:
    """The replay of baselines' ddpg: the latest transitions, drawn uniformly.

    As in the original, the last two transitions are not drawn. The generator is numpy's; None for its global one.
    """

    def __init__(
        self,
        limit: float,
        action_shape: tuple[int, ...],
        observation_shape: tuple[int, ...],
        rng: np.random.Generator | None = None,
    ) -> None:
        self.limit = int(limit)
        self._rng = rng
        self._count = 0
        shapes = {"obs0": observation_shape, "obs1": observation_shape, "actions": action_shape}
        shapes |= {"rewards": (1,), "terminals1": (1,)}
        self._columns = {name: np.zeros((self.limit, *shape), np.float32) for name, shape in shapes.items()}

    @property
    def nb_entries(self) -> int:
        """Number of transitions in the memory."""
        return min(self._count, self.limit)

    def append(self, obs0: Any, action: Any, reward: float, obs1: Any, terminal1: Any, training: bool = True) -> None:
        """Store one transition, unless `training` is False; a full memory drops the oldest."""
        if not training:
            return
        row = self._count % self.limit
        values = {"obs0": obs0, "actions": action, "rewards": reward, "obs1": obs1, "terminals1": terminal1}
        for name, value in values.items():
            self._columns[name][row] = value
        self._count += 1

    def sample(self, batch_size: int) -> dict[str, np.ndarray]:
        """Draw float32 arrays [B, ...]: obs0, obs1, actions, rewards [B, 1], terminals1 [B, 1]; needs 3 transitions."""
        if self.nb_entries < 3:
            raise UsageError(f"sample({batch_size}): the memory holds {self.nb_entries} transitions and needs 3")
        draw = np.random.randint if self._rng is None else self._rng.integers
        # Rows count from the oldest transition.
        rows = (self._count - self.nb_entries + draw(self.nb_entries - 2, size=batch_size)) % self.limit
        return {name: column[rows] for name, column in self._columns.items()}


def load_act(path: str) -> None:
    """Raise an error that names the replacement: a file holds only parameters, without the environment's spaces."""
    raise UsageError(
        f"load_act({path!r}): call learn(network, env, total_timesteps=0, load_path=path), or tfbaselines.load(path) "
        "if a run of the command line or its --save_path wrote the file"
    )
