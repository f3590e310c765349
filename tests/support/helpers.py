"""Shared by the algorithms' tests: small environments in a DummyVecEnv, and the originals' ways of judging them."""

import gymnasium
import numpy as np
from gymnasium import spaces

from tfbaselines.envs import tiny
from tfbaselines.envs.monitor import Monitor
from tfbaselines.envs.vec import DummyVecEnv, VecEnvWrapper
from tfbaselines.policy.distributions import CategoricalHead, MultiCategoricalHead

# The identity problems of the originals' tests, and the mean reward per step that passes each.
IDENTITY = {
    "Discrete": (lambda: tiny.DiscreteIdentityEnv(10, episode_len=100), 0.9),
    "MultiDiscrete": (lambda: tiny.MultiDiscreteIdentityEnv((3, 3), episode_len=100), 0.9),
    "Box": (lambda: tiny.BoxIdentityEnv((1,), episode_len=100), -0.1),
}

ACTIONS = [
    spaces.Discrete(3),
    spaces.MultiDiscrete((2, 3)),
    spaces.MultiBinary(3),
    spaces.Box(-1.0, 1.0, (2,), np.float32),
]


class Transparent(VecEnvWrapper):
    """A wrapper that changes nothing."""

    def reset(self):
        return self.venv.reset()

    def step_wait(self):
        return self.venv.step_wait()


class Guess(gymnasium.Env):
    """Any actions; always the same to see and to gain."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def __init__(self, action_space):
        self.action_space = action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action) or isinstance(self.action_space, spaces.Box)
        return np.zeros(2, np.float32), 1.0, False, False, {}


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


def enough(bar):
    """The mean return of episodes of IDENTITY from which a run need not go on to its end to pass its bar."""
    return 100 * bar + 3.0


def softmax(logits):
    exponentials = np.exp(logits - logits.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


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


def noise_from_uniform(head, uniform):
    """Convert the originals' noise: logits take Gumbel noise, a Gaussian's noise is standard normal already."""
    return -np.log(-np.log(uniform)) if isinstance(head, CategoricalHead | MultiCategoricalHead) else uniform
