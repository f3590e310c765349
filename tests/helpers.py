"""Shared by the algorithms' tests: small environments in a DummyVecEnv, and the originals' ways of judging them."""

import numpy as np

from tfbaselines.envs.monitor import Monitor
from tfbaselines.envs.vec import DummyVecEnv


def vec(maker, count=1, seed=0):
    """`count` copies of maker() with seeds, each behind a Monitor."""

    def make(rank):
        def build():
            env = Monitor(maker(), None, allow_early_resets=True)
            env.reset(seed=seed + rank)
            env.action_space.seed(seed + rank)
            return env

        return build

    return DummyVecEnv([make(rank) for rank in range(count)])


def reward_per_step(model, env, steps=1000):
    """Mean reward per step of the sampled policy."""
    state, done = None, np.zeros(env.num_envs, bool)
    obs, total = env.reset(), 0.0
    for _ in range(steps):
        actions, _, state, _ = model.step(obs, S=state, M=done)
        obs, rewards, done, _ = env.step(actions)
        total += float(rewards.mean())
    return total / steps


def mean_return(model, env, episodes=20):
    """Mean return per episode of the sampled policy."""
    returns, state, done = [], None, np.zeros(env.num_envs, bool)
    obs = env.reset()
    while len(returns) < episodes:
        actions, _, state, _ = model.step(obs, S=state, M=done)
        obs, _, done, infos = env.step(actions)
        returns += [info["episode"]["r"] for info in infos if "episode" in info]
    return float(np.mean(returns))
