"""Trees of sums and minima give what plain loops over the leaves give."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfbaselines.algs.deepq import buffers as segment_tree
from tfbaselines.algs.deepq.buffers import WIDTH, MinSegmentTree, SumSegmentTree

# More than a node in the lowest level.
CAPACITY = 4 * WIDTH
VALUES = st.lists(st.integers(0, 9), min_size=CAPACITY, max_size=CAPACITY)


def levels(tree):
    tree.reduce()
    return [level.tolist() for level in (*tree._levels, tree._top)]


@pytest.fixture(autouse=True, params=[1, 2048], ids=lambda most: f"top{most}")
def most_at_top(request):
    """Trees of few leaves get several levels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment_tree, "MOST_AT_TOP", request.param)
        yield


@given(VALUES, st.integers(0, CAPACITY), st.integers(0, CAPACITY))
def test_ranges(values, start, end):
    sums, minima = SumSegmentTree(CAPACITY), MinSegmentTree(CAPACITY)
    sums[np.arange(CAPACITY)] = minima[np.arange(CAPACITY)] = np.array(values, float)
    assert sums.sum(start, end) == sum(values[start:end])
    assert minima.min(start, end) == min(values[start:end], default=np.inf)


def test_any_function_of_two_numbers_combines():
    tree = segment_tree.SegmentTree(CAPACITY, lambda a, b: a + b, 0.0)
    tree[np.arange(CAPACITY)] = np.arange(CAPACITY, dtype=float)
    assert tree.reduce() == sum(range(CAPACITY)) and tree.reduce(2, 5) == 2 + 3 + 4 and tree.reduce(3, 3) == 0


@given(VALUES.filter(any), st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=20))
def test_prefix_sums_end_in_their_leaf(values, fractions):
    tree = SumSegmentTree(CAPACITY)
    tree[np.arange(CAPACITY)] = np.array(values, float)
    sums = np.cumsum(values)
    wanted = np.array(fractions) * sums[-1]
    expected = np.searchsorted(sums, wanted, side="right")
    np.testing.assert_array_equal(tree.find_prefixsum_idx(wanted), expected)
    assert [tree.find_prefixsum_idx(one) for one in wanted] == expected.tolist()


def test_a_leaf_of_0_is_never_found():
    tree = SumSegmentTree(8)
    tree[np.array([1, 5])] = np.array([0.1, 0.3])
    assert tree.find_prefixsum_idx(np.array([0.0, 0.1, tree.sum(), 2.0])).tolist() == [1, 5, 5, 5]


def test_leaves_that_are_set_together_equal_those_set_in_turn():
    together, in_turn, rng = SumSegmentTree(CAPACITY), SumSegmentTree(CAPACITY), np.random.default_rng(0)
    indices, values = rng.integers(CAPACITY, size=50), rng.random(50)
    together[indices] = values
    for index, value in zip(indices, values, strict=True):
        in_turn[index] = value
    assert levels(together) == levels(in_turn)


def test_a_range_that_is_filled_equals_its_leaves_set():
    filled, set_one_by_one = SumSegmentTree(CAPACITY), SumSegmentTree(CAPACITY)
    for tree in (filled, set_one_by_one):
        tree[np.arange(CAPACITY)] = np.random.default_rng(0).random(CAPACITY)
        tree.sum()
    start, end = WIDTH - 3, 2 * WIDTH + 5
    filled.fill(start, end, 0.5)
    set_one_by_one[np.arange(start, end)] = 0.5
    assert levels(filled) == levels(set_one_by_one)


def test_a_rebuilt_tree_equals_one_set_leaf_by_leaf():
    values = np.random.default_rng(0).random(16)
    for tree, other in ((SumSegmentTree(16), SumSegmentTree(16)), (MinSegmentTree(16), MinSegmentTree(16))):
        tree[np.arange(16)] = values
        other.leaves[...] = values
        other.rebuild()
        assert levels(tree) == levels(other)


@pytest.mark.parametrize("capacity", [0, 3, 24])
def test_a_capacity_that_is_no_power_of_two_is_refused(capacity):
    with pytest.raises(ValueError, match=f"capacity={capacity}: expected a power of two"):
        SumSegmentTree(capacity)


def test_one_leaf():
    tree = SumSegmentTree(1)
    tree[0] = 2.0
    assert tree.sum() == tree[0] == 2.0 and tree.find_prefixsum_idx(1.0) == 0
