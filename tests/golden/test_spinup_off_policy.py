"""Weights and targets of Spinning Up's sac and td3 after every gradient step, and what it logged of each."""

import re

import keras
import numpy as np
import pytest
from cases import cases, load
from gymnasium import spaces
from weights import assert_close

from tfbaselines.algs import sac, td3
from tfbaselines.learn.optimizers import AveragedPolicy
from tfbaselines.policy.actor_critic import ActorCritic
from tfbaselines.policy.bounded import DeterministicHead, SquashedGaussianHead


def make(hyper, head):
    """A policy and its targets."""

    def network(shape):
        x = inputs = keras.Input(shape)
        for units in hyper["hidden"]:
            x = keras.layers.Dense(units, "relu")(x)
        return keras.Model(inputs, x)

    obs = spaces.Box(-np.inf, np.inf, (hyper["obs_dim"],), np.float32)
    action = spaces.Box(-hyper["act_limit"], hyper["act_limit"], (hyper["act_dim"],), np.float32)
    policy, copy = (ActorCritic(obs, action, network, head=head, critics=2) for _ in range(2))
    return AveragedPolicy(policy, copy, hyper["polyak"]), policy


def weights(arrays, step, part, hyper, heads):
    """Of the main networks or the targets, with the actor's `heads` output layers side by side as one."""
    names = sorted(name for name in arrays if re.match(rf"w{step}/\d+/{part}\.", name))
    found, layers = [arrays[name] for name in names], 2 * len(hyper["hidden"])
    outputs = found[layers : layers + 2 * heads]
    joined = [np.concatenate(outputs[kind::2], axis=-1) for kind in (0, 1)]
    return [*found[:layers], *joined, *found[layers + 2 * heads :]]


def batches(arrays, hyper):
    for k in range(sum(name.endswith("/obs1") for name in arrays)):
        named = {"obs": "obs1", "next_obs": "obs2", "actions": "acts", "rewards": "rews"}
        batch = {name: arrays[f"batch{k}/{theirs}"] for name, theirs in named.items()}
        batch["discount"] = (hyper["gamma"] * (1.0 - arrays[f"batch{k}/done"])).astype(np.float32)
        yield k, batch


def logged(arrays, name):
    """What the original logged under a name, in order."""
    return [np.mean(arrays[key]) for key in sorted(arrays) if re.fullmatch(rf"log\d+/{name}", key)]


def follow(arrays, hyper, averaged, policy, heads, step):
    """Take the original's steps one by one; the statistics of each."""
    for one, part in ((policy, "main"), (averaged.policy, "target")):
        for variable, value in zip(one.trainable_variables, weights(arrays, 0, part, hyper, heads), strict=True):
            variable.assign(value)
    statistics = []
    for k, batch in batches(arrays, hyper):
        statistics.append(step(batch))
        if f"w{k + 1}/00/main.pi.dense.kernel" not in arrays:
            continue
        for one, part in ((policy, "main"), (averaged.policy, "target")):
            expected = weights(arrays, k + 1, part, hyper, heads)
            for variable, value in zip(one.trainable_variables, expected, strict=True):
                assert_close(variable.numpy(), value)
    for name in statistics[0]:
        theirs = logged(arrays, name)
        ours = [value for row in statistics for value in row[name]]
        if theirs:
            assert_close(ours, theirs)
    assert len(statistics) >= 3


@pytest.mark.parametrize("case", cases("spinup_sac*"))
def test_sac(case):
    arrays, hyper = load(case)
    averaged, policy = make(hyper, SquashedGaussianHead)
    update = sac.make_update(policy, averaged, sac.Temperature(hyper["alpha"]))

    def step(batch):
        batch |= {"noise": arrays["noise0"], "noise_next": arrays["noise2"]}
        return update.block({name: array[None] for name, array in batch.items()}, lr=hyper["lr"])

    follow(arrays, hyper, averaged, policy, 2, step)


@pytest.mark.parametrize("case", cases("spinup_td3*"))
def test_td3(case):
    arrays, hyper = load(case)
    averaged, policy = make(hyper, DeterministicHead)
    update = td3.make_update(policy, averaged, td3.Config(policy_delay=hyper["policy_delay"]))

    def step(batch):
        noise = (arrays["noise0"] * arrays["noise0_std"]).astype(np.float32)
        batch["noise"] = np.clip(noise, -hyper["noise_clip"], hyper["noise_clip"])
        rates = {"q_lr": hyper["q_lr"], "pi_lr": hyper["pi_lr"]}
        return update.block({name: array[None] for name, array in batch.items()}, **rates)

    follow(arrays, hyper, averaged, policy, 1, step)
