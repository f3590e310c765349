"""Small runs of the off-policy algorithms: their arguments under common names, and an environment that counts."""

import os
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import numpy as np
from gymnasium import spaces
from helpers import vec

from tfbaselines.algs import ddpg, sac, td3
from tfbaselines.logs import logger
from tfbaselines.logs.logger import read_csv
from tfbaselines.optim.blocks import BlockUpdate

# Environment steps of a cycle, and of an epoch.
CYCLE, EPOCH = 10, 20

REPLAY = {"replay_size": 200, "batch_size": 8, "start_steps": 10, "update_after": 10, "seed": 0}
SPINUP = {"steps_per_epoch": EPOCH, "update_every": CYCLE, "num_update": 2, "num_test_episodes": 0} | REPLAY
BASELINES = {"nb_epoch_cycles": EPOCH // CYCLE, "nb_rollout_steps": CYCLE, "nb_train_steps": 2} | REPLAY
SMALL = {"td3": SPINUP, "sac": SPINUP, "ddpg": BASELINES}
NETWORK = {"hidden_sizes": [8]}
MODULES = {"td3": td3, "sac": sac, "ddpg": ddpg}
# Columns that tell of time.
TIMES = ["Time", "fps", "total/duration", "total/steps_per_second"]


class Counting(gymnasium.Env):
    """Shows how many steps were taken since it was made, and pays as much; the first of an episode as less than zero.

    Args:
        length: steps in an episode; None for no end.
        first: where counting begins.
        timeout: a time limit ends the episodes.
        actions: what it takes.
    """

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)

    def __init__(self, length=5, first=0, timeout=False, actions=None):
        self.length, self.first, self.count, self.timeout = length, first, first, timeout
        self.action_space = actions or spaces.Box(-1.0, 3.0, (2,), np.float32)
        self.taken = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.array([-self.count], np.float32), {}

    def step(self, action):
        self.taken.append(np.array(action))
        self.count += 1
        over = self.length is not None and (self.count - self.first) % self.length == 0
        shown = np.array([self.count], np.float32)
        return shown, float(self.count - 1), over and not self.timeout, over and self.timeout, {}


def counting(count=1, **kwargs):
    return vec(lambda: Counting(**kwargs), count)


class Still(gymnasium.Env):
    """Always the same is shown and nothing is random, so that a run can be stopped and resumed without a trace.

    Args:
        actions: what it takes.
        length: steps in an episode.
    """

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def __init__(self, actions=None, length=CYCLE):
        self.action_space = actions or spaces.Box(-2.0, 2.0, (2,), np.float32)
        self.length, self.time, self.taken = length, 0, []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.full(2, 0.5, np.float32), {}

    def step(self, action):
        self.taken.append(np.array(action))
        self.time += 1
        return np.full(2, 0.5, np.float32), float(np.sum(action)), self.time >= self.length, False, {}


def still(count=1, **kwargs):
    return vec(lambda: Still(**kwargs), count)


def learn(alg, env, cycles=4, network="dense", **kwargs):
    """A small run of so many cycles."""
    own = NETWORK if network == "dense" else {}
    steps = cycles * CYCLE * (env.num_envs if alg == "ddpg" and not kwargs.get("update_every") else 1)
    return MODULES[alg].learn(network, env, **SMALL[alg] | {"total_timesteps": steps} | own | kwargs)


def train(directory, alg, env, *args, **kwargs):
    """The same with its files in a directory."""
    resume = bool(kwargs.get("run") and kwargs["run"].resume)
    logger.configure(str(directory), ["csv", "log"], resume=resume)
    return learn(alg, env, *args, **kwargs)


def rows(directory):
    """progress.csv without what tells of time."""
    table = read_csv(directory / "progress.csv")
    return table.drop(columns=[name for name in TIMES if name in table])


def weights(policy):
    return np.concatenate([variable.numpy().ravel() for variable in policy.trainable_variables])


class Zeros(dict):
    """Statistics of so many gradient steps: 0 under any name."""

    def __init__(self, count):
        super().__init__()
        self.count = count

    def __missing__(self, name):
        return np.zeros(self.count)


def recorded(monkeypatch):
    """Every block of batches with its coefficients, in place of learning; statistics are 0."""
    seen = []

    def recording(update, block, **coefficients):
        count = len(block["rewards"])
        update.step += count
        seen.append(SimpleNamespace(block=block, count=count, coefficients=coefficients))
        return Zeros(count)

    monkeypatch.setattr(BlockUpdate, "__call__", recording)
    return seen


def joined(seen, name):
    """One part of all batches, row by row."""
    return np.concatenate([one.block[name].ravel() for one in seen])


def resident_bytes():
    """Memory that this process takes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
