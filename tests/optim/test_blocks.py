"""Phases are taken in their order and when they are due, alone and averaged over ranks alike."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfbaselines.optim.blocks import BlockUpdate, Phase
from tfbaselines.parallel.mpi import Communicator


class TwoAlike(Communicator):
    """Two ranks that do the same."""

    size = 2


def make(comm=None, every=1, after_every=1, jit=True, clip=None):
    """Two numbers: a follows the batch's x, b follows what a was before the step; c counts ends of steps."""
    a, b, c = (keras.Variable(np.float32(0.0)) for _ in range(3))

    def loss_a(batch):
        loss = 0.5 * tf.reduce_mean(tf.square(a.value - batch["x"]))
        return loss, tf.stack([loss, a.value])

    def loss_b(batch):
        loss = 0.5 * tf.square(b.value - batch["before"])
        return loss, loss[None]

    update = BlockUpdate(
        [
            Phase(loss_a, ("loss_a", "a"), [a], keras.optimizers.SGD(), clip=clip),
            Phase(loss_b, ("loss_b",), [b], keras.optimizers.SGD(), "lr_b", every),
        ],
        prepare=lambda batch: batch | {"before": a.value + 0.0},
        after=lambda: c.assign(c.value + 1.0),
        after_every=after_every,
        jit=jit,
        comm=comm,
    )
    return update, a, b, c


def expected(xs, every):
    a = b = 0.0
    for k, x in enumerate(xs):
        before = a
        a += 0.5 * (x - a)
        if k % every == 0:
            b += 0.1 * (before - b)
    return a, b


@pytest.mark.parametrize("comm", [None, TwoAlike()])
@pytest.mark.parametrize("jit", [True, False])
@pytest.mark.parametrize("every", [1, 2, 3])
def test_steps(comm, jit, every):
    update, a, b, c = make(comm, every, after_every=2, jit=jit)
    xs = np.arange(1.0, 8.0, dtype=np.float32)
    for part in (xs[:3], xs[3:]):
        statistics = update({"x": np.repeat(part[:, None], 4, 1)}, lr=0.5, lr_b=0.1)
    np.testing.assert_allclose((a.numpy(), b.numpy()), expected(xs, every), rtol=1e-6)
    assert c.numpy() == 4
    assert update.step == 7
    assert (statistics["loss_a"] > 0).all()


def test_statistics_are_of_the_steps_that_were_taken():
    update, *_ = make(every=2)
    block = {"x": np.ones((3, 1), np.float32)}
    row = update(block, lr=0.5, lr_b=0.1)
    assert row["a"] == pytest.approx([0, 0.5, 0.75])
    assert row["loss_b"] == pytest.approx([0, 0.5 * 0.75**2])
    # The next step is the fourth, in which the second phase is not due.
    assert len(update({"x": np.ones((1, 1), np.float32)}, lr=0.5, lr_b=0.1)["loss_b"]) == 0


def test_each_variables_gradient_is_clipped():
    update, a, *_ = make(clip=0.25)
    update({"x": np.full((1, 1), 9.0, np.float32)}, lr=1.0, lr_b=0.1)
    assert a.numpy() == pytest.approx(0.25)


def test_a_restored_update_goes_on_where_it_was():
    (one, a, b, _), (other, a2, b2, _) = make(every=2), make(every=2)
    block = {"x": np.ones((3, 2), np.float32)}
    one(block, lr=0.5, lr_b=0.1)
    other.restore(one.state())
    a2.assign(a.value)
    b2.assign(b.value)
    for update in (one, other):
        update(block, lr=0.5, lr_b=0.1)
    assert (a.numpy(), b.numpy(), one.step) == (a2.numpy(), b2.numpy(), other.step)
