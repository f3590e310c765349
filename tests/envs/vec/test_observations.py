import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from tfbaselines.envs.vec.observations import ONLY, Observations, parts_of, parts_of_obs

BOX = spaces.Box(-np.inf, np.inf, (2,), np.float32)
NONE = np.zeros(3, np.float32)


@pytest.mark.parametrize(
    ("space", "obs"),
    [
        (BOX, [1.5, 2.5]),
        (spaces.Box(0, 255, (2, 2, 1), np.uint8), np.full((2, 2, 1), 255)),
        (spaces.Discrete(4), 3),
        (spaces.MultiDiscrete([3, 4]), [2, 3]),
        (spaces.MultiBinary(3), [0, 1, 1]),
    ],
)
def test_each_space_has_its_array(space, obs):
    batch = Observations(3, space)
    batch.put(1, obs)
    copy = batch.copy()
    assert copy.shape == (3, *space.shape) and copy.dtype == space.dtype
    np.testing.assert_array_equal(copy[1], obs)
    assert not copy[[0, 2]].any()
    batch.put(1, np.zeros(space.shape))
    np.testing.assert_array_equal(copy[1], obs)


def test_dictionaries_are_copied_too():
    batch = Observations(2, spaces.Dict(a=BOX, b=spaces.Discrete(4)))
    batch.put(1, {"a": [1, 2], "b": 3})
    copy = batch.copy()
    batch.put(1, {"a": [0, 0], "b": 0})
    assert copy["a"].tolist() == [[0, 0], [1, 2]] and copy["b"].tolist() == [0, 3]


def test_the_parts_of_a_dictionary_have_its_names_and_anything_else_one_name():
    space = spaces.Dict(a=BOX, b=spaces.Discrete(4))
    assert parts_of(space) == {"a": BOX, "b": spaces.Discrete(4)} and parts_of(BOX) == {ONLY: BOX}
    obs = {"a": NONE, "b": 3}
    assert parts_of_obs(obs) is obs and list(parts_of_obs(NONE)) == [ONLY] and parts_of_obs(NONE)[ONLY] is NONE
    parts_of(space).clear()
    assert len(space) == 2


@pytest.mark.filterwarnings("error")
@given(st.integers(0, 2), st.sampled_from([np.nan, np.inf, -np.inf]))
def test_the_first_number_that_is_not_finite_is_found(i, bad):
    batch = Observations(3, spaces.Dict(a=BOX, b=spaces.Discrete(4)))
    assert batch.finite() and batch.first_not_finite() is None
    for later in range(i, 3):
        batch.put(later, {"a": [0.0, bad], "b": 1})
    assert not batch.finite() and batch.first_not_finite() == i


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_infinities_do_not_cancel_and_large_numbers_are_no_error():
    batch = Observations(3, BOX)
    batch.put(0, [np.inf, -np.inf])
    assert not batch.finite()
    for i in range(3):
        batch.put(i, [3e38, 3e38])
    with np.errstate(over="ignore"):
        assert batch.finite()


def test_memory_can_be_given():
    given_memory = np.zeros((3, 2), np.float32)
    Observations(3, BOX, given_memory).put(2, [1, 2])
    assert given_memory.tolist() == [[0, 0], [0, 0], [1, 2]]


@pytest.mark.parametrize(
    "space",
    [
        spaces.Text(5),
        spaces.Sequence(spaces.Discrete(3)),
        spaces.Graph(BOX, None),
        spaces.OneOf([spaces.Discrete(2), spaces.Discrete(3)]),
        spaces.Dict(),
        spaces.Dict(a=BOX, b=spaces.Text(5)),
    ],
)
def test_observations_that_are_no_arrays_are_refused(space):
    with pytest.raises(ValueError, match=r"^observation space \w+\(.* is not supported: Box, Discrete"):
        Observations(2, space)
