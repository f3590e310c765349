"""Small runs of ACER for its tests."""

import small_environments
import small_runs
from gymnasium import spaces
from helpers import vec
from small_environments import box, identity  # noqa: F401
from small_runs import rows, stop_after, table, weights  # noqa: F401

from tfbaselines.algs import acer
from tfbaselines.algs.acer import acer as learning
from tfbaselines.algs.acer import workers
from tfbaselines.envs import tiny

NSTEPS = 8
SMALL = {"nsteps": NSTEPS, "buffer_size": 64, "replay_start": 16, "replay_ratio": 2, "log_interval": 1, "seed": 0}
MLP = {"num_layers": 1, "num_hidden": 8}
# The same on the command line.
FLAGS = ["--alg=acer", "--env=CartPole-v1", "--num_layers=1", "--num_hidden=8"]
FLAGS += [f"--{name}={value}" for name, value in SMALL.items()]
TINY_ENV = "--env=tfbaselines.envs.tiny:tfbaselines/"

ORIGINAL_COLUMNS = (
    "avg_norm_adj,avg_norm_g,avg_norm_grads_f,avg_norm_k,avg_norm_k_dot_g,entropy,explained_variance,fps,loss,loss_bc,"
    "loss_f,loss_policy,loss_q,mean_episode_length,mean_episode_reward,norm_grads,norm_grads_policy,norm_grads_q,"
    "total_timesteps"
)
BOUNDED = ["avg_norm_adj", "avg_norm_g", "avg_norm_grads_f", "avg_norm_k", "avg_norm_k_dot_g"]
BOUNDED += ["norm_grads_policy", "norm_grads_q"]


class Counting(small_environments.Counting):
    """Shows the number of steps at an episode's beginning too; Discrete actions."""

    def __init__(self, **kwargs):
        super().__init__(actions=spaces.Discrete(2), **kwargs)

    def reset(self, **kwargs):
        obs, info = super().reset(**kwargs)
        return -obs, info


def counting(count=1, **kwargs):
    return vec(lambda: Counting(**kwargs), count)


def constant(length=NSTEPS):
    """Always the same is shown, so that the divergence is of one distribution from another."""
    return vec(lambda: tiny.FixedSequenceEnv(4, episode_len=length))


def learn(env, updates=4, network=None, **kwargs):
    """A small run of so many updates."""
    return small_runs.learn("acer", env, updates, network, **SMALL | kwargs)


def train(directory, env, updates=4, network=None, **kwargs):
    """The same with its files in a directory."""
    return small_runs.train(directory, "acer", env, updates, network, **SMALL | kwargs)


def recorded_updates(monkeypatch):
    """The rate and the batch of every update, in place of learning; statistics are 1 of replayed batches."""
    seen = []

    class Recording(acer.Model):
        def train(self, lr, batch, rng=None, replayed=False):
            seen.append((lr, batch))
            return dict.fromkeys(("loss", "norm_grads", "avg_norm_g"), float(replayed))

    monkeypatch.setattr(learning, "Model", Recording)
    monkeypatch.setattr(workers, "Model", Recording)
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
