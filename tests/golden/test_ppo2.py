"""PPO2's losses, gradients and weights after one and three steps against the original's numbers."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from cases import cases, group, load
from gymnasium import spaces
from ties import settle_ties
from weights import assert_close, assert_equal, assign, in_golden_order

from tfbaselines.algs import ppo2
from tfbaselines.policy.policy import build_policy

CASES = cases("ppo2_*")
COMPILED = cases("ppo2_lnlstm_discrete") + cases("ppo2_mlp_box_copy_normobs")


def make_env(arrays, hyper):
    obs = arrays["obs"]
    image = obs.dtype == np.uint8
    observation_space = spaces.Box(0 if image else -np.inf, 255 if image else np.inf, obs.shape[1:], obs.dtype)
    n = hyper["n_actions"]
    discrete = hyper["action_space"] == "Discrete"
    action_space = spaces.Discrete(n) if discrete else spaces.Box(-1.0, 1.0, tuple(n), np.float32)
    return SimpleNamespace(observation_space=observation_space, action_space=action_space)


def make_model(arrays, hyper):
    env = make_env(arrays, hyper)
    policy = build_policy(
        env,
        hyper["network"],
        hyper["value_network"],
        hyper["normalize_observations"],
        **hyper["network_kwargs"],
    )
    assign(policy.trainable_variables, group(arrays, "w0"))
    model = ppo2.Model(
        policy=policy,
        ob_space=env.observation_space,
        ac_space=env.action_space,
        nbatch_act=hyper["nenv"],
        nbatch_train=hyper["nenv"] * hyper["nsteps"],
        nsteps=hyper["nsteps"],
        ent_coef=hyper["ent_coef"],
        vf_coef=hyper["vf_coef"],
        max_grad_norm=hyper["max_grad_norm"],
    )
    model.actor.refresh()
    return model


def first_gradients(policy, arrays, hyper):
    """Gradients of the first step after clipping by the global norm, as the original has them."""
    rows = len(arrays["states"]) if "states" in arrays else None
    names = ("obs", "returns", "actions", "values", "neglogpacs") + (("masks",) if rows else ())
    batch = {name: arrays[name].astype(np.float32) if name == "masks" else arrays[name] for name in names}
    if rows:
        batch = {name: array.reshape(rows, -1, *array.shape[1:]) for name, array in batch.items()}
        batch["states"] = arrays["states"]
        batch["episode_start"] = batch.pop("masks")
    batch = {name: tf.constant(array) for name, array in batch.items()}
    variables = in_golden_order(policy.trainable_variables, group(arrays, "w0"))
    with tf.GradientTape() as tape:
        cliprange = tf.constant(hyper["cliprange"], tf.float32)
        total, _ = ppo2.loss(policy, batch, cliprange, hyper["ent_coef"], hyper["vf_coef"])
    gradients = tape.gradient(total, [variable.value for variable in variables])
    if hyper["max_grad_norm"] is not None:
        gradients, _ = tf.clip_by_global_norm(gradients, hyper["max_grad_norm"])
    return gradients


def gradients_of_first_weights(arrays, hyper):
    """The original's gradients of the first step, worked out from what Adam made of them."""
    epsilon = hyper["adam_epsilon"] / np.sqrt(1 - hyper["adam_beta2"])
    before, after = (np.concatenate([w.ravel() for w in group(arrays, name).values()]) for name in ("w0", "w1"))
    change = (before.astype(np.float64) - after) / hyper["lr"]
    return change * epsilon / np.maximum(1 - np.abs(change), 1e-6)


@pytest.mark.parametrize("case", CASES)
def test_three_updates(case, monkeypatch):
    """Only the first update meets tied units."""
    arrays, hyper = load(case)
    model = make_model(arrays, hyper)
    settle_ties(
        monkeypatch,
        model.policy.network,
        arrays["obs"],
        lambda: first_gradients(model.policy, arrays, hyper),
        gradients_of_first_weights(arrays, hyper),
    )
    names = ("obs", "returns", "masks", "actions", "values", "neglogpacs")
    batch = {name: arrays[name] for name in names} | {"states": arrays.get("states")}
    for call in range(3):
        losses = model.train(hyper["lr"], hyper["cliprange"], **batch)
        assert_close(losses, arrays["losses"][call])
        if call in (0, 2):
            assert_equal(model.policy.trainable_variables, group(arrays, f"w{call + 1}"))


@pytest.mark.parametrize("case", CASES)
def test_forward_before_training(case):
    arrays, hyper = load(case)
    policy = make_model(arrays, hyper).policy
    masks, states = arrays["masks"].astype(np.float32), arrays.get("states")
    outputs = policy.forward(tf.constant(arrays["obs"]), masks, states)
    neglogp = policy.head.distribution(outputs.flat).neglogp(tf.constant(arrays["actions"]))
    assert_close(neglogp, arrays["check/neglogp_w0"])
    assert_close(outputs.value, arrays["check/vf_w0"])


@pytest.mark.parametrize("case", [case for case in CASES if group(load(case)[0], "g1")])
def test_gradients_of_the_first_step(case):
    arrays, hyper = load(case)
    policy = make_model(arrays, hyper).policy
    golden = group(arrays, "g1")
    for gradient, (name, value) in zip(first_gradients(policy, arrays, hyper), golden.items(), strict=True):
        assert_close(gradient.numpy().reshape(value.shape), value, name)
