"""Gradients, Hessian-vector products and whole updates of Spinning Up's trpo and npg against the original's numbers."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from cases import cases, load
from gymnasium import spaces
from weights import assert_close

from tfbaselines.algs import trpo
from tfbaselines.learn.engine import Engine, Phase
from tfbaselines.learn.losses import squared_value_loss
from tfbaselines.learn.optimizers import Adam
from tfbaselines.policy.policy import build_policy
from tfbaselines.rollout.rollout import gae, n_step_returns

CASES = cases("spinup_trpo_*") + cases("spinup_npg_*")
COMPILED = cases("spinup_trpo_box_backtrack") + cases("spinup_npg_discrete")


def make(arrays, hyper):
    """Policy, gradient step, and the data of the epoch."""
    n = hyper["act_dim"]
    env = SimpleNamespace(
        observation_space=spaces.Box(-np.inf, np.inf, (hyper["obs_dim"],), np.float32),
        action_space=spaces.Discrete(n) if hyper["discrete"] else spaces.Box(-1.0, 1.0, (n,), np.float32),
    )
    policy = build_policy(env, "dense", "copy", hidden_sizes=hyper["hidden"], activation="tanh")
    for variable, value in zip(variables(policy), golden(arrays, "w0"), strict=True):
        variable.assign(value.reshape(variable.shape))
    names = ("delta", "vf_lr", "train_v_iters", "damping_coeff", "cg_iters", "backtrack_iters", "backtrack_coeff")
    config = trpo.Config(algo=hyper.get("algo", "trpo"), **{name: hyper[name] for name in names if name in hyper})
    stored = [arrays[f"buf/info_{name}"] for name in (("logp_all",) if hyper["discrete"] else ("mu", "log_std"))]
    data = {
        "obs": arrays["buf/obs"],
        "actions": arrays["buf/act"],
        "advantages": arrays["buf/adv"],
        "neglogpacs": -arrays["buf/logp"],
        "flat": np.concatenate(stored, axis=-1),
    }
    return policy, config, data


def variables(policy):
    return [*policy.acting_variables, *policy.value_variables]


def golden(arrays, prefix):
    return [arrays[name] for name in sorted(arrays) if name.startswith(f"{prefix}/")]


@pytest.mark.parametrize("case", CASES)
def test_gradient_and_hessian_vector_products(case):
    arrays, hyper = load(case)
    policy, config, data = make(arrays, hyper)
    step = trpo.make_step(policy, config)
    batch = {name: tf.constant(array) for name, array in data.items()}
    # The original descends a loss, this ascends its negative.
    assert_close(-step.gradient(batch).numpy()[2:], arrays["g"])
    for name in sorted(arrays):
        if name.startswith("hvp") and name.endswith("/in"):
            vector, expected = arrays[name], arrays[name.replace("/in", "/out")]
            product = step.product(batch, tf.constant(vector)).numpy() + hyper["damping_coeff"] * vector
            assert_close(product, expected, name)


@pytest.mark.parametrize("case", CASES)
def test_advantages_and_returns(case):
    arrays, hyper = load(case)
    found = {"adv_raw": [], "ret": []}
    for start, end, last in arrays["paths"]:
        rewards, values = (arrays[f"buf/{name}"][int(start) : int(end), None] for name in ("rew", "val"))
        none, last_values = np.zeros_like(rewards), np.full(1, last, np.float32)
        advantages = gae(rewards, values, none, last_values, np.zeros(1), hyper["gamma"], hyper["lam"])
        found["adv_raw"].append(advantages)
        found["ret"].append(n_step_returns(rewards, none, last_values, hyper["gamma"]))
    for name, paths in found.items():
        assert_close(np.concatenate(paths)[:, 0], arrays[f"buf/{name}"])
    raw = arrays["buf/adv_raw"].astype(np.float64)
    assert_close((raw - raw.mean()) / raw.std(), arrays["buf/adv"])


@pytest.mark.parametrize("case", CASES)
def test_update(case):
    arrays, hyper = load(case)
    policy, config, data = make(arrays, hyper)
    row = trpo.policy_step(trpo.make_step(policy, config), data, config.delta)
    loss = partial(squared_value_loss, policy)
    fit = Engine([Phase("value", loss, policy.value_variables, Adam(epsilon=trpo.ADAM_EPSILON))])
    whole = np.tile(np.arange(len(data["obs"]), dtype=np.int32), (config.train_v_iters, 1))

    def error():
        return float(squared_value_loss(policy, {"obs": data["obs"], "returns": arrays["buf/ret"]})[0])

    before = error()
    fit.minibatches({"obs": data["obs"], "returns": arrays["buf/ret"]}, whole, lr=config.vf_lr)
    row |= {"LossV": before, "DeltaLossV": error() - before}
    for variable, value in zip(variables(policy), golden(arrays, "w_end"), strict=True):
        assert_close(variable.numpy().reshape(value.shape), value, variable.path)
    for name, value in row.items():
        assert_close(value, arrays[f"log/{name}"], name)
    assert row.keys() == {name.removeprefix("log/") for name in arrays if name.startswith("log/")}
