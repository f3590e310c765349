"""Cells of observations: a grid's edges and bounds, discrete values, and the same numbers in the graph."""

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.algs.qlearning.table import Cells

CAR = spaces.Box(np.float32([-1.2, -0.07]), np.float32([0.6, 0.07]))
POLE = spaces.Box(np.float32([-4.8, -np.inf, -0.4, -3e38]), np.float32([4.8, np.inf, 0.4, 3e38]))
SPACES = {
    "box": CAR,
    "bytes": spaces.Box(0, 255, (2, 2), np.uint8),
    "doubles": spaces.Box(-1.0, 1.0, (3,), np.float64),
    "discrete": spaces.Discrete(7, start=-3),
    "multidiscrete": spaces.MultiDiscrete([3, 2], start=[1, -4]),
    "multibinary": spaces.MultiBinary([2, 2]),
}


def test_a_grid_s_cells_are_counted_row_by_row():
    cells = Cells(spaces.Box(0.0, 1.0, (2,)), [2, 5])
    obs = np.float32([[0.0, 0.0], [0.0, 0.99], [0.5, 0.2], [0.49, 0.2], [1.0, 1.0]])
    assert cells.of(obs).tolist() == [0, 4, 6, 1, 9]
    assert cells.count == 10 and cells.sizes.tolist() == [2, 5]


def test_what_is_outside_belongs_to_the_nearest_cell():
    cells = Cells(CAR, 20)
    obs = np.float32([[-9.0, -1e30], [9.0, 1e30], [-1.2, -0.07], [0.6, 0.07]])
    assert cells.of(obs).tolist() == [0, 399, 0, 399]


def test_every_cell_of_a_grid_is_met_equally_often():
    cells = Cells(CAR, [4, 3])
    obs = np.random.default_rng(0).uniform(CAR.low, CAR.high, (60_000, 2)).astype(np.float32)
    assert np.bincount(cells.of(obs), minlength=12) / 5000 == pytest.approx(np.ones(12), abs=0.1)


@pytest.mark.parametrize("name", ["discrete", "multidiscrete", "multibinary"])
def test_every_discrete_value_has_a_cell_of_its_own(name):
    space = SPACES[name]
    cells = Cells(space)
    space.seed(0)
    seen = {
        tuple(np.ravel(value)): int(cells.of(value[None])[0])
        for value in (np.asarray(space.sample()) for _ in range(500))
    }
    assert sorted(seen.values()) == list(range(cells.count)) and len(seen) == cells.count


@pytest.mark.parametrize("name", SPACES)
def test_the_graph_finds_the_same_cells(name):
    space = SPACES[name]
    cells = Cells(space, 7)
    space.seed(1)
    obs = np.stack([np.asarray(space.sample()) for _ in range(300)])
    shown = obs.astype(np.float32) if obs.dtype == np.float64 else obs
    np.testing.assert_array_equal(cells.in_graph(tf.constant(shown)).numpy(), cells.of(shown))


def test_bounds_given_replace_those_of_the_space():
    cells = Cells(CAR, 10, low=[-1.0, -0.05], high=0.5)
    assert cells.low.tolist() == pytest.approx([-1.0, -0.05]) and cells.high.tolist() == pytest.approx([0.5, 0.5])
    assert not cells.unbounded.any()


def test_missing_bounds_come_from_what_was_seen_and_no_others():
    cells = Cells(POLE, 10)
    assert cells.unbounded.tolist() == [False, True, False, True]
    cells.bound(np.float32([-9, -2, -9, 0.5]), np.float32([9, 3, 9, 0.5]))
    assert cells.low.tolist() == pytest.approx([-4.8, -2, -0.4, 0.5])
    # The last number never changed.
    assert cells.high.tolist() == pytest.approx([4.8, 3, 0.4, 1.5])
    assert not cells.unbounded.any()
    assert cells.of(np.float32([[-4.8, 2.99, -0.4, 0.5]])).tolist() == [900]


def test_the_grid_is_saved_and_another_one_is_refused():
    cells, other = Cells(POLE, 4), Cells(POLE, 4)
    cells.bound(np.full(4, -1.0), np.full(4, 2.0))
    other.restore(cells.state())
    obs = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    np.testing.assert_array_equal(other.of(obs), cells.of(obs))
    with pytest.raises(ValueError, match=r"\[4, 4, 4, 4\] cells along its dimensions, this one \[5, 5, 5, 5\]"):
        Cells(POLE, 5).restore(cells.state())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"grid_size": [3, 4, 5]}, ["grid_size=", "a list of 2"]),
        ({"low": [0.0]}, ["low=", "a list of 2"]),
        ({"low": 1.0}, ["low=1.0", "below high"]),
    ],
)
def test_bad_grids(arguments, words):
    with pytest.raises(ValueError) as error:
        Cells(CAR, **arguments)
    assert all(word in str(error.value) for word in words)


def test_more_cells_than_numbers_are_counted():
    assert Cells(spaces.Box(0, 255, (36, 36, 1), np.uint8)).count == 20**1296


def test_the_cells_of_a_large_picture_are_counted_at_once():
    """Each dimension's stride is the next one's times its size, not a product over all that follow."""
    assert Cells(spaces.Box(0, 255, (84, 84, 4), np.uint8), 2).count == 2 ** (84 * 84 * 4)


def test_numbers_beyond_those_of_float32_have_a_cell():
    cells = Cells(spaces.Box(-1e308, 1e308, (2,), np.float64), 4)
    cells.bound(np.full(2, -1e307), np.full(2, 1e307))
    obs = np.array([[-1e307, -1e307], [1e307, 1e307], [-1.0, 1.0]])
    with np.errstate(over="ignore"):
        found = cells.of(obs)
    assert found.tolist() == cells.in_graph(tf.constant(obs)).numpy().tolist() and found[:2].tolist() == [0, 15]
    assert 0 < found[2] < 15
    wide = Cells(spaces.Box(-1.0, 1.0, (1,)), 4, low=-3e38, high=3e38)
    assert wide.of(np.float32([[-1e38], [0], [1e38]])).tolist() == [0, 2, 3]
