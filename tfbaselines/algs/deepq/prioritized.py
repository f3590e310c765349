"""Prioritized experience replay (Schaul et al. 2016, arXiv:1511.05952).

    P(i) = p_i^alpha / sum_j p_j^alpha,   p_i = |td error| + epsilon
    w_i  = (N P(i))^-beta / max_j w_j = (min_j p_j^alpha / p_i^alpha)^beta

New rows get the largest priority so far.
"""

import os
from typing import Any

import numpy as np

from tfbaselines.algs.deepq.buffers import MinSegmentTree, SumSegmentTree
from tfbaselines.replay import Batch, Replay, reshaped


class PrioritizedReplay(Replay):
    """A replay that draws rows with large errors more often; sequences are drawn uniformly.

    Attributes:
        beta: exponent of the importance weights, 0 to 1; `anneal` changes it.

    Args:
        args: arguments of Replay, as are those in kind.
        alpha: exponent of the priorities, 0 for uniform sampling.
        beta: initial value of the attribute.
        epsilon: added to the magnitude of errors, so that every row keeps a chance.
    """

    changing = ("priorities",)

    def __init__(self, *args: Any, alpha: float = 0.6, beta: float = 0.4, epsilon: float = 1e-6, **kind: Any) -> None:
        super().__init__(*args, **kind)
        self.beta = beta
        self._alpha = alpha
        self._epsilon = epsilon
        # Row number r has the leaf r % leaves.
        self._leaves = leaves = self._slots * self.num_envs
        capacity = 1 << (leaves - 1).bit_length()
        self._sums = SumSegmentTree(capacity)
        self._minima = MinSegmentTree(capacity)
        self.nbytes += self._sums.nbytes + self._minima.nbytes
        # A view of the leaves, by slot and environment; it is saved and loaded like any other array.
        self._arrays["priorities"] = self._sums.leaves[:leaves].reshape(self._slots, self.num_envs)
        self._largest = 1.0
        # The trees hold the rows of this many steps.
        self._entered = 0

    def anneal(self, beta: float) -> None:
        """Set the exponent of the importance weights for the next batches."""
        self.beta = beta

    def sample(self, rng: np.random.Generator, batches: int, batch_size: int) -> Batch:
        """Draw batches with importance weights, at most 1, as `weights` [batches, batch_size].

        Each batch has one row from each of batch_size equal parts of the total priority.
        """
        self._enter_new_rows()
        end, total = self.steps * self.num_envs, self._sums.sum()
        # Count from the oldest row: a loaded replay draws the same rows, although they lie in other leaves.
        before = self._sums.sum(0, (end - len(self)) % self._leaves)
        mass = before + (np.arange(batch_size) + rng.random((batches, batch_size))) * (total / batch_size)
        leaves = self._sums.find_prefixsum_idx(np.where(mass < total, mass, mass - total).ravel())
        batch = self.gather(end - (end - leaves) % self._leaves)
        batch["weights"] = ((self._minima.min() / self._sums[leaves]) ** self.beta).astype(np.float32)
        return reshaped(batch, (batches, batch_size))

    def update_priorities(self, rows: np.ndarray, td_errors: np.ndarray) -> None:
        """Set the priorities of sampled rows; skip rows that can no longer be drawn.

        The arrays have any shape; the last error of a repeated row counts.
        """
        self._enter_new_rows()
        rows, priorities = np.ravel(rows), np.abs(np.ravel(td_errors).astype(np.float64)) + self._epsilon
        kept = rows >= (self.steps - self.reach) * self.num_envs
        if not kept.all():
            rows, priorities = rows[kept], priorities[kept]
        if len(rows):
            self._largest = max(self._largest, float(priorities.max()))
            leaves = rows % self._leaves
            self._sums[leaves] = self._minima[leaves] = priorities**self._alpha

    def save(self, directory: str | os.PathLike) -> None:
        self._enter_new_rows()
        super().save(directory)

    def state(self) -> dict[str, Any]:
        self._enter_new_rows()
        return super().state()

    def _about(self) -> dict[str, Any]:
        return super()._about() | {"largest_priority": self._largest}

    def _restore_about(self, about: dict[str, Any]) -> None:
        largest = about.get("largest_priority")
        if not isinstance(largest, int | float) or not 0 < largest < np.inf:
            largest = 1.0
        self._largest = float(largest)
        self._entered = self.steps
        drawn = np.arange(max(0, self.steps - self.reach), self.steps) % self._slots
        self._arrays["priorities"][np.isin(np.arange(self._slots), drawn, invert=True)] = 0.0
        leaves = self._sums.leaves
        # A damaged file may hold other numbers.
        leaves[~np.isfinite(leaves) | (leaves < 0.0)] = 0.0
        self._minima.leaves[...] = np.where(leaves > 0.0, leaves, np.inf)
        self._sums.rebuild()
        self._minima.rebuild()

    def _enter_new_rows(self) -> None:
        """Enter the rows stored since the last call, and remove the rows that cannot be drawn."""
        if self._entered == self.steps:
            return
        value = self._largest**self._alpha
        self._fill(max(self._entered, self.steps - self.reach), self.steps, value, value)
        # The slot of the next step, and the oldest steps: their stacked frames are not all stored.
        self._fill(self.steps - len(self) // self.num_envs - 1, self.steps - self.reach, 0.0, np.inf)
        self._entered = self.steps

    def _fill(self, first: int, last: int, value: float, least: float) -> None:
        """Set the leaves of the steps first to last - 1 of all environments, in the sums and in the minima."""
        if first == last:
            return
        start, count = first * self.num_envs % self._leaves, (last - first) * self.num_envs
        end = min(start + count, self._leaves)
        for part in (slice(start, end), slice(0, start + count - end)):
            if part.start < part.stop:
                self._sums.fill(part.start, part.stop, value)
                self._minima.fill(part.start, part.stop, least)
