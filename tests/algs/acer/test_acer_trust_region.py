"""The efficient trust region gives the nearest gradient within its bound."""

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from hypothesis import given, settings
from hypothesis import strategies as st

from tfbaselines.algs.acer.loss import bounded_gradient, gaussian_kl_gradient


def rows(seed, count=6, width=3):
    rng = np.random.default_rng(seed)
    return [tf.constant(rng.normal(size=(count, width)), tf.float32) for _ in range(2)]


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_the_bounded_gradient_is_the_nearest_within_the_bound(seed, delta):
    """Nearer points, tried at random at all distances, are all out of bounds."""
    g, k = rows(seed)
    z = bounded_gradient(g, k, delta)[0].numpy()
    g, k = g.numpy(), k.numpy()
    assert ((k * z).sum(-1) <= delta + 1e-4).all()
    rng = np.random.default_rng(seed)
    tried = z + rng.normal(size=(2000, *z.shape)) * 10 ** rng.uniform(-3, 1, (2000, len(z), 1))
    allowed = (tried * k).sum(-1) <= delta
    distance = np.where(allowed, np.linalg.norm(tried - g, axis=-1), np.inf).min(0)
    assert allowed.any(0).all()
    assert (distance >= np.linalg.norm(z - g, axis=-1) - 1e-4).all()


def test_each_row_is_bounded_by_itself():
    g, k = tf.constant([[3.0, 1.0], [3.0, 1.0], [3.0, 1.0]]), tf.constant([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.5]])
    z, sizes = bounded_gradient(g, k, 1.0)
    np.testing.assert_allclose(z, [[1.0, 1.0], [3.0, 1.0], [3.0, 1.0]], rtol=1e-5)
    np.testing.assert_allclose(sizes["avg_norm_k"], [1.0, 1.0, 0.5])
    np.testing.assert_allclose(sizes["avg_norm_g"], [np.sqrt(10.0)] * 3)
    np.testing.assert_allclose(sizes["avg_norm_k_dot_g"], [3.0, 3.0, 0.5])
    np.testing.assert_allclose(sizes["avg_norm_adj"], [2.0, 0.0, 0.0], rtol=1e-5)


def test_a_gradient_within_the_bound_is_not_touched():
    g, k = rows(0)
    inside = tf.reduce_sum(g * k, -1).numpy() <= 0.5
    assert 0 < inside.sum() < len(inside)
    z = bounded_gradient(g, k, 0.5)[0].numpy()
    np.testing.assert_array_equal(z[inside], g.numpy()[inside])
    assert (z[~inside] != g.numpy()[~inside]).all()


def test_a_policy_that_equals_its_average_is_not_bounded():
    """There k is zero, and nothing may be divided by it."""
    g, _ = rows(0)
    np.testing.assert_array_equal(bounded_gradient(g, tf.zeros_like(g), 0.0)[0], g)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=10)
def test_the_gradient_of_gaussians_divergence_is_the_tapes(seed):
    average, flat = (0.5 * x for x in rows(seed, width=6))

    def gaussian(parameters):
        mean, logstd = tf.split(parameters, 2, axis=-1)
        return tfp.distributions.MultivariateNormalDiag(mean, tf.exp(logstd))

    with tf.GradientTape() as tape:
        tape.watch(flat)
        kl = tfp.distributions.kl_divergence(gaussian(average), gaussian(flat))
    np.testing.assert_allclose(gaussian_kl_gradient(average, flat), tape.gradient(kl, flat), rtol=1e-4, atol=1e-4)


def test_equal_gaussians_have_no_gradient():
    flat = rows(0, width=4)[0]
    np.testing.assert_allclose(gaussian_kl_gradient(flat, flat), 0.0, atol=1e-6)
