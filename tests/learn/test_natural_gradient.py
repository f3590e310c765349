"""Conjugate gradient, Hessian-vector products, line search, and steps on problems whose answers are known."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfbaselines.learn.natural_gradient import LineSearch, NaturalGradient, conjugate_gradient, hessian_product

RNG = np.random.default_rng(0)


def definite(size):
    root = RNG.standard_normal((size, size))
    return tf.constant(root @ root.T + np.eye(size))


def test_conjugate_gradient_solves_in_as_many_iterations_as_dimensions():
    matrix, b = definite(6), tf.constant(RNG.standard_normal(6))
    x = conjugate_gradient(lambda p: tf.linalg.matvec(matrix, p), b, 20)
    np.testing.assert_allclose(x, np.linalg.solve(matrix, b), rtol=1e-6)


@pytest.mark.parametrize("tolerance", [0.0, 1e-10])
def test_nothing_to_solve(tolerance):
    zero = tf.zeros(3)
    np.testing.assert_array_equal(conjugate_gradient(lambda p: p, zero, 10, tolerance), zero)


def test_it_stops_when_solved():
    products = []
    conjugate_gradient(lambda p: (products.append(1), p)[1], tf.ones(3), 10, tolerance=0.0)
    assert len(products) == 1


def test_products_with_the_hessian():
    a, b = keras.Variable([1.0, 2.0]), keras.Variable([[3.0]])
    # a0^2 a1 + a1 b^2: second derivatives by hand.
    vector = np.array([0.5, -1.0, 2.0], np.float32)
    hessian = np.array([[4.0, 2.0, 0.0], [2.0, 0.0, 6.0], [0.0, 6.0, 4.0]])

    def scalar():
        return a.value[0] ** 2 * a.value[1] + a.value[1] * b.value[0, 0] ** 2

    product = tf.function(lambda: hessian_product(scalar, [a, b], tf.constant(vector)))()
    np.testing.assert_allclose(product, hessian @ vector, rtol=1e-6)


@pytest.mark.parametrize(
    ("gains", "kls", "part", "tried"),
    [
        ([1, 1, 1], [0.1, 0, 0], 1.0, 1),
        ([1, 1, 1], [0.3, 0.2, 0], 0.5, 2),
        ([-1, -1, 1], [0, 0, 0], 0.25, 3),
        ([np.nan, 1, 1], [0, 0, 0], 0.5, 2),
        ([1, 1, 1], [np.inf, 0.9, 0.8], 0.0, 3),
    ],
)
def test_line_search(gains, kls, part, tried):
    measured = iter(zip(gains, kls, strict=True))
    search = LineSearch(tries=3, shrink=0.5, margin=2.0)
    theta, step = tf.constant([1.0, 2.0]), tf.constant([4.0, 8.0])
    found = search.run(lambda _: tf.constant(next(measured), tf.float32), theta, step, tf.constant([0.0, 0.0]), 0.1)
    assert (float(found[2]), int(found[3])) == (part, tried)
    np.testing.assert_allclose(found[0], theta + part * step)


def quadratic(target, curvature):
    """A variable, and a measure: the gain is linear, the divergence quadratic in the step, both by rows of a batch."""
    theta = keras.Variable([1.0, -1.0])
    start = tf.constant([1.0, -1.0])

    def measure(batch):
        moved = theta.value - start
        return {
            "gain": tf.reduce_mean(batch["x"]) * tf.reduce_sum(moved * target),
            "kl": 0.5 * tf.reduce_mean(batch["x"]) * tf.reduce_sum(curvature * moved**2),
        }

    return theta, measure


@pytest.mark.parametrize("jit", [True, False])
def test_a_step_has_the_divergence_asked_for(jit):
    curvature, target = np.array([1.0, 4.0], np.float32), np.array([2.0, 2.0], np.float32)
    theta, measure = quadratic(target, curvature)
    step = NaturalGradient(
        measure,
        [theta],
        cg_iters=10,
        damping=0.0,
        search=LineSearch(tries=5, shrink=0.5, margin=1.5),
        jit=jit,
    )
    taken = step({"x": np.ones(3, np.float32)}, max_kl=0.02)
    assert taken.part == 1.0 and taken.before == {"gain": 0.0, "kl": 0.0}
    assert taken.last["kl"] == pytest.approx(0.02, rel=1e-5)
    natural = target / curvature
    moved = theta.numpy() - [1.0, -1.0]
    np.testing.assert_allclose(moved / np.linalg.norm(moved), natural / np.linalg.norm(natural), rtol=1e-5)
    theta.assign([1.0, -1.0])
    assert step({"x": np.ones(3, np.float32)}, max_kl=0.005).last["kl"] == pytest.approx(0.005, rel=1e-5)


def test_curvature_comes_from_every_so_manieth_row(eager):
    theta, measure = quadratic(np.ones(2, np.float32), np.ones(2, np.float32))
    step = NaturalGradient(measure, [theta], cg_iters=2, damping=0.0, search=None, every=5)
    batch = {"x": tf.constant([3.0] + [1.0] * 4 + [5.0])}
    np.testing.assert_allclose(step.product(batch, tf.constant([1.0, 2.0])), [4.0, 8.0])


def test_without_a_gradient_nothing_changes(eager):
    theta, measure = quadratic(np.zeros(2, np.float32), np.ones(2, np.float32))
    step = NaturalGradient(measure, [theta], cg_iters=2, damping=0.1, search=None)
    step({"x": np.ones(3, np.float32)}, max_kl=0.02)
    np.testing.assert_array_equal(theta.numpy(), [1.0, -1.0])
