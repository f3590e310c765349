"""Stages against gradient steps taken by hand."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfbaselines.learn.engine import Engine, Phase
from tfbaselines.learn.optimizers import Adam


def make(steps=(3, 2), most=np.inf, statistic="distance"):
    """x descends to the batch's mean, and y to x."""
    x, y = keras.Variable(0.0), keras.Variable(0.0)

    def first(batch):
        loss = tf.reduce_mean(tf.square(x.value - batch["target"]))
        return loss, {"first": loss, "distance": tf.abs(x.value)}

    def second(batch):
        loss = tf.square(y.value - x.value)
        return loss, {"second": loss}

    phases = [
        Phase("one", first, [x], keras.optimizers.SGD(), "fast", steps=steps[0], until=statistic, most=most),
        Phase("two", second, [y], Adam(epsilon=1e-8), "slow", steps=steps[1]),
    ]
    return x, y, Engine(phases)


TARGET = {"target": np.array([1.0, 3.0], np.float32)}


def test_steps_follow_one_another():
    x, y, update = make()
    outcome = update.repeat(TARGET, fast=0.25, slow=0.1)
    # x <- x + 2 * 0.25 * (2 - x), three times; Adam's steps are of size lr.
    np.testing.assert_allclose(x.numpy(), 1.75, rtol=1e-6)
    np.testing.assert_allclose(y.numpy(), 0.2, rtol=1e-2)
    assert outcome.steps == [3, 2]
    np.testing.assert_allclose(outcome.before["first"], 5.0, rtol=1e-6)
    np.testing.assert_allclose(outcome.after["first"], 1.0625, rtol=1e-6)
    np.testing.assert_allclose(outcome.before["second"], 0.0, atol=1e-6)
    np.testing.assert_allclose(outcome.after["second"], (1.75 - y.numpy()) ** 2, rtol=1e-5)


def test_a_stage_ends_with_the_step_before_which_its_statistic_is_too_large():
    """x is 0, 1, 1.5, 1.75, 1.875, 1.9375 before its steps."""
    for most, steps in ((0.9, 2), (1.2, 3), (1.9, 6), (2.5, 9)):
        x, _, update = make(steps=(9, 1), most=most)
        assert update.repeat(TARGET, fast=0.25, slow=0.1).steps == [steps, 1]
        np.testing.assert_allclose(x.numpy(), 2.0 - 2.0 ** (1 - steps), rtol=1e-6)


def test_a_stage_ends_where_its_statistic_is_not_a_number():
    _, _, update = make(steps=(9, 1), most=1.0)
    nan = {"target": np.array([np.nan, 1.0], np.float32)}
    assert update.repeat(nan, fast=0.25, slow=0.1).steps == [2, 1]


@pytest.mark.parametrize("steps", [(0, 2), (2, 0)])
def test_a_stage_may_have_no_steps(steps):
    x, y, update = make(steps=steps)
    assert update.repeat(TARGET, fast=0.25, slow=0.1).steps == list(steps)
    assert (x.numpy() == 0.0) == (steps[0] == 0)
    # Where x has not moved, y is there already.
    assert y.numpy() == 0.0


def test_one_trace():
    _, _, update = make()
    for _ in range(3):
        update.repeat(TARGET, fast=0.25, slow=0.1)
    assert update.traces() == 1
