"""Acting with kernels that were rounded to bfloat16 beforehand."""

from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest
from gymnasium import spaces

from tfbaselines.policy import layers
from tfbaselines.policy.actor import GraphActor, make_actor
from tfbaselines.policy.layers import WIDE, RoundedKernels, set_precision
from tfbaselines.policy.policy import build_policy

# TensorFlow's kernels abort there; a run takes float32 (tests/policy/test_precision.py).
pytestmark = pytest.mark.skipif(bool(layers._switched_off_by()), reason="oneDNN's bfloat16 is switched off")


class Env:
    observation_space = spaces.Box(0, 255, (84, 84, 4), np.uint8)
    action_space = spaces.Discrete(6)
    num_envs = 8


@pytest.fixture(autouse=True)
def seeded_and_back_to_float32():
    keras.utils.set_random_seed(0)
    yield
    set_precision("float32")


def _policy(network="cnn"):
    return build_policy(Env, network)


def _batch(policy, count=8):
    rng = np.random.default_rng(0)
    obs = rng.integers(0, 256, (count, 84, 84, 4)).astype(np.uint8)
    return obs, policy.head.draw_noise(rng, (count,))


def _step(actor, policy, network):
    obs, noise = _batch(policy)
    states, starts = (policy.initial_state(8), np.zeros(8, bool)) if network == "cnn_lstm" else (None, None)
    return actor.step(obs, states, starts, noise)


@pytest.mark.parametrize("network", ["cnn", "cnn_lstm", "impala_cnn"])
def test_the_rounded_copies_give_the_numbers_of_kernels_that_are_rounded_in_every_call(network, monkeypatch):
    set_precision("bfloat16")
    policy = _policy(network)
    found = _step(GraphActor(policy), policy, network)
    monkeypatch.setattr("tfbaselines.policy.layers.WIDE", 1e12)
    expected = _step(GraphActor(policy), policy, network)
    np.testing.assert_allclose(found.values, expected.values, atol=4e-3)
    np.testing.assert_allclose(found.neglogps, expected.neglogps, atol=4e-3)


@pytest.mark.parametrize("make", [GraphActor, make_actor])
def test_new_weights_are_acted_on_after_refresh(make):
    set_precision("bfloat16")
    policy = _policy()
    actor, (obs, noise) = make(policy), _batch(policy)
    before = actor.step(obs, None, None, noise).values
    wide = next(variable for variable in policy.trainable_variables if np.prod(variable.shape) >= WIDE)
    wide.assign(2 * wide)
    actor.refresh()
    after = actor.step(obs, None, None, noise).values
    np.testing.assert_allclose(after, GraphActor(policy).value(obs), atol=4e-3)
    assert np.abs(after - before).max() > 0.05


def test_float32_has_no_copies():
    policy = _policy()
    assert RoundedKernels(policy.modules)._layers == []


def test_copies_are_used_in_one_thread_and_only_within():
    """Workers that are threads trace functions of the same layers at the same time."""
    set_precision("bfloat16")
    policy, obs = _policy(), _batch(_policy())[0]
    kernels = RoundedKernels(policy.modules)
    assert [layer.name for layer in kernels._layers] == ["fc1"]
    # They were never rounded: zeros.
    with kernels.in_use():
        inside = policy.forward(obs).flat.numpy()
        with ThreadPoolExecutor(1) as pool:
            elsewhere = pool.submit(lambda: policy.forward(obs).flat.numpy()).result()
    beyond = policy.forward(obs).flat.numpy()
    np.testing.assert_array_equal(elsewhere, beyond)
    assert np.abs(inside - beyond).max() > 1e-3


def test_kernels_are_rounded_only_when_they_are_needed(monkeypatch):
    set_precision("bfloat16")
    policy = _policy()
    actor, rounded = make_actor(policy), []
    monkeypatch.setattr(actor._kernels, "_round", lambda: rounded.append(1))
    obs, noise = _batch(policy)
    for _ in range(2):
        actor.choose(obs, None, None, noise)
        assert len(rounded) == 1
    actor.refresh()
    assert len(rounded) == 1
