"""Advantages, statistics and weights of one epoch of Spinning Up's vpg and ppo against the original's numbers."""

from types import SimpleNamespace

import numpy as np
import pytest
from cases import cases, load
from gymnasium import spaces
from weights import assert_close

from tfbaselines.algs import ppo, vpg
from tfbaselines.policy.policy import build_policy
from tfbaselines.rollout.rollout import Rollout
from tfbaselines.training.epochs import EpochRun, make_update, row_of

CASES = cases("spinup_vpg_*") + cases("spinup_ppo_*")
COMPILED = cases("spinup_ppo_box_klstop") + cases("spinup_vpg_discrete_5v")


def golden(arrays, prefix):
    return [arrays[name] for name in sorted(arrays) if name.startswith(f"{prefix}/")]


def variables(policy):
    return [*policy.acting_variables, *policy.value_variables]


def make_policy(arrays, hyper):
    n = hyper["act_dim"]
    env = SimpleNamespace(
        observation_space=spaces.Box(-np.inf, np.inf, (hyper["obs_dim"],), np.float32),
        action_space=spaces.Discrete(n) if hyper["discrete"] else spaces.Box(-1.0, 1.0, (n,), np.float32),
    )
    policy = build_policy(env, "dense", "copy", hidden_sizes=hyper["hidden"], activation="tanh")
    for variable, value in zip(variables(policy), golden(arrays, "w0"), strict=True):
        variable.assign(value.reshape(variable.shape))
    return policy


def make_rollout(arrays):
    """The epoch as a rollout of one environment; a path that was cut is a truncated episode."""
    buf = {name: arrays[f"buf/{name}"][:, None] for name in ("obs", "act", "rew", "val", "logp")}
    steps = len(buf["rew"])
    starts, truncated = np.zeros((steps, 1), bool), np.zeros((steps, 1), bool)
    timeout_values = np.zeros((steps, 1), np.float32)
    for start, end, last_value in arrays["paths"]:
        starts[int(start)] = True
        truncated[int(end) - 1], timeout_values[int(end) - 1] = last_value != 0.0, last_value
    return Rollout(
        obs=buf["obs"],
        actions=buf["act"],
        rewards=buf["rew"],
        values=buf["val"],
        neglogps=-buf["logp"],
        episode_start=starts,
        truncated=truncated,
        timeout_values=timeout_values,
        last_values=np.zeros(1, np.float32),
        last_episode_start=np.ones(1, bool),
    )


def batch_of(arrays, hyper, policy):
    config = SimpleNamespace(gamma=hyper["gamma"], lam=hyper["lam"])
    run = SimpleNamespace(config=config, policy=policy, comm=None)
    return EpochRun.batch(run, make_rollout(arrays))


@pytest.mark.parametrize("case", CASES)
def test_advantages_and_returns(case):
    arrays, hyper = load(case)
    batch = batch_of(arrays, hyper, make_policy(arrays, hyper))
    assert_close(batch["advantages"], arrays["buf/adv"])
    assert_close(batch["returns"], arrays["buf/ret"])


@pytest.mark.parametrize("case", CASES)
def test_an_epoch(case):
    arrays, hyper = load(case)
    policy = make_policy(arrays, hyper)
    if hyper["alg"] == "vpg":
        update = make_update(policy, lambda batch: vpg.loss(policy, batch), 1, hyper["train_v_iters"])
    else:
        most = ppo.TOLERANCE * hyper["target_kl"]
        iters = hyper["train_pi_iters"], hyper["train_v_iters"]
        update = make_update(policy, lambda batch: ppo.loss(policy, batch, hyper["clip_ratio"]), *iters, most)
    batch = batch_of(arrays, hyper, policy) | {"advantages": arrays["buf/adv"], "returns": arrays["buf/ret"]}
    row = row_of(update.repeat(batch, pi_lr=hyper["pi_lr"], vf_lr=hyper["vf_lr"]))
    names = vpg.STATISTICS if hyper["alg"] == "vpg" else ppo.STATISTICS
    assert set(names) == {name.split("/")[1] for name in arrays if name.startswith("log/")}
    for name in names:
        assert_close(row[name], arrays[f"log/{name}"], name)
    for variable, value in zip(variables(policy), golden(arrays, "w_end"), strict=True):
        assert_close(variable.numpy().reshape(value.shape), value, variable.path)
