"""Tuple, nested and discrete observations as one Dict or one array."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tfbaselines.envs.vec.observations import flattened
from tfbaselines.policy.encoding import encode


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
