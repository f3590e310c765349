"""Distributions over actions against the original's numbers: in the graph and on the numpy mirror."""

import numpy as np
import pytest
import tensorflow as tf
from cases import cases, load
from gymnasium import spaces
from helpers import noise_from_uniform
from weights import assert_close

from tfbaselines.policy.distributions import make_pdtype

CASES = cases("dist_*")
SPACES = {
    "categorical": lambda hyper: spaces.Discrete(hyper["ncat"]),
    "multicategorical": lambda hyper: spaces.MultiDiscrete(hyper["nvec"]),
    "diaggaussian": lambda hyper: spaces.Box(-np.inf, np.inf, (hyper["size"],), np.float32),
    "bernoulli": lambda hyper: spaces.MultiBinary(hyper["size"]),
}


def given(case):
    """The head of the case's action space, its arrays, and the distributions p and q."""
    arrays, hyper = load(case)
    head = make_pdtype(SPACES[case.split("_")[1]](hyper))
    return head, arrays, *(head.distribution(tf.constant(arrays[f"{name}_flat"])) for name in "pq")


def noise_of(head, arrays):
    parts = [arrays[key] for key in sorted(arrays) if key.startswith("noise_")]
    return noise_from_uniform(head, np.concatenate(parts, axis=-1))


def close(actual, expected):
    assert_close(actual, expected)


@pytest.mark.parametrize("case", CASES)
def test_probabilities_entropy_and_divergence(case):
    _, arrays, p, q = given(case)
    close(p.neglogp(tf.constant(arrays["x"])), arrays["out_neglogp"])
    close(p.logp(tf.constant(arrays["x"])), arrays["out_logp"])
    close(p.entropy(), arrays["out_entropy"])
    close(p.kl(q), arrays["out_kl_pq"])
    close(p.kl(p), arrays["out_kl_pp"])


@pytest.mark.parametrize("case", CASES)
def test_mode_and_sample(case):
    head, arrays, p, _ = given(case)
    close(p.mode(), arrays["out_mode"])
    close(p.sample(tf.constant(noise_of(head, arrays))), arrays["out_sample"])
    for name in ("mean", "std"):
        if f"out_{name}" in arrays:
            close(getattr(p, name), arrays[f"out_{name}"])


@pytest.mark.parametrize("case", CASES)
def test_numpy_mirror(case):
    head, arrays, _, _ = given(case)
    close(head.neglogp_numpy(arrays["p_flat"], arrays["x"]), arrays["out_neglogp"])
    close(head.mode_numpy(arrays["p_flat"]), arrays["out_mode"])
    close(head.sample_numpy(arrays["p_flat"], noise_of(head, arrays)), arrays["out_sample"])


@pytest.mark.parametrize("case", CASES)
def test_gradients_of_sums_over_the_batch(case):
    head, arrays, _, _ = given(case)
    flats = {name: tf.constant(arrays[f"{name}_flat"]) for name in "pq"}
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(flats)
        p, q = (head.distribution(flat) for flat in flats.values())
        sums = {
            "neglogp": tf.reduce_sum(p.neglogp(tf.constant(arrays["x"]))),
            "entropy": tf.reduce_sum(p.entropy()),
            "kl": tf.reduce_sum(p.kl(q)),
        }
    wanted = [key for key in arrays if key.startswith("out_grad_")]
    assert wanted
    for key in wanted:
        quantity, name = key.removeprefix("out_grad_").split("_wrt_")
        gradient = tape.gradient(sums[quantity], flats[name], unconnected_gradients="zero")
        assert_close(gradient, arrays[key], key)
