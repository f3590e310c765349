"""Truncation is not termination: the value of the real last observation goes on, in every algorithm."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from helpers import vec
from small_runs import ACTIONS, Steady, first_kind, learn

from tfbaselines.algs import ALGORITHMS, get
from tfbaselines.config.bases import BatchConfig, EpochConfig, PolicyConfig, ReplayConfig, SearchConfig
from tfbaselines.config.options import RunOptions

GAMMA = 0.9
# Reward 1 for ever is worth this much.
WORTH = 1.0 / (1.0 - GAMMA)

# Quick learning of values alone, where an algorithm has the argument.
BY_BASE = {
    PolicyConfig: {
        "updates": 150,
        "nsteps": 20,
        "lr": 1e-2,
        "noptepochs": 8,
        "cliprange": 1e3,
        "lrschedule": "constant",
        "ent_coef": 0.0,
        "value_network": "copy",
    },
    BatchConfig: {
        "updates": 60,
        "timesteps_per_batch": 128,
        "timesteps_per_actorbatch": 128,
        "optim_epochs": 10,
        "optim_batchsize": 32,
        "optim_stepsize": 1e-2,
        "schedule": "constant",
        "vf_stepsize": 1e-2,
        "vf_iters": 10,
    },
    EpochConfig: {"updates": 40, "steps_per_epoch": 128, "train_v_iters": 40, "train_pi_iters": 2, "vf_lr": 1e-2},
    ReplayConfig: {
        "updates": 100,
        "num_update": 30,
        "hidden_sizes": [32],
        "lr": 1e-2,
        "q_lr": 1e-2,
        "polyak": 0.95,
        "alpha": 0.0,
        "batch_size": 32,
        "replay_size": 2000,
    },
    SearchConfig: {"updates": 200, "lr": 0.1, "discount": GAMMA},
}
BY_NAME = {
    # One step of RMSProp an update.
    "a2c": {"updates": 2000, "max_grad_norm": None},
    "deepq": {"train_freq": 1, "learning_starts": 20, "target_network_update_freq": 40, "lr": 3e-3, "num_hidden": 32},
    "ddpg": {"critic_lr": 1e-2, "nb_train_steps": 30, "critic_l2_reg": 0.0, "normalize_observations": False},
}


class Costly(gymnasium.Env):
    """An episode's first step costs 20, every other one pays 1, and a time limit cuts it after five.

    Had the cut been an end, or had the next episode's first observation been taken for the last one, what comes after
    the first step would be worth less than half.

    Args:
        actions: what it takes.
    """

    observation_space = spaces.Box(0.0, 1.0, (2,), np.float32)

    def __init__(self, actions):
        self.action_space, self.time = actions, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.array([1.0, 0.0], np.float32), {}

    def step(self, action):
        self.time += 1
        reward = 1.0 if self.time > 1 else -20.0
        return np.array([0.0, 1.0], np.float32), reward, False, self.time >= 5, {}


@pytest.mark.slow
@pytest.mark.parametrize("alg", [name for name, one in ALGORITHMS.items() if one.values and not one.goals])
def test_values_go_on_after_a_time_limit(alg):
    """Nothing is traced again meanwhile, and memory stays flat."""
    own = {"gamma": GAMMA}
    for base, arguments in BY_BASE.items():
        own |= arguments if issubclass(get(alg).config, base) else {}
    declared = {"updates", "hidden_sizes", *get(alg).config.arguments()}
    own = {name: value for name, value in (own | BY_NAME.get(alg, {})).items() if name in declared}
    steady = Steady(own["updates"] // 4, own["updates"])
    env = vec(lambda: Costly(ACTIONS[first_kind(alg)]), 2)
    model = learn(alg, env, run=RunOptions(callback=steady), **own)
    first, later = model.value(np.eye(2, dtype=np.float32))
    assert later == pytest.approx(WORTH, rel=0.1)
    assert first == pytest.approx(GAMMA * WORTH - 20.0, abs=2.0)
    # Tables are learnt without TensorFlow.
    assert steady.traces() > 0 or get(alg).tabular
