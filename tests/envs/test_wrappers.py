import copy
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tfbaselines.envs.make import make_env
from tfbaselines.envs.tiny import ConstantRewardEnv
from tfbaselines.envs.wrappers import (
    ClipActions,
    Discrete,
    RewardScaler,
    TimeLimit,
    clipped,
    with_quick_actions,
)


class Told(gymnasium.Env):
    """Pays 2 and remembers the action."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, low=-1.0, high=1.0, shape=(3,), dtype=np.float32):
        self.action_space = spaces.Box(low, high, shape, dtype)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.action = action
        return np.zeros(1, np.float32), 2.0, False, False, {}


@given(hnp.arrays(np.float32, 3, elements=st.floats(width=32, allow_nan=True, allow_infinity=True)))
def test_actions_stay_in_their_bounds_and_nan_becomes_0(action):
    env = ClipActions(Told())
    env.step(action)
    expected = [0.0 if np.isnan(x) else min(max(x, -1.0), 1.0) for x in action.tolist()]
    np.testing.assert_array_equal(env.unwrapped.action, expected)


def test_nan_becomes_the_bound_that_is_nearest_to_0():
    env = ClipActions(Told(low=0.5, high=np.float32(2.0), shape=(2,)))
    env.step(np.array([np.nan, 1.0]))
    np.testing.assert_array_equal(env.unwrapped.action, [0.5, 1.0])


@pytest.mark.filterwarnings("ignore:invalid value")
def test_actions_without_bounds_stay_finite():
    env = ClipActions(Told(low=-np.inf, high=np.inf))
    env.step(np.array([np.inf, -np.inf, 3.0], np.float32))
    assert np.isfinite(env.unwrapped.action).all() and env.unwrapped.action[2] == 3.0


def test_the_policys_action_is_not_changed_in_place():
    action = np.array([5.0, np.nan, 0.0])
    ClipActions(Told()).step(action)
    np.testing.assert_array_equal(action, [5.0, np.nan, 0.0])


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.int8])
def test_actions_of_a_box_of_integers_are_the_nearest(dtype):
    env = clipped(Told(-3, 3, (5,), dtype))
    env.step(np.array([-9.0, -1.6, np.nan, 2.4, np.inf], np.float32))
    action = env.unwrapped.action
    assert action.tolist() == [-3, -2, 0, 2, 3] and action in env.action_space
    assert type(clipped(Told())) is ClipActions


def test_rewards_are_scaled():
    assert RewardScaler(Told(), 0.25).step(np.zeros(3))[1] == 0.5
    assert RewardScaler(Told()).step(np.zeros(3))[1] == pytest.approx(0.02)


def lengths(env, steps=9):
    """Lengths and kinds of end of the episodes within some steps."""
    env.reset()
    ends, length = [], 0
    for _ in range(steps):
        _, _, terminated, truncated, _ = env.step(0)
        length += 1
        if terminated or truncated:
            ends.append((length, terminated, truncated))
            length = 0
            env.reset()
    return ends


def test_time_limit_truncates_every_episode():
    assert lengths(TimeLimit(ConstantRewardEnv(100), 4)) == [(4, False, True)] * 2


def test_the_shorter_of_two_limits_holds():
    for inner, outer, length in ((3, 4, 3), (4, 3, 3), (3, None, 3)):
        assert lengths(TimeLimit(TimeLimit(ConstantRewardEnv(100), inner), outer))[0][0] == length


def test_no_time_limit():
    assert lengths(TimeLimit(ConstantRewardEnv(100))) == []


@pytest.mark.parametrize("start", [0, -2, 3])
def test_quick_discrete_spaces_answer_as_gymnasiums(start):
    own = spaces.Discrete(3, start=start)
    for quick in (Discrete(own), pickle.loads(pickle.dumps(Discrete(own))), copy.deepcopy(Discrete(own))):
        assert quick == own
        assert own == quick
        assert repr(quick) == repr(own)
        for x in range(start - 2, start + 6):
            for asked in (np.int64(x), np.int32(x), np.array(x), x, float(x), np.float64(x), np.array([x])):
                assert quick.contains(asked) == own.contains(asked), (asked, start)


def test_made_environments_have_the_quick_space_and_draw_the_same_actions():
    env, plain = make_env("CartPole-v1", "classic_control", seed=0), gymnasium.make("CartPole-v1")
    assert type(env.action_space) is type(env.unwrapped.action_space) is Discrete
    plain.action_space.seed(0)
    assert [env.action_space.sample() for _ in range(20)] == [plain.action_space.sample() for _ in range(20)]
    with pytest.raises(AssertionError):
        env.step(np.int64(2))


def test_a_space_that_is_computed_stays():
    class Computed(Told):
        action_space = property(lambda self: spaces.Discrete(2), lambda self, space: None)

    class Fixed(Computed):
        action_space = property(lambda self: spaces.Discrete(2))

        def __init__(self):
            pass

    assert type(with_quick_actions(Computed()).action_space) is spaces.Discrete
    assert type(with_quick_actions(Fixed()).action_space) is spaces.Discrete
