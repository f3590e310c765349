import copy
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tfbaselines.compat import old_gym
from tfbaselines.envs.adapt import as_vec_env
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
from tfbaselines.errors import WorkerError


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


class Old:
    """An environment of gym's old interface; steps pay a number that depends on the seed."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)
    length, truncated = 3, False

    def seed(self, seed=None):
        self.rng = np.random.RandomState(seed)

    def reset(self):
        self.time = 0
        return np.zeros(1, np.float32)

    def step(self, action):
        self.time += 1
        info = {"TimeLimit.truncated": True} if self.truncated and self.time == self.length else {}
        return np.zeros(1, np.float32), self.rng.uniform(), self.time == self.length, info

    def render(self, mode="human"):
        return np.zeros((2, 2, 3), np.uint8)

    def close(self):
        pass


class OldDerived(Old, gymnasium.Env):
    """The same, derived from Gymnasium's class."""


@pytest.mark.parametrize("kind", [Old, OldDerived])
@pytest.mark.parametrize("truncated", [False, True])
def test_environments_of_the_old_interface_are_converted(kind, truncated, monkeypatch, capsys):
    monkeypatch.setattr(Old, "truncated", truncated)
    monkeypatch.setitem(gymnasium.registry, "Old-v0", EnvSpec("Old-v0", kind, max_episode_steps=9))
    made = [kind, lambda: old_gym(kind()), kind(), "Old-v0"][: 3 if kind is Old else 4]
    courses = []
    for one in made:
        env = as_vec_env(one, seed=3)
        env.reset()
        steps = [env.step(np.zeros(1, np.int64)) for _ in range(3)]
        assert [bool(dones[0]) for _, _, dones, _ in steps] == [False, False, True]
        info = steps[-1][-1][0]
        assert info["TimeLimit.truncated"] == truncated and info["episode"]["l"] == 3
        courses.append([rewards[0] for _, rewards, _, _ in steps])
        assert env.get_images()[0].shape == (2, 2, 3)
    assert all(course == courses[0] for course in courses) and len(set(courses[0])) == 3
    words = f"warning: {kind.__name__} has gym's old interface: it is used through tfbaselines.compat.old_gym"
    assert capsys.readouterr().err.count(words) == len(made) - 1


def test_spaces_of_the_package_gym_are_converted():
    class Box:
        low, high, dtype = np.zeros(2, np.float32), np.ones(2, np.float32), np.dtype(np.float32)

    class Discrete:
        n = 3

    class Dict:
        def __init__(self):
            self.spaces = {"a": Box(), "b": Discrete()}

    env = Old()
    env.observation_space, env.action_space = Dict(), Discrete()
    converted = old_gym(env)
    assert converted.action_space == spaces.Discrete(3)
    assert converted.observation_space == spaces.Dict(a=spaces.Box(0, 1, (2,)), b=spaces.Discrete(3))


def test_four_values_after_a_new_reset_are_named_with_their_remedy():
    class Mixed(ConstantRewardEnv):
        def step(self, action):
            return super().step(action)[1:]

    env = as_vec_env(Mixed())
    env.reset()
    with pytest.raises(WorkerError, match=r"got 4\)\), tfbaselines.compat.old_gym\(env\) converts four: python -m"):
        env.step(np.zeros(1, np.int64))
