"""Values, errors, weights and targets of baselines' deepq over three gradient steps."""

import numpy as np
import pytest
from cases import cases, group, load
from gymnasium import spaces
from weights import assert_close, assert_equal, assign

from tfbaselines.algs import deepq
from tfbaselines.algs.deepq.q_network import QNetwork
from tfbaselines.learn.optimizers import with_targets
from tfbaselines.policy.networks import mlp


def make(arrays, hyper):
    """The original's network and target at w0."""
    obs = spaces.Box(-np.inf, np.inf, arrays["obs_t"].shape[1:], np.float32)
    own = {name: hyper[name] for name in ("hiddens", "dueling", "layer_norm")}

    def one():
        return QNetwork(obs, spaces.Discrete(hyper["num_actions"]), mlp(**hyper["network_kwargs"]), **own)

    policy, averaged = with_targets(one, 0.0)
    assign(policy.trainable_variables, group(arrays, "w0"))
    assign(averaged.policy.trainable_variables, group(arrays, "target0"))
    return policy, averaged


def batch_of(arrays, hyper):
    return {
        "obs": arrays["obs_t"],
        "next_obs": arrays["obs_tp1"],
        "actions": arrays["actions"],
        "rewards": arrays["rewards"],
        "discount": (hyper["gamma"] * (1.0 - arrays["dones"])).astype(np.float32),
        "weights": arrays["weights"],
    }


def values(policy, obs):
    return policy.forward(obs).flat.numpy()


@pytest.mark.parametrize("case", cases("deepq_*"))
def test_gradient_steps(case):
    arrays, hyper = load(case)
    policy, averaged = make(arrays, hyper)
    own = {name: hyper[name] for name in ("double_q", "grad_norm_clipping")}
    update = deepq.make_update(policy, averaged, deepq.Config(**own, adam_epsilon=hyper["adam_epsilon"]))
    assert_close(values(policy, arrays["obs_t"]), arrays["out_q_values_w0"])
    errors = []
    for step in (1, 2, 3):
        block = {name: array[None] for name, array in batch_of(arrays, hyper).items()}
        errors.append(update.block(block, lr=hyper["lr"])["td_errors"][0])
        if step != 2:
            assert_equal(policy.trainable_variables, group(arrays, f"w{step}"))
    assert_close(errors, np.abs(arrays["td_errors"]))
    assert_close(values(policy, arrays["obs_t"]), arrays["out_q_values_w3"])
    assert_equal(averaged.policy.trainable_variables, group(arrays, "target3_before_update"))
    averaged.reset()
    assert_equal(averaged.policy.trainable_variables, group(arrays, "target_after_update"))


@pytest.mark.parametrize("case", cases("deepq_*"))
def test_greedy_actions(case):
    arrays, hyper = load(case)
    policy, averaged = make(arrays, hyper)
    model = deepq.ActWrapper(policy, averaged, update=None)
    np.testing.assert_array_equal(model(arrays["obs_t"], stochastic=False), arrays["out_act_greedy_w0"])
