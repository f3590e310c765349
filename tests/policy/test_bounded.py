"""Heads of bounded actions: inside of their bounds, the same in numpy, with the density of the change of variables."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from gymnasium import spaces

from tfbaselines.algs import get
from tfbaselines.policy.bounded import FOR_OTHERS, DeterministicHead, SquashedGaussianHead

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


def parameters(head, rows=50, scale=1.0):
    return np.random.default_rng(2).standard_normal((rows, head.param_size), np.float32) * np.float32(scale)


@pytest.mark.parametrize("jit", [None, False, True], ids=["eager", "graph", "jit"])
def test_a_distribution_is_all_that_the_head_says(jit):
    head = SquashedGaussianHead(SPACE)
    flat, noise = parameters(head), head.draw_noise(np.random.default_rng(3), (50,))

    def outputs(flat, noise):
        distribution = head.distribution(flat)
        actions = distribution.sample(noise)
        return distribution.mode(), actions, distribution.neglogp(actions)

    call = outputs if jit is None else tf.function(outputs, jit_compile=jit)
    mode, actions, neglogp = call(tf.constant(flat), tf.constant(noise))
    expected, logp = head.sample(tf.constant(flat), tf.constant(noise))
    np.testing.assert_allclose(mode, head.mode(tf.constant(flat)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(actions, expected, rtol=1e-5, atol=1e-6)
    # The noise is taken back out of the actions' digits.
    np.testing.assert_allclose(neglogp, -logp, rtol=1e-2, atol=1e-2)
    np.testing.assert_allclose(head.neglogp_numpy(flat, expected.numpy()), -logp, rtol=1e-2, atol=1e-2)


def test_densities_at_the_bounds_are_finite():
    head = SquashedGaussianHead(SPACE)
    flat, bounds = parameters(head, 2), np.stack([SPACE.low, SPACE.high])
    neglogp = head.neglogp_numpy(flat, bounds)
    assert np.isfinite(neglogp).all() and neglogp.shape == (2,)
    wide = np.concatenate([flat[:, :2], np.full((2, 2), 60.0, np.float32)], axis=1)
    assert np.isfinite(head.neglogp_numpy(wide, head.mode_numpy(wide))).all()


@pytest.mark.parametrize("compiled", [False, True])
def test_a_deterministic_distribution_is_its_mode_and_has_no_density(compiled):
    head = DeterministicHead(SPACE)
    flat, noise = parameters(head), head.draw_noise(np.random.default_rng(3), (50,))

    def outputs(flat, noise):
        distribution = head.distribution(flat)
        return distribution.mode(), distribution.sample(noise), distribution.neglogp(distribution.mode())

    spec = tf.TensorSpec((None, 2), tf.float32)
    call = tf.function(outputs, input_signature=[spec, spec]) if compiled else outputs
    mode, actions, neglogp = call(tf.constant(flat), tf.constant(noise))
    np.testing.assert_array_equal(mode, actions)
    np.testing.assert_allclose(mode, head.mode_numpy(flat), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(head.sample_numpy(flat, noise), head.mode_numpy(flat))
    np.testing.assert_array_equal(neglogp, np.zeros(50))
    np.testing.assert_array_equal(head.neglogp_numpy(flat, head.mode_numpy(flat)), np.zeros(50))


@pytest.mark.parametrize("kind", [DeterministicHead, SquashedGaussianHead])
def test_noise_is_added_inside_of_the_bounds(kind):
    head = kind(SPACE)
    actions = np.array([[[1.0, 2.25]], [[2.9, 2.49]], [[-0.9, 2.01]]], np.float32)
    noise = np.array([[0.5, -0.125], [0.5, 0.125], [-0.5, -0.125]], np.float32)
    moved = head.noisy(actions, noise)
    np.testing.assert_allclose(moved, [[[1.5, 2.125]], [[3.0, 2.5]], [[-1.0, 2.0]]], rtol=1e-6)
    assert moved.dtype == np.float32 and all(SPACE.contains(one) for one in moved)
    np.testing.assert_array_equal(head.noisy(actions, 0 * noise), actions)
    assert actions[1, 0, 0] == np.float32(2.9)


def test_actions_in_units_of_their_bounds():
    head, x = DeterministicHead(SPACE), np.array([[-1.0, 0.0], [0.5, 1.0]], np.float32)
    actions = head.scaled_numpy(x)
    np.testing.assert_allclose(actions, [[[-1.0, 2.25]], [[2.0, 2.5]]])
    np.testing.assert_allclose(head.unit_numpy(actions), x, atol=1e-6)
    np.testing.assert_allclose(head.unit(tf.constant(actions)), x, atol=1e-6)


def test_spaces_without_bounds_are_refused():
    with pytest.raises(ValueError, match="need bounds"):
        SquashedGaussianHead(spaces.Box(-np.inf, np.inf, (2,), np.float32))
    with pytest.raises(ValueError, match="need bounds"):
        DeterministicHead(spaces.Discrete(2))


@pytest.mark.parametrize("space", [spaces.Discrete(2), spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(3)])
def test_other_spaces_name_algorithms_that_take_them(space):
    with pytest.raises(ValueError, match=f"an algorithm for it is {FOR_OTHERS[type(space)]}$"):
        DeterministicHead(space)
    for name in FOR_OTHERS[type(space)].replace(" or ", ", ").split(", "):
        assert type(space).__name__ in get(name).actions
