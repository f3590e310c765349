import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

from tfbaselines.envs.episode_limits import ReturnLimit, limited
from tfbaselines.envs.monitor import Monitor
from tfbaselines.envs.state import random_state, restore_random_state
from tfbaselines.envs.tiny import ConstantRewardEnv, CrashingEnv, DiscreteIdentityEnv
from tfbaselines.envs.vec import DummyVecEnv
from tfbaselines.envs.vec.worker import step_same
from tfbaselines.envs.wrappers import RewardScaler


def test_spaces_are_those_of_the_first_environment():
    env = DummyVecEnv([lambda: DiscreteIdentityEnv(5)] * 2)
    assert env.observation_space is env.envs[0].observation_space and env.action_space.n == 5
    assert env.reset().dtype == np.int64 and env.unwrapped is env


def test_every_environment_is_closed():
    closed = []

    class Closing(ConstantRewardEnv):
        def close(self):
            closed.append(self)

    env = DummyVecEnv([Closing] * 2)
    env.close(), env.close()
    assert closed == env.envs


def test_errors_of_an_environment_come_through():
    env = DummyVecEnv([lambda: CrashingEnv(after=1)])
    env.reset()
    with pytest.raises(RuntimeError, match="the simulator gave up"):
        env.step([0])


@pytest.mark.parametrize("kind", [float, np.float64, lambda x: np.array([x], np.float32)[0]])
def test_rewards_of_any_type_become_float32(kind):
    class Paying(ConstantRewardEnv):
        def step(self, action):
            obs, _, *rest = super().step(action)
            return obs, kind(0.1), *rest

    env = DummyVecEnv([Paying])
    env.reset()
    rewards = env.step([0])[1]
    assert rewards.dtype == np.float32 and rewards.tolist() == [np.float32(0.1)]


def test_an_environment_that_rests_is_left_out_until_the_next_reset():
    env = DummyVecEnv([lambda: DiscreteIdentityEnv(5, episode_len=2)] * 3)
    shown = env.reset()
    assert env.rest(1)
    for ended in (False, True):
        obs, rewards, dones, infos = env.step(shown)
        assert rewards.tolist() == [1.0, 0.0, 1.0] and dones.tolist() == [ended, False, ended]
        assert obs[1] == shown[1] and infos[1] == {} and len(infos) == 3
        assert ("final_observation" in infos[2]) == ended
        shown = obs
    assert [one._time for one in env.envs] == [0, 0, 0]
    _, rewards, _, _ = env.step(env.reset())
    assert rewards.tolist() == [1.0, 1.0, 1.0]


def test_the_environment_that_fails_is_named_while_others_rest():
    env = DummyVecEnv([ConstantRewardEnv, lambda: CrashingEnv(after=1)])
    env.reset()
    env.rest(0)
    with pytest.raises(RuntimeError, match="environment 1 "):
        env.step([0, 0])


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
        assert info["reset_info"] == {}
    else:
        assert set(info) == {"own"}


def test_an_info_that_the_environment_keeps_is_left_alone():
    kept = {"own": 1}
    env = ending(True, False)
    env.step = lambda _: (np.ones(1, np.float32), 5.0, True, False, kept)
    assert "final_observation" in step_same(env, 0)[-1] and kept == {"own": 1}


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


def test_limits_of_return_and_length_are_both_below_the_monitor():
    monitor = Monitor(ConstantRewardEnv(episode_len=9), None, allow_early_resets=True)
    assert limited(monitor, 4, 3.0) is monitor
    assert isinstance(monitor.env, ReturnLimit) and isinstance(monitor.env.env, TimeLimit)
    for _ in range(2):
        monitor.reset()
        assert [monitor.step(0)[3] for _ in range(3)] == [False, False, True]


def test_a_limit_is_put_below_the_monitor():
    inner = ConstantRewardEnv(episode_len=9)
    monitor = Monitor(inner, None, allow_early_resets=True)
    outer = RewardScaler(monitor, 2.0)
    assert limited(outer, 4) is outer and outer.env is monitor
    assert isinstance(monitor.env, TimeLimit) and monitor.env.env is inner
    outer.reset()
    assert [outer.step(0)[3] for _ in range(4)] == [False, False, False, True] and monitor.get_episode_lengths() == [4]


def test_without_a_monitor_a_limit_is_around_everything():
    outer = RewardScaler(ConstantRewardEnv(), 2.0)
    env = limited(outer, 4)
    assert isinstance(env, TimeLimit) and env.env is outer


@pytest.mark.parametrize(("steps", "cut"), [(30, 20), (20, 20), (19, 19), (1, 1)])
def test_the_shorter_of_two_limits_counts(steps, cut):
    spec = gymnasium.spec("tfbaselines/ConstantReward-v0")
    env = gymnasium.make(spec, episode_len=100, max_episode_steps=20)
    monitor = Monitor(env, None, allow_early_resets=True)
    assert limited(monitor, steps) is monitor and (monitor.env is env) == (steps >= 20)
    env = monitor
    env.reset()
    ends = [env.step(0)[3] for _ in range(cut)]
    assert ends == [False] * (cut - 1) + [True]


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
