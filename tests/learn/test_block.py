"""Phases are taken in their order and when they are due, alone and averaged over ranks alike."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfbaselines.learn.engine import Engine, Merged, Phase
from tfbaselines.parallel.mpi import Communicator

pytestmark = pytest.mark.usefixtures("one_message_a_step")


class Other(Communicator):
    """One of two ranks; of everything the other one has `offset` more."""

    size = 2

    def __init__(self, offset):
        self.offset, self.averaged = offset, []

    def gather(self, own):
        return [own, own]

    def sum(self, array):
        self.averaged.append(2 * array)
        return 2 * array + np.float32(self.offset / 2)


class TwoAlike(Other):
    """Two ranks with the same batches."""

    def __init__(self):
        super().__init__(0.0)


def make(comm=None, every=1, after_every=1, jit=True, clip=None):
    """Two numbers: a follows the batch's x, b follows what a was before the step; c counts ends of steps."""
    a, b, c = (keras.Variable(np.float32(0.0)) for _ in range(3))

    def loss_a(batch):
        loss = 0.5 * tf.reduce_mean(tf.square(a.value - batch["x"]))
        return loss, {"loss_a": loss, "a": a.value}

    def loss_b(batch):
        loss = 0.5 * tf.square(b.value - batch["before"])
        return loss, {"loss_b": loss}

    update = Engine(
        [
            Phase("a", loss_a, [a], keras.optimizers.SGD(), clip_norm=clip),
            Phase("b", loss_b, [b], keras.optimizers.SGD(), "lr_b", every),
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
        statistics = update.block({"x": np.repeat(part[:, None], 4, 1)}, lr=0.5, lr_b=0.1)
    np.testing.assert_allclose((a.numpy(), b.numpy()), expected(xs, every), rtol=1e-6)
    assert c.numpy() == 4
    assert update.step == 7
    assert (statistics["loss_a"] > 0).all()


def test_statistics_are_of_the_steps_that_were_taken():
    update, *_ = make(every=2)
    block = {"x": np.ones((3, 1), np.float32)}
    row = update.block(block, lr=0.5, lr_b=0.1)
    assert row["a"] == pytest.approx([0, 0.5, 0.75])
    assert row["loss_b"] == pytest.approx([0, 0.5 * 0.75**2])
    # The next step is the fourth, in which the second phase is not due.
    assert len(update.block({"x": np.ones((1, 1), np.float32)}, lr=0.5, lr_b=0.1)["loss_b"]) == 0


def test_each_variables_gradient_is_clipped():
    update, a, *_ = make(clip=0.25)
    update.block({"x": np.full((1, 1), 9.0, np.float32)}, lr=1.0, lr_b=0.1)
    assert a.numpy() == pytest.approx(0.25)


def make_pair(together, comm=None, jit=True):
    """Two numbers, each of which follows what the other is."""
    a, b = keras.Variable(np.float32(1.0)), keras.Variable(np.float32(5.0))

    def follow(one, other, name):
        def loss(batch):
            loss = 0.5 * tf.square(one.value - tf.stop_gradient(other.value) - batch["x"][0])
            return loss, {f"loss_of_{name}": loss, name: other.value}

        return loss

    phases = [
        Phase("a", follow(a, b, "b"), [a], keras.optimizers.SGD()),
        Phase("b", follow(b, a, "a"), [b], keras.optimizers.SGD(), "lr_b"),
    ]
    return Engine(phases, together=together, jit=jit, comm=comm), a, b


@pytest.mark.parametrize(
    ("comm", "jit"), [(None, True), (None, False), (TwoAlike(), True)], ids=["jit", "graph", "ranks"]
)
@pytest.mark.parametrize("together", [True, False])
def test_phases_taken_together_all_see_the_weights_of_before_the_step(together, jit, comm):
    update, a, b = make_pair(together, comm, jit)
    statistics = update.block({"x": np.zeros((3, 1), np.float32)}, lr=0.5, lr_b=0.25)
    x, y, seen = 1.0, 5.0, []
    for _ in range(3):
        first = x + 0.5 * (y - x)
        seen.append(x if together else first)
        x, y = first, y + 0.25 * (seen[-1] - y)
    np.testing.assert_allclose((a.numpy(), b.numpy()), (x, y), rtol=1e-6)
    np.testing.assert_allclose(statistics["a"], seen, rtol=1e-6)


@pytest.mark.parametrize("together", [True, False])
def test_over_ranks_phases_taken_together_are_one_message_a_step(together):
    """The other rank's gradients are 2 more, so that half of it joins this rank's."""
    comm = Other(offset=2.0)
    update, a, b = make_pair(together, comm)
    update.block({"x": np.zeros((3, 1), np.float32)}, lr=0.5, lr_b=0.25)
    x, y, sent = 1.0, 5.0, []
    for _ in range(3):
        to_x = x - y
        moved = x - 0.5 * (to_x + 1.0)
        to_y = y - (x if together else moved)
        x, y = moved, y - 0.25 * (to_y + 1.0)
        sent += [[to_x, to_y]] if together else [[to_x], [to_y]]
    assert [flat.tolist() for flat in comm.averaged] == [pytest.approx(flat) for flat in sent]
    np.testing.assert_allclose((a.numpy(), b.numpy()), (x, y), rtol=1e-6)


@pytest.mark.parametrize("clip", [None, 0.5])
@pytest.mark.parametrize("offset", [0.0, 3.0])
def test_one_message_gives_the_weights_that_one_message_for_each_phase_gives(offset, clip):
    """Matrices and vectors, phases that do not depend on each other, and learning rates of their own."""
    rng = np.random.default_rng(0)
    shapes, block = [(2, 3), (3,), (), (4, 1)], {"x": rng.normal(size=(3, 5)).astype(np.float32)}
    start = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    results = []
    for together in (True, False):
        variables = [keras.Variable(value) for value in start]

        def loss(which, name, variables=variables):
            def of_batch(batch):
                sizes = [tf.reduce_sum(tf.square(variables[k].value)) for k in which]
                loss = tf.add_n(sizes) * tf.reduce_mean(batch["x"])
                return loss, {name: loss, f"{name}_rows": loss * batch["x"]}

            return of_batch

        parts = {"one": [0, 1], "two": [2, 3]}
        phases = [
            Phase(
                name,
                loss(which, name),
                [variables[k] for k in which],
                keras.optimizers.Adam(),
                f"lr_{name}",
                clip_norm=clip,
            )
            for name, which in parts.items()
        ]
        comm = Other(offset)
        statistics = Engine(phases, together=together, comm=comm).block(block, lr_one=0.1, lr_two=0.01)
        results.append([*(variable.numpy() for variable in variables), *statistics.values()])
        assert len(comm.averaged) == (3 if together else 6)
        assert list(statistics) == ["one", "one_rows", "two", "two_rows"]
    for one, other, first in zip(*results, start + [None] * 4, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
        assert first is None or np.abs(one - first).max() > 1e-3


def make_rows(comm=None, jit=True, every=1):
    """A number that follows the mean of x; its statistics are of the batch, of each row, and of pairs of rows."""
    a, b = keras.Variable(np.float32(0.0)), keras.Variable(np.float32(0.0))

    def loss(batch):
        errors = batch["x"] - a.value
        loss = 0.5 * tf.square(tf.reduce_mean(errors))
        return loss, {"errors": errors, "loss": loss, "pairs": tf.reshape(errors, (-1, 2))}

    def rare(batch):
        return tf.square(b.value), {"doubled": 2.0 * batch["x"]}

    phases = [
        Phase("a", loss, [a], keras.optimizers.SGD()),
        Phase("rare", rare, [b], keras.optimizers.SGD(), every=every),
    ]
    return Engine(phases, jit=jit, comm=comm)


@pytest.mark.parametrize(
    ("comm", "jit"), [(None, True), (None, False), (TwoAlike(), True)], ids=["jit", "graph", "ranks"]
)
@pytest.mark.parametrize("every", [1, 2, 3])
def test_statistics_may_be_of_every_row(comm, jit, every):
    update, a, first = make_rows(comm, jit, every), 0.0, 0
    for count in (4, 3):
        x = np.random.default_rng(count).normal(size=(count, 6)).astype(np.float32)
        found = update.block({"x": x}, lr=1.0)
        errors = []
        for row in x:
            errors.append(row - a)
            a = row.mean()
        np.testing.assert_allclose(found["errors"], errors, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(found["loss"], 0.5 * np.square(np.mean(errors, 1)), rtol=1e-4, atol=1e-6)
        np.testing.assert_array_equal(found["pairs"], found["errors"].reshape(count, 3, 2))
        # Only of the steps in which its phase was due, counted over calls.
        due = [k for k in range(count) if (first + k) % every == 0]
        np.testing.assert_allclose(found["doubled"], 2.0 * x[due])
        assert list(found) == ["errors", "loss", "pairs", "doubled"]
        first += count


@pytest.mark.parametrize("comm", [None, TwoAlike()], ids=["alone", "ranks"])
def test_batches_of_other_sizes_have_as_many_rows_in_their_statistics(comm):
    update = make_rows(comm)
    for rows in (6, 4, 6):
        found = update.block({"x": np.ones((2, rows), np.float32)}, lr=0.0)
        assert found["errors"].shape == found["doubled"].shape == (2, rows) and found["loss"].shape == (2,)
        np.testing.assert_allclose(found["doubled"], 2.0)


def test_phases_taken_together_are_all_due_in_every_step():
    phase = Phase("none", lambda batch: None, [keras.Variable(0.0)], keras.optimizers.SGD())
    with pytest.raises(ValueError, match="phases that step together must all be due in every step"):
        Engine([phase, phase._replace(every=2)], together=True)


def make_merging(comm=None, jit=True, together=False):
    """A sum of all x; a follows what it is after x was taken in."""
    a, total = keras.Variable(np.float32(0.0)), tf.Variable([0.0, 0.0])

    def loss(batch):
        loss = 0.5 * tf.square(a.value - total[0])
        return loss, {"loss": loss, "before": total[1]}

    def prepare(batch):
        # What is prepared knows nothing of the batch's own part of the sum.
        return batch | {"pair": tf.stack([tf.reduce_mean(batch["x"]), total[0]])}

    merged = Merged(lambda batch: batch["pair"], lambda pair: total.assign([total[0] + pair[0], pair[1]]))
    phase = Phase("a", loss, [a], keras.optimizers.SGD())
    return Engine([phase], prepare=prepare, merged=merged, comm=comm, jit=jit, together=together), a, total


@pytest.mark.parametrize(
    ("comm", "jit"), [(None, True), (None, False), (TwoAlike(), True)], ids=["jit", "graph", "ranks"]
)
@pytest.mark.parametrize("together", [True, False])
def test_what_is_merged_is_taken_before_the_phases(together, jit, comm):
    update, a, total = make_merging(comm, jit, together)
    row = update.block({"x": np.array([[1.0, 3.0], [4.0, 0.0], [5.0, 5.0]], np.float32)}, lr=1.0)
    assert total.numpy().tolist() == [9.0, 4.0] and a.numpy() == 9.0
    assert row["before"].tolist() == [0.0, 2.0, 4.0]
    assert row["loss"].tolist() == [2.0, 2.0, 12.5]


def test_what_is_merged_is_averaged_over_ranks():
    comm = Other(offset=2.0)
    update, a, total = make_merging(comm)
    update.block({"x": np.array([[1.0], [4.0]], np.float32)}, lr=1.0)
    assert total.numpy()[0] == (1.0 + 1.0) + (4.0 + 1.0)
    # Gradients too: half of the other rank's surplus.
    assert [flat.tolist() for flat in comm.averaged] == [[1.0, 0.0], [-2.0], [4.0, 2.0], [-6.0]]
    assert a.numpy() == (2.0 - 1.0) + (6.0 - 1.0)


def test_one_batch_is_prepared_as_in_a_step():
    update, *_ = make_merging()
    update.block({"x": np.array([[1.0, 3.0]], np.float32)}, lr=1.0)
    batch = update.prepared({"x": np.array([4.0, 6.0], np.float32)})
    assert batch["pair"].numpy().tolist() == [5.0, 2.0] and batch["x"].numpy().tolist() == [4.0, 6.0]
    assert update.step == 1


def test_a_restored_update_goes_on_where_it_was():
    (one, a, b, _), (other, a2, b2, _) = make(every=2), make(every=2)
    block = {"x": np.ones((3, 2), np.float32)}
    one.block(block, lr=0.5, lr_b=0.1)
    other.restore(one.state())
    a2.assign(a.value)
    b2.assign(b.value)
    for update in (one, other):
        update.block(block, lr=0.5, lr_b=0.1)
    assert (a.numpy(), b.numpy(), one.step) == (a2.numpy(), b2.numpy(), other.step)
