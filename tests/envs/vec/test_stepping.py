import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tfbaselines.envs.tiny import ConstantRewardEnv
from tfbaselines.envs.vec.stepping import random_state, restore_random_state, step_same


def ending(terminated, truncated):
    """An environment whose first step ends in a given way."""

    class Ending(ConstantRewardEnv):
        def step(self, action):
            return np.ones(1, np.float32), 5.0, terminated, truncated, {"own": 1}

    env = Ending()
    env.reset()
    return env


@pytest.mark.parametrize("terminated", [False, True])
@pytest.mark.parametrize("truncated", [False, True])
def test_only_a_time_limit_alone_is_a_truncation(terminated, truncated):
    obs, reward, done, info = step_same(ending(terminated, truncated), 0)
    assert reward == 5.0 and done == (terminated or truncated) and info["own"] == 1
    assert obs.tolist() == [0.0 if done else 1.0]
    if done:
        assert info["final_observation"].tolist() == [1.0]
        assert info["TimeLimit.truncated"] is (truncated and not terminated)
    else:
        assert set(info) == {"own"}


@pytest.mark.parametrize("several", [False, True])
def test_the_last_observation_is_kept_when_reset_changes_the_same_array(several):
    shown = np.zeros(1, np.float32)

    class Reusing(ConstantRewardEnv):
        observation_space = spaces.Box(0, 9, (1,), np.float32)

        def _begin(self):
            shown[:] = 0
            return {"a": shown} if several else shown

        def _react(self, action):
            shown[:] = 7
            return {"a": shown} if several else shown, 1.0

    env = Reusing(episode_len=1)
    env.reset()
    last = step_same(env, 0)[-1]["final_observation"]
    assert (last["a"] if several else last).tolist() == [7.0]


def test_both_random_streams_go_on_from_where_they_were():
    env, other = (gymnasium.make("CartPole-v1") for _ in range(2))
    env.reset(seed=3)
    env.action_space.seed(4)
    state = random_state(env)
    draw = lambda env: (env.reset()[0].tolist(), [env.action_space.sample() for _ in range(20)])
    expected = draw(env)
    restore_random_state(other, state)
    assert draw(other) == expected == (restore_random_state(env, state), draw(env))[1]


def test_streams_that_were_never_used_are_not_saved():
    env = gymnasium.make("CartPole-v1")
    assert random_state(env) == {}
    env.action_space.seed(0)
    assert set(random_state(env)) == {"actions"}
    restore_random_state(env, {})
