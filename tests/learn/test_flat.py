"""Arrays as one vector, and the gradients that are clipped as one."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfbaselines.learn import exchange as flat
from tfbaselines.learn.exchange import clipped, joined, taken_apart

SHAPES = [(3, 4), (4,), (), (2, 2, 2)]


def _variables():
    return [keras.Variable(np.zeros(shape, np.float32)) for shape in SHAPES]


def _gradients(scale=1.0):
    rng = np.random.default_rng(0)
    return [tf.constant(scale * rng.normal(size=shape), tf.float32) for shape in SHAPES]


def test_what_was_joined_is_taken_apart():
    for one, other in zip(taken_apart(joined(_gradients()), _variables()), _gradients(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("few", [10**6, 0], ids=["few", "many"])
@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize(("scale", "most"), [(1.0, 0.5), (1e-3, 0.5), (1e4, 10.0), (0.0, 1.0)])
def test_the_global_norm_is_bounded_and_the_direction_stays(monkeypatch, few, jit, scale, most):
    monkeypatch.setattr(flat, "FEW", few)
    gradients = _gradients(scale)
    short = tf.function(lambda *g: clipped(g, _VARIABLES, most), jit_compile=jit)(*gradients)
    norm = np.linalg.norm(joined(gradients))
    factor = min(1.0, most / norm) if norm else 1.0
    for one, other in zip(short, gradients, strict=True):
        np.testing.assert_allclose(one, factor * other.numpy(), rtol=1e-5)


def test_gradients_that_are_not_finite_stay_so():
    """The run's check is to see them."""
    gradients = [tf.constant(np.full(shape, np.inf), tf.float32) for shape in SHAPES]
    assert all(np.isnan(gradient).all() for gradient in clipped(gradients, _VARIABLES, 1.0))


_VARIABLES = _variables()
