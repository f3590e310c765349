"""Learnt rewards reach rollouts and batches; statistics come back; what was learnt survives a checkpoint."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tfbaselines.envs.monitor import Monitor
from tfbaselines.envs.vec import DummyVecEnv
from tfbaselines.policy.actor import GraphActor, NumpyActor
from tfbaselines.policy.policy import build_policy
from tfbaselines.rewards import RewardSignals
from tfbaselines.rollout.rollout import TERMINATE, Runner

BOX = spaces.Box(-np.inf, np.inf, (1,), np.float64)


class Clock(gymnasium.Env):
    """Shows 100 times the episode, and the step; episodes have 3 steps, every second one is cut."""

    observation_space, action_space = BOX, spaces.Discrete(2)
    episode = -1

    def reset(self, *, seed=None, options=None):
        self.episode, self.t = self.episode + 1, 0
        return np.array([100.0 * self.episode]), {}

    def step(self, action):
        self.t += 1
        over, cut = self.t == 3, self.episode % 2 == 1
        return np.array([100.0 * self.episode + self.t]), 2.0, over and not cut, over and cut, {}


class Moved:
    """Pays the distance between the observations, times what it has learnt."""

    gamma, ends = 0.9, TERMINATE

    def __init__(self, name="moved", strength=0.5):
        self.name, self.strength, self.learnt, self.seen = name, strength, 1.0, []

    def rewards(self, obs, actions, next_obs, episode_start, terminated):
        self.seen.append(episode_start)
        return self.learnt * (next_obs - obs)[..., 0]

    def update(self, batch, indices=None):
        self.learnt += float(np.mean(batch["rewards"]))
        return {"loss": self.learnt}


def make(maker=NumpyActor, **kwargs):
    env = DummyVecEnv([lambda: Monitor(Clock(), None)] * 2)
    policy = build_policy(env, "mlp", num_hidden=4)
    return Runner(env, policy, maker(policy), 7, np.random.default_rng(0), **kwargs)


@pytest.mark.parametrize("maker", [NumpyActor, GraphActor])
def test_rollouts_show_what_followed_each_step(maker):
    runner = make(maker, keep_next_obs=True)
    for _ in range(2):
        rollout = runner.run()
        np.testing.assert_array_equal(rollout.next_obs, rollout.obs + 1)


def test_rollouts_without_signals_are_the_same():
    plain, kept = make(), make(keep_next_obs=True)
    kept._actor = plain._actor
    one, other = plain.run(), kept.run()
    assert one.next_obs is None
    for name in ("obs", "actions", "rewards", "values", "neglogps", "episode_start", "timeout_values"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    before = other.rewards.copy()
    assert RewardSignals([]).apply_to_rollout(other) == {}
    np.testing.assert_array_equal(other.rewards, before)


@pytest.mark.parametrize(("extrinsic", "total"), [(1.0, 2.5), (0.0, 0.5), (2.0, 4.5)])
def test_rewards_of_rollouts(extrinsic, total):
    rollout, signal = make(keep_next_obs=True).run(), Moved()
    means = RewardSignals([signal], extrinsic).apply_to_rollout(rollout)
    assert rollout.rewards.dtype == np.float32 and (rollout.rewards == total).all()
    assert means == {"moved/reward": 0.5} and signal.seen == [rollout.episode_start]


def test_signals_learn():
    signals = RewardSignals([Moved(), Moved("other")])
    assert signals.update({"rewards": np.full(4, 3.0)}) == {"moved/loss": 4.0, "other/loss": 4.0}


def test_names_are_unique():
    with pytest.raises(ValueError, match="unique names"):
        RewardSignals([Moved(), Moved()])
