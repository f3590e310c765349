"""Small runs of ACER for its tests."""

import gymnasium
import numpy as np
from gymnasium import spaces
from helpers import vec

from tfbaselines.algs import acer
from tfbaselines.envs import tiny
from tfbaselines.logs import logger
from tfbaselines.logs.logger import read_csv
from tfbaselines.settings.options import RunOptions

NSTEPS = 8
SMALL = {"nsteps": NSTEPS, "buffer_size": 64, "replay_start": 16, "replay_ratio": 2, "log_interval": 1, "seed": 0}
MLP = {"num_layers": 1, "num_hidden": 8}
# The same on the command line.
FLAGS = ["--alg=acer", "--env=CartPole-v1", "--num_layers=1", "--num_hidden=8"]
FLAGS += [f"--{name}={value}" for name, value in SMALL.items()]
TINY_ENV = "--env=tfbaselines.envs.tiny:tfbaselines/"
TWO_RANKS = ("mpirun", "-np", "2")

ORIGINAL_COLUMNS = (
    "avg_norm_adj,avg_norm_g,avg_norm_grads_f,avg_norm_k,avg_norm_k_dot_g,entropy,explained_variance,fps,loss,loss_bc,"
    "loss_f,loss_policy,loss_q,mean_episode_length,mean_episode_reward,norm_grads,norm_grads_policy,norm_grads_q,"
    "total_timesteps"
)
BOUNDED = ["avg_norm_adj", "avg_norm_g", "avg_norm_grads_f", "avg_norm_k", "avg_norm_k_dot_g"]
BOUNDED += ["norm_grads_policy", "norm_grads_q"]


class Counting(gymnasium.Env):
    """Shows how many steps were taken since it was made, and pays as much; episodes of a fixed length.

    Args:
        length: steps in an episode.
        first: where counting begins.
        timeout: a time limit ends the episodes.
    """

    observation_space, action_space = spaces.Box(-np.inf, np.inf, (1,), np.float32), spaces.Discrete(2)

    def __init__(self, length=5, first=0, timeout=False):
        self.length, self.first, self.count, self.timeout = length, first, first, timeout

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._shown(), {}

    def step(self, action):
        self.count += 1
        over = (self.count - self.first) % self.length == 0
        return self._shown(), float(self.count - 1), over and not self.timeout, over and self.timeout, {}

    def _shown(self):
        return np.array([self.count], np.float32)


def identity(count=1, seed=0):
    return vec(lambda: tiny.DiscreteIdentityEnv(4, episode_len=10), count, seed)


def box(count=1):
    return vec(lambda: tiny.BoxIdentityEnv((2,), episode_len=10), count)


def counting(count=1, **kwargs):
    return vec(lambda: Counting(**kwargs), count)


def learn(env, updates=4, network="mlp", **kwargs):
    """A small run of so many updates."""
    own = MLP if network == "mlp" else {}
    steps = {**SMALL, **kwargs}["nsteps"]
    count = (env[0] if isinstance(env, list) else env).num_envs
    return acer.learn(network, env, total_timesteps=updates * steps * count, **{**SMALL, **own, **kwargs})


def train(directory, env, *args, **kwargs):
    """The same with its files in a directory."""
    resume = bool(kwargs.get("run") and kwargs["run"].resume)
    logger.configure(str(directory), ["csv", "log"], resume=resume)
    return learn(env, *args, **kwargs)


def table(directory):
    return read_csv(directory / "progress.csv")


def rows(directory):
    return table(directory).drop(columns="fps")


def weights(policy):
    return np.concatenate([variable.numpy().ravel() for variable in policy.trainable_variables])


def stop_after(updates):
    return RunOptions(callback=lambda training: training.update < updates)


def recorded_updates(monkeypatch):
    """The rate and the batch of every update, in place of learning."""
    seen = []

    class Recording(acer.Model):
        def train(self, lr, batch, rng=None, replayed=False):
            seen.append((lr, batch))
            return dict.fromkeys(self.statistic_names, float(replayed))

    monkeypatch.setattr(acer, "Model", Recording)
    return seen


def turns(seen):
    """[[new batch, replayed batch, ...], ...]: a batch is new when it begins where the last new one ended."""
    turns, next_step = [], 0
    for _, batch in seen:
        if batch["obs"][0, 0, 0] == next_step:
            next_step += batch["rewards"].shape[1]
            turns.append([])
        turns[-1].append(batch)
    return turns


def constant(length=NSTEPS):
    """Always the same is shown, so that the divergence is of one distribution from another."""
    return vec(lambda: tiny.FixedSequenceEnv(4, episode_len=length))
