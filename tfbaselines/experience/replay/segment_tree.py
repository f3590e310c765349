"""Trees over an array that keep the sum or the minimum of every aligned range, in numpy.

A node has WIDTH children, not two: a numpy call on a row of them costs no more than one on a pair, and there are few
levels. The top level has up to MOST_AT_TOP nodes, which every search goes through. Inner nodes are brought up to date
when they are next read.
"""

from collections.abc import Callable

import numpy as np

WIDTH = 64
MOST_AT_TOP = 2048


class SegmentTree:
    """Leaves hold the values; a node of a level combines WIDTH nodes of the level below.

    Args:
        capacity: number of leaves, a power of two.
        operation: what combines two children, best a numpy function.
        neutral: value of a leaf that was not set.
    """

    def __init__(self, capacity: int, operation: Callable[[float, float], float], neutral: float) -> None:
        if capacity < 1 or capacity & (capacity - 1):
            raise ValueError(f"capacity={capacity}: expected a power of two")
        self._capacity, self._neutral = capacity, neutral
        self._operation = operation if isinstance(operation, np.ufunc) else np.frompyfunc(operation, 2, 1)
        # The leaves and the levels above them, each filled up to whole nodes; then the top level.
        self._levels, count = [], capacity
        while not self._levels or count > MOST_AT_TOP:
            count = -(-count // WIDTH)
            self._levels.append(np.full((count, WIDTH), neutral, np.float64))
        self._top = np.full(count, neutral, np.float64)
        self._leaves = self._levels[0].reshape(-1)[:capacity]
        # Of each level, a flat view of the one above it.
        self._above = [*(level.reshape(-1) for level in self._levels[1:]), self._top]
        self._changed: list[np.ndarray] = []

    @property
    def leaves(self) -> np.ndarray:
        """All values [capacity]; a view. After writing to it, call `rebuild`."""
        return self._leaves

    @property
    def nbytes(self) -> int:
        """Memory of the tree."""
        return sum(level.nbytes for level in self._levels) + self._top.nbytes

    def __getitem__(self, index: int | np.ndarray) -> float | np.ndarray:
        return self._leaves[index]

    def __setitem__(self, index: int | np.ndarray, value: float | np.ndarray) -> None:
        self._leaves[index] = value
        self._changed.append(np.atleast_1d(index) // WIDTH)

    def fill(self, start: int, end: int, value: float) -> None:
        """Set the leaves start to end - 1 to one value."""
        self._leaves[start:end] = value
        self._changed.append(np.arange(start // WIDTH, -(-end // WIDTH)))

    def rebuild(self) -> None:
        """Recompute every inner node from the leaves."""
        self._changed = [np.arange(len(self._levels[0]))]

    def reduce(self, start: int = 0, end: int | None = None) -> float:
        """The operation over the leaves start to end - 1; None is the capacity, negative numbers count from it."""
        end = self._capacity if end is None else end + self._capacity * (end < 0)
        self._update()
        if (start, end) == (0, self._capacity):
            return float(self._operation.reduce(self._top))
        pieces = []
        for level in self._levels:
            # What whole nodes of the next level do not cover on either side.
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
    """Sums; see SegmentTree."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity, np.add, 0.0)

    def sum(self, start: int = 0, end: int | None = None) -> float:
        """The sum of the leaves start to end - 1."""
        return self.reduce(start, end)

    def find_prefixsum_idx(self, prefixsum: float | np.ndarray) -> int | np.ndarray:
        """The leaf i with sum(0, i) <= prefixsum < sum(0, i + 1), for each number; never a leaf of 0."""
        self._update()
        ends = self._top.cumsum()
        # Rounding may leave a rest of all that is there: it belongs to the last leaf that is not 0.
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
    """Minima; see SegmentTree."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity, np.minimum, np.inf)

    def min(self, start: int = 0, end: int | None = None) -> float:
        """The smallest of the leaves start to end - 1."""
        return self.reduce(start, end)
