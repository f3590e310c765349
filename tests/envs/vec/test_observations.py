import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from tfbaselines.envs.vec.observations import ONLY, Observations, flattened, parts_of, parts_of_obs, with_named_parts
from tfbaselines.policy.encoding import encode

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


class Showing(gymnasium.Env):
    """Shows one observation.

    Args:
        space: of observations.
        obs: what is shown.
    """

    action_space = spaces.Discrete(2)

    def __init__(self, space, obs=None):
        self.observation_space, self.obs = space, obs

    def reset(self, *, seed=None, options=None):
        return self.obs, {}


@pytest.mark.parametrize(
    ("space", "obs", "flat"),
    [
        (spaces.Dict(a=spaces.Discrete(2), b=spaces.Box(0, 9, (2,), np.float32)), {"a": 1, "b": [7, 8]}, [0, 1, 7, 8]),
        (spaces.Tuple([spaces.Box(0, 9, (2,), np.float32), spaces.Discrete(2)]), ([7, 8], 0), [7, 8, 1, 0]),
    ],
)
def test_several_parts_become_one_box(space, obs, flat):
    env = flattened(Showing(space, obs))
    assert isinstance(env.observation_space, spaces.Box) and env.observation_space.shape == (4,)
    np.testing.assert_array_equal(env.reset()[0], flat)


@pytest.mark.parametrize(
    ("space", "obs", "shown"),
    [
        (spaces.Tuple([spaces.Discrete(32), spaces.Discrete(3, start=5)]), (np.int64(31), 7), [31, 7]),
        (spaces.Dict(a=spaces.MultiDiscrete([[3], [4]]), b=spaces.Discrete(2)), {"b": 1, "a": [[2], [3]]}, [2, 3, 1]),
    ],
)
def test_discrete_parts_become_one_multi_discrete(space, obs, shown):
    env = flattened(Showing(space, obs))
    assert isinstance(env.observation_space, spaces.MultiDiscrete)
    seen = env.reset()[0]
    assert env.observation_space.contains(seen) and seen.tolist() == shown
    # Networks take what they would take of a flat Box.
    flat = spaces.flatten(space, {"b": 1, "a": np.array([[2], [3]])} if isinstance(space, spaces.Dict) else obs)
    np.testing.assert_array_equal(encode(seen[None], env.observation_space)[0], flat)


def test_one_part_stays_as_it_is():
    env = Showing(spaces.Box(-1, 1, (1,), np.float32))
    assert flattened(env) is env


@pytest.mark.parametrize("space", [spaces.Dict(), spaces.Dict(a=spaces.Sequence(spaces.Discrete(2)))])
def test_what_cannot_be_flattened_is_refused(space):
    with pytest.raises(ValueError, match=r"^observation space Dict\(.*\) is not supported: Box, "):
        flattened(Showing(space))


class Mission(spaces.Space):
    """As MiniGrid's: a text that cannot be flattened."""

    @property
    def is_np_flattenable(self):
        raise NotImplementedError


@pytest.mark.parametrize("text", [spaces.Text(9), Mission((), str), spaces.Sequence(spaces.Discrete(2))])
def test_parts_that_no_network_takes_are_dropped_with_one_line(text, capsys):
    picture = spaces.Box(0, 255, (7, 7, 3), np.uint8)
    for image in (picture, spaces.Box(-1, 1, (2,), np.float32)):
        space = spaces.Dict(image=image, mission=text, direction=spaces.Discrete(4))
        obs = {"direction": 1, "image": image.sample(), "mission": ("go", "on")}
        flat = flattened(Showing(space, obs))
        assert flat.observation_space.contains(flat.reset()[0])
        assert (set(flat.observation_space.spaces) == {"image", "direction"}) if image is picture else flat
        named = with_named_parts(Showing(space, obs))
        assert named.observation_space.contains(named.reset()[0]) and len(named.reset()[0]) == 2
    shown = capsys.readouterr().err
    assert shown.count(f"warning: observations are used without 'mission' ({type(text).__name__}), which no net") == 1
