"""The replay buffers of baselines' deepq, for scripts that fill them step by step.

Transitions are kept as they are given, so that observations which share frames go on sharing them. Indices are drawn
from Python's generator, one number each, as scripts that set its seed expect.
"""

import random
from typing import Any

import numpy as np

from tfbaselines.experience.replay.segment_tree import MinSegmentTree, SumSegmentTree

Columns = tuple[np.ndarray, ...]


class ReplayBuffer:
    """The latest transitions, drawn uniformly.

    Args:
        size: transitions to keep.
        rng: a generator of Python's `random`; None for its global one.
    """

    def __init__(self, size: int, rng: random.Random | None = None) -> None:
        self._size, self._rng = int(size), rng or random
        self._storage: list[tuple] = []
        self._next = 0

    def __len__(self) -> int:
        return len(self._storage)

    def add(self, obs_t: Any, action: Any, reward: float, obs_tp1: Any, done: float) -> None:
        """Store one transition in place of the oldest if the buffer is full."""
        transition = (obs_t, action, reward, obs_tp1, done)
        if len(self._storage) < self._size:
            self._storage.append(transition)
        else:
            self._storage[self._next] = transition
        self._next = (self._next + 1) % self._size

    def sample(self, batch_size: int) -> Columns:
        """Arrays [B, ...]: obs_t, actions, rewards, obs_tp1, dones."""
        return self._columns([self._rng.randint(0, len(self) - 1) for _ in range(batch_size)])

    def _columns(self, idxes: Any) -> Columns:
        return tuple(np.array(column) for column in zip(*(self._storage[i] for i in idxes), strict=True))


class PrioritizedReplayBuffer(ReplayBuffer):
    """The latest transitions, drawn in proportion to priority^alpha.

    As in the original, the latest slot of the storage has no part in the total that is drawn from.

    Args:
        size: transitions to keep.
        alpha: how much priorities matter, 0 for uniform.
        rng: see ReplayBuffer.
    """

    def __init__(self, size: int, alpha: float, rng: random.Random | None = None) -> None:
        super().__init__(size, rng)
        capacity = 1 << (self._size - 1).bit_length()
        self._alpha, self._max_priority = alpha, 1.0
        self._it_sum, self._it_min = SumSegmentTree(capacity), MinSegmentTree(capacity)

    def add(self, obs_t: Any, action: Any, reward: float, obs_tp1: Any, done: float) -> None:
        """As ReplayBuffer's, with the largest priority so far."""
        index = self._next
        super().add(obs_t, action, reward, obs_tp1, done)
        self._set(index, self._max_priority)

    def sample(self, batch_size: int, beta: float) -> tuple[np.ndarray, ...]:
        """As ReplayBuffer's, with importance weights [B], at most 1, and indices [B].

        Args:
            batch_size: B.
            beta: how far the weights correct for the frequencies, 0 to 1.
        """
        part = self._it_sum.sum(0, len(self) - 1) / batch_size
        draws = np.array([self._rng.random() for _ in range(batch_size)])
        idxes = self._it_sum.find_prefixsum_idx(draws * part + np.arange(batch_size) * part)
        weights = (self._it_min.min() / self._it_sum[idxes]) ** beta
        return (*self._columns(idxes), weights, idxes)

    def update_priorities(self, idxes: np.ndarray, priorities: np.ndarray) -> None:
        """Set the priorities [B], above 0, of transitions by their indices [B]."""
        idxes, priorities = np.asarray(idxes), np.asarray(priorities, np.float64)
        if not (len(idxes) == len(priorities) and (priorities > 0).all()):
            raise ValueError("priorities: expected a number above 0 for each index")
        if not ((idxes >= 0) & (idxes < len(self))).all():
            raise ValueError(f"idxes: expected 0 to {len(self) - 1}")
        self._set(idxes, priorities)
        self._max_priority = max(self._max_priority, float(priorities.max()))

    def _set(self, idxes: Any, priorities: Any) -> None:
        self._it_sum[idxes] = self._it_min[idxes] = priorities**self._alpha


class Memory:
    """The replay of baselines' ddpg: the latest transitions, drawn uniformly.

    As in the original, the last two transitions are not drawn.

    Args:
        limit: transitions to keep.
        action_shape: of one action.
        observation_shape: of one observation.
        rng: numpy generator; None for NumPy's global one.
    """

    def __init__(
        self,
        limit: float,
        action_shape: tuple[int, ...],
        observation_shape: tuple[int, ...],
        rng: np.random.Generator | None = None,
    ) -> None:
        self.limit, self._rng, self._count = int(limit), rng, 0
        shapes = {"obs0": observation_shape, "obs1": observation_shape, "actions": action_shape}
        shapes |= {"rewards": (1,), "terminals1": (1,)}
        self._columns = {name: np.zeros((self.limit, *shape), np.float32) for name, shape in shapes.items()}

    @property
    def nb_entries(self) -> int:
        """Transitions in it."""
        return min(self._count, self.limit)

    def append(self, obs0: Any, action: Any, reward: float, obs1: Any, terminal1: Any, training: bool = True) -> None:
        """Store one transition in place of the oldest if the memory is full.

        Args:
            obs0: the observation.
            action: the action taken.
            reward: its reward.
            obs1: the observation after it.
            terminal1: whether the episode ended there.
            training: False stores nothing.
        """
        if not training:
            return
        row = self._count % self.limit
        values = {"obs0": obs0, "actions": action, "rewards": reward, "obs1": obs1, "terminals1": terminal1}
        for name, value in values.items():
            self._columns[name][row] = value
        self._count += 1

    def sample(self, batch_size: int) -> dict[str, np.ndarray]:
        """Float32 arrays [B, ...]: obs0, obs1, actions, rewards [B, 1], terminals1 [B, 1]; needs 3 transitions."""
        if self.nb_entries < 3:
            raise ValueError(f"sample({batch_size}): the memory holds {self.nb_entries} transitions and needs 3")
        draw = np.random.randint if self._rng is None else self._rng.integers
        # Counted from the oldest.
        rows = (self._count - self.nb_entries + draw(self.nb_entries - 2, size=batch_size)) % self.limit
        return {name: column[rows] for name, column in self._columns.items()}
