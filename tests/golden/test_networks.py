"""Networks against the original's numbers: encoded observations, outputs, states and gradients."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from cases import cases, group, load
from gymnasium import spaces
from ties import settle_ties
from weights import assert_close, assign, in_golden_order

from tfbaselines.policy.policy import build_policy

CASES = cases("net_*")


def make_observation_space(kind, arrays):
    obs = arrays["obs"]
    if kind == "Box":
        low, high = (0, 255) if obs.dtype == np.uint8 else (-np.inf, np.inf)
        return spaces.Box(low, high, obs.shape[1:], obs.dtype.type)
    encoded = arrays["out_encoded"]
    if kind == "Discrete":
        return spaces.Discrete(encoded.shape[1])
    if kind == "MultiBinary":
        return spaces.MultiBinary(obs.shape[1:])
    # The columns of the ones, less the numbers that they stand for, are where the parts begin.
    ones = np.nonzero(encoded)[1].reshape(obs.shape)
    return spaces.MultiDiscrete(np.diff([*(ones - obs)[0], encoded.shape[1]]))


def make_policy(arrays, hyper):
    env = SimpleNamespace(
        observation_space=make_observation_space(hyper["ob_space"], arrays), action_space=spaces.Discrete(3)
    )
    policy = build_policy(env, hyper["network"], **hyper["network_kwargs"])
    assign(policy.network.trainable_variables, group(arrays, "w0"))
    return policy


def run(policy, arrays):
    """The network's latent, and its new states if it has any."""
    x = policy.preprocess(tf.constant(arrays["obs"]))
    if not policy.recurrent:
        return policy.network(x), None
    return policy.network([x, tf.constant(arrays["mask"], tf.float32), tf.constant(arrays["state"])])


def close(actual, expected, name=""):
    assert_close(actual, expected, name)


@pytest.mark.parametrize("case", CASES)
def test_output_and_new_states(case):
    arrays, hyper = load(case)
    latent, new_states = run(make_policy(arrays, hyper), arrays)
    close(latent, arrays["out_latent"])
    assert (new_states is None) == ("out_new_state" not in arrays)
    if new_states is not None:
        close(new_states, arrays["out_new_state"])


@pytest.mark.parametrize("case", [case for case in CASES if "initial_state" in load(case)[0]])
def test_initial_state(case):
    arrays, hyper = load(case)
    np.testing.assert_array_equal(make_policy(arrays, hyper).initial_state(hyper["nenv"]), arrays["initial_state"])


@pytest.mark.parametrize("case", [case for case in CASES if "out_encoded" in load(case)[0]])
def test_encoded_observations(case):
    arrays, hyper = load(case)
    close(make_policy(arrays, hyper).preprocess(tf.constant(arrays["obs"])), arrays["out_encoded"])


@pytest.mark.parametrize("case", [case for case in CASES if group(load(case)[0], "grad")])
def test_gradients_of_the_weighted_output(case, monkeypatch):
    arrays, hyper = load(case)
    policy, golden = make_policy(arrays, hyper), group(arrays, "grad")
    variables = in_golden_order(policy.network.trainable_variables, golden)

    def gradients():
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(run(policy, arrays)[0] * arrays["grad_cotangent"])
        return tape.gradient(total, [variable.value for variable in variables])

    settle_ties(
        monkeypatch,
        policy.network,
        arrays["obs"],
        gradients,
        np.concatenate([value.ravel() for value in golden.values()]),
    )
    for gradient, (name, value) in zip(gradients(), golden.items(), strict=True):
        close(gradient.numpy().reshape(value.shape), value, name)
