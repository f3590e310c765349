"""ACER's statistics, weights and averaged weights after one and three updates against the original's."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from cases import cases, group, load
from gymnasium import spaces
from weights import assert_close, assert_equal, assign

from tfbaselines.algs import acer
from tfbaselines.algs.acer.loss import retrace, without_last
from tfbaselines.config.schedules import fraction_schedule

COMPILED = cases("acer_lstm_discrete_tr1") + cases("acer_mlp_discrete_c1_clip")


def make_model(arrays, hyper):
    env = SimpleNamespace(
        observation_space=spaces.Box(-np.inf, np.inf, arrays["obs"].shape[1:], np.float32),
        action_space=spaces.Discrete(hyper["n_actions"]),
    )
    names = ("q_coef", "ent_coef", "gamma", "c", "delta", "trust_region", "max_grad_norm", "rprop_alpha", "alpha")
    arguments = {name: hyper[name] for name in (*names, "rprop_epsilon")} | hyper["network_kwargs"]
    return acer.Model(hyper["network"], env, acer.Config.of(arguments))


@pytest.mark.parametrize("case", cases("acer_*_discrete*"))
def test_updates(case):
    arrays, hyper = load(case)
    model = make_model(arrays, hyper)
    assign(model.policy.trainable_variables, group(arrays, "w0"))
    assign(model.averaged.policy.trainable_variables, group(arrays, "ema0"))
    count, steps = hyper["nenv"], hyper["nsteps"]
    batch = {
        "obs": arrays["obs"].reshape(count, steps + 1, -1),
        "actions": arrays["actions"].reshape(count, steps),
        "rewards": arrays["rewards"].reshape(count, steps),
        "terminated": arrays["dones"].reshape(count, steps).astype(np.float32),
        "truncated": np.zeros((count, steps), np.float32),
        "mus": np.log(arrays["mus"]).reshape(count, steps, -1),
    }
    if "states" in arrays:
        batch["episode_start"] = arrays["masks"].reshape(count, steps + 1).astype(np.float32)
        batch["states"] = arrays["states"][:, None]
    rate = fraction_schedule(hyper["lrschedule"], hyper["lr"])
    names = json.loads(str(arrays["stat_names_json"]))
    for call, at in enumerate(arrays["steps"]):
        statistics = model.train(rate(1.0 - at / hyper["total_timesteps"]), batch)
        for name, expected in zip(names, arrays["stats"][call], strict=True):
            assert_close(statistics[name], expected, f"{name} of update {call}")
        if call in (0, 2):
            assert_equal(model.policy.trainable_variables, group(arrays, f"w{call + 1}"))
            assert_equal(model.averaged.policy.trainable_variables, group(arrays, f"ema{call + 1}"))


def test_retrace():
    for case in cases("acer_q_retrace*"):
        arrays, hyper = load(case)
        shape = (hyper["nenvs"], hyper["nsteps"])
        rewards, ended, q_taken, rho = (
            arrays[name].reshape(shape).astype(np.float32) for name in ("R", "D", "q_i", "rho_i")
        )
        values = arrays["v"].reshape(shape[0], -1)
        weights = np.minimum(1.0, rho)
        cut = np.zeros(shape, np.float32)
        targets = retrace(rewards, ended, cut, q_taken, values[:, :-1], values[:, -1], weights, float(arrays["gamma"]))
        assert_close(targets.numpy().ravel(), arrays["q_retrace"])
        for rows, expected in (("x", "strip_x"), ("v", "strip_v_flat")):
            assert_close(without_last(tf.constant(arrays[rows]), shape[0]), arrays[expected])
