import numpy as np
import pytest

from tfbaselines.envs.tiny import ConstantRewardEnv, CrashingEnv, DiscreteIdentityEnv
from tfbaselines.envs.vec import DummyVecEnv


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
