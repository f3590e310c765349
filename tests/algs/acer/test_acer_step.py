"""Steps are shortened until a measured divergence is within its bound."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfbaselines.algs.acer.acer import MOST_HALVINGS, shortened_step


class Walk:
    """Variables, a step that moves all of them by one, and a divergence of the first alone."""

    def __init__(self, divergence, delta):
        self.w = keras.Variable(np.zeros(2, np.float32))
        self.other = keras.Variable(np.zeros(2, np.float32))
        self.calls = 0
        self.result, self.reached, self.part = shortened_step(
            [self.w], self.step, lambda: divergence(float(self.w.numpy()[0])), delta
        )

    def step(self):
        self.calls += 1
        for variable in (self.w, self.other):
            variable.assign(variable + 1.0)
        return "statistics"


@pytest.mark.parametrize(
    ("delta", "part"),
    [(2.0, 1.0), (1.0, 1.0), (0.99, 0.5), (0.25, 0.5), (0.24, 0.25), (0.5 ** (2 * (MOST_HALVINGS - 1)), 0.5**9)],
)
def test_a_step_is_halved_until_it_is_within_the_bound(delta, part):
    walk = Walk(np.square, delta)
    assert (walk.result, walk.reached, walk.part) == ("statistics", part**2, part)
    np.testing.assert_array_equal(walk.w, [part, part])


@pytest.mark.parametrize("divergence", [lambda w: 0.0 if w == 0 else 1.0, lambda w: 0.0 if w == 0 else np.nan])
def test_a_step_that_never_helps_is_not_taken(divergence):
    walk = Walk(divergence, 0.5)
    assert (walk.reached, walk.part) == (0.0, 0.0)
    np.testing.assert_array_equal(walk.w, [0.0, 0.0])


@pytest.mark.parametrize("delta", [2.0, 0.3, 0.0])
def test_other_variables_keep_their_whole_step_which_is_taken_once(delta):
    walk = Walk(np.square, delta)
    np.testing.assert_array_equal(walk.other, [1.0, 1.0])
    assert walk.calls == 1


@pytest.mark.parametrize(
    ("before", "delta", "part"),
    [(3.0, 1.0, 1.0), (0.5, 0.25, 1.0), (0.375, 1.0, 0.5), (-0.5, 0.5, 0.0)],
    ids=["nearer than it was", "no further than it was", "beyond delta on the other side", "away"],
)
def test_a_policy_out_of_bounds_may_come_no_further(before, delta, part):
    """The bound is what the divergence was, if that is more than delta."""
    walk = Walk(lambda w: np.square(before - w) * 4, delta)
    assert walk.part == part
    assert walk.reached == 4 * (before - part) ** 2 <= max(delta, 4 * before**2)


def test_steps_of_a_compiled_optimiser_are_shortened_too():
    """Its kernels write into the variables' memory; what was there before must have been kept."""
    w = keras.Variable([1.0, 2.0])
    optimizer = keras.optimizers.RMSprop(0.5)
    optimizer.build([w])
    step = tf.function(lambda: optimizer.apply([w.value], [w]), jit_compile=True)
    before = w.numpy()
    step()
    full = w.numpy() - before
    w.assign(before)
    optimizer.build([w])
    for slot in optimizer.variables[2:]:
        slot.assign(keras.ops.zeros_like(slot))
    _, _, part = shortened_step([w], step, lambda: float(np.abs(w.numpy() - before).max()), np.abs(full).max() / 3)
    assert part == 0.25
    np.testing.assert_allclose(w.numpy() - before, full / 4, rtol=1e-5)
