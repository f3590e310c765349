"""Heads of bounded actions: inside of their bounds, the same in numpy, with the density of the change of variables."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from gymnasium import spaces

from tfbaselines.policy.bounded import DeterministicHead, SquashedGaussianHead

SPACE = spaces.Box(np.array([[-1.0, 2.0]], np.float32), np.array([[3.0, 2.5]], np.float32))


@pytest.mark.parametrize("kind", [DeterministicHead, SquashedGaussianHead])
def test_actions_fill_their_bounds(kind):
    head = kind(SPACE)
    flat = np.full((2, head.param_size), -50.0, np.float32)
    flat[1] = 50.0
    assert head.mode_numpy(flat).shape == (2, 1, 2)
    np.testing.assert_allclose(head.mode_numpy(flat)[:, 0], [[-1.0, 2.0], [3.0, 2.5]], rtol=1e-6)
    np.testing.assert_allclose(head.mode(tf.constant(flat)), head.mode_numpy(flat), rtol=1e-6)
    np.testing.assert_allclose(head.mode_numpy(np.zeros_like(flat))[0, 0], [1.0, 2.25])


def test_samples_are_the_same_in_numpy():
    head, rng = SquashedGaussianHead(SPACE), np.random.default_rng(0)
    flat = rng.standard_normal((50, 4), np.float32) * 3
    noise = head.draw_noise(rng, (50,))
    actions, _ = head.sample(tf.constant(flat), tf.constant(noise))
    np.testing.assert_allclose(actions, head.sample_numpy(flat, noise), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(head.sample_numpy(flat, 0 * noise), head.mode_numpy(flat))


def test_the_density_is_that_of_a_squashed_gaussian():
    head, rng = SquashedGaussianHead(SPACE), np.random.default_rng(1)
    flat = rng.standard_normal((50, 4), np.float32)
    noise = head.draw_noise(rng, (50,))
    _, logp = head.sample(tf.constant(flat), tf.constant(noise))
    mean, logstd = flat[:, :2].astype(np.float64), flat[:, 2:].astype(np.float64)
    gaussian = tfp.distributions.Normal(mean, np.exp(logstd))
    squashed = tfp.distributions.TransformedDistribution(gaussian, tfp.bijectors.Tanh())
    x = np.tanh(mean + np.exp(logstd) * noise)
    np.testing.assert_allclose(logp, squashed.log_prob(x).numpy().sum(axis=-1), rtol=1e-3, atol=1e-3)


def test_spaces_without_bounds_are_refused():
    with pytest.raises(ValueError, match="need bounds"):
        SquashedGaussianHead(spaces.Box(-np.inf, np.inf, (2,), np.float32))
    with pytest.raises(ValueError, match="need bounds"):
        DeterministicHead(spaces.Discrete(2))
