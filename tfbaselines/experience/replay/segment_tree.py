"""Binary trees over an array that keep the sum or the minimum of every aligned range, in numpy."""

import numpy as np


class SegmentTree:
    """A complete binary tree: node i has the children 2i and 2i + 1, node 1 is the root, the leaves are the values.

    Args:
        capacity: number of leaves, a power of two.
        operation: the numpy function that combines two children.
        neutral: value of a leaf that was not set.
    """

    def __init__(self, capacity: int, operation: np.ufunc, neutral: float) -> None:
        if capacity < 1 or capacity & (capacity - 1):
            raise ValueError(f"capacity={capacity}: expected a power of two")
        self._capacity, self._operation, self._neutral = capacity, operation, neutral
        self._tree = np.full(2 * capacity, neutral, np.float64)

    @property
    def leaves(self) -> np.ndarray:
        """All values [capacity]; a view. After writing to it, call `rebuild`."""
        return self._tree[self._capacity :]

    @property
    def nbytes(self) -> int:
        """Memory of the tree."""
        return self._tree.nbytes

    def __getitem__(self, index: int | np.ndarray) -> float | np.ndarray:
        return self.leaves[index]

    def __setitem__(self, index: int | np.ndarray, value: float | np.ndarray) -> None:
        nodes = np.atleast_1d(index) + self._capacity
        tree, operation = self._tree, self._operation
        tree[nodes] = value
        # Nodes may repeat: every repetition computes the same value.
        for _ in range(self._capacity.bit_length() - 1):
            nodes >>= 1
            left = nodes << 1
            tree[nodes] = operation(tree[left], tree[left + 1])

    def rebuild(self) -> None:
        """Recompute every inner node from the leaves."""
        first = self._capacity
        while first > 1:
            children = self._tree[first : 2 * first]
            first //= 2
            self._tree[first : 2 * first] = self._operation(children[0::2], children[1::2])

    def reduce(self, start: int = 0, end: int | None = None) -> float:
        """The operation over the leaves start to end - 1; None is the capacity, negative numbers count from it."""
        end = self._capacity if end is None else end + self._capacity * (end < 0)
        first, last = start + self._capacity, end + self._capacity
        result = self._neutral
        while first < last:
            if first & 1:
                result = self._operation(result, self._tree[first])
                first += 1
            if last & 1:
                last -= 1
                result = self._operation(result, self._tree[last])
            first, last = first >> 1, last >> 1
        return float(result)


class SumSegmentTree(SegmentTree):
    """Sums; see SegmentTree."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity, np.add, 0.0)

    def sum(self, start: int = 0, end: int | None = None) -> float:
        """The sum of the leaves start to end - 1."""
        return self.reduce(start, end)

    def find_prefixsum_idx(self, prefixsum: float | np.ndarray) -> int | np.ndarray:
        """The leaf i with sum(0, i) <= prefixsum < sum(0, i + 1), for each number; never a leaf of 0."""
        tree, rest = self._tree, np.array(prefixsum, np.float64, ndmin=1)
        nodes = np.ones(rest.shape, np.int64)
        for _ in range(self._capacity.bit_length() - 1):
            nodes <<= 1
            left = tree[nodes]
            # Rounding may leave a rest of all that is left to the right.
            right = (left <= rest) & (tree[nodes + 1] > 0.0)
            rest -= left * right
            nodes += right
        nodes -= self._capacity
        return int(nodes[0]) if np.ndim(prefixsum) == 0 else nodes


class MinSegmentTree(SegmentTree):
    """Minima; see SegmentTree."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity, np.minimum, np.inf)

    def min(self, start: int = 0, end: int | None = None) -> float:
        """The smallest of the leaves start to end - 1."""
        return self.reduce(start, end)
