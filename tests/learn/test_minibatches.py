import keras
import numpy as np
import pytest
import tensorflow as tf

from tfbaselines.learn.engine import Engine, Phase
from tfbaselines.parallel import mpi

ROWS, INPUTS = 24, 3
compiled = pytest.mark.parametrize("jit", [False, True], ids=["graph", "jit"])


pytestmark = pytest.mark.usefixtures("one_message_a_step")


class TwoAlike(mpi.Communicator):
    """Two ranks with the same gradients; what this one sends is written down."""

    size = 2

    def __init__(self):
        self.sent = []

    def gather(self, own):
        return [own, own]

    def sum(self, array):
        self.sent.append(array)
        return 2 * array


class Regression:
    """A small network's fit, its variables the same for every instance."""

    def __init__(self, make_optimizer=keras.optimizers.Adam, jit=False, max_grad_norm=None, **options):
        rng = np.random.default_rng(0)
        shapes = {"kernel": (INPUTS, 4), "bias": (4,), "head": (4, 1), "unused": (2,)}
        self.variables = [
            keras.Variable(rng.normal(size=shape), dtype="float32", name=name) for name, shape in shapes.items()
        ]
        self.optimizer = make_optimizer()
        phase = Phase("fit", self.loss, self.variables, self.optimizer, max_grad_norm=max_grad_norm)
        self.engine = Engine([phase], jit=jit, **options)

    def loss(self, batch):
        kernel, bias, head, _ = (variable.value for variable in self.variables)
        error = (tf.tanh(batch["x"] @ kernel + bias) @ head)[:, 0] - batch["y"]
        squares = tf.reduce_mean(tf.square(error))
        size = tf.reduce_sum(tf.square(head))
        return squares + batch["decay"] * size, {"squares": squares, "size": size}

    def weights(self):
        return [variable.numpy() for variable in self.variables]

    def step_by_step(self, data, indices, lr, decay, max_grad_norm=None):
        """The phase in eager mode, one gradient step after the other; each step's statistics."""
        statistics = []
        for rows in indices:
            with tf.GradientTape() as tape:
                loss, of_step = self.loss({name: array[rows] for name, array in data.items()} | {"decay": decay})
            gradients = tape.gradient(loss, [v.value for v in self.variables], unconnected_gradients="zero")
            if max_grad_norm:
                norm = np.sqrt(sum(np.square(gradient).sum() for gradient in gradients))
                gradients = [gradient * min(1.0, max_grad_norm / norm) for gradient in gradients]
            self.optimizer.learning_rate.assign(lr)
            self.optimizer.apply(gradients, self.variables)
            statistics.append({name: float(value) for name, value in of_step.items()})
        return statistics


def data_of(seed=0):
    x = np.random.default_rng(seed).normal(size=(ROWS, INPUTS)).astype(np.float32)
    return {"x": x, "y": np.sin(x).sum(-1)}


def minibatches(count=6, size=4, seed=0):
    return np.random.default_rng(seed).permutation(ROWS)[: count * size].reshape(count, size).astype(np.int32)


def means(of_steps):
    return {name: np.mean([one[name] for one in of_steps]) for name in of_steps[0]}


def assert_equal(one, other, rtol=1e-5):
    for a, b in zip(one.weights(), other.weights(), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-6)


@compiled
@pytest.mark.parametrize("max_grad_norm", [None, 0.05, 1e6])
def test_the_compiled_phase_is_its_steps_one_by_one(jit, max_grad_norm):
    fused, eager = Regression(jit=jit, max_grad_norm=max_grad_norm), Regression()
    for call in range(2):
        data, indices = data_of(call), minibatches(seed=call)
        fused.engine.minibatches(data, indices, lr=0.01, decay=0.1)
        eager.step_by_step(data, indices, 0.01, 0.1, max_grad_norm)
    assert_equal(fused, eager)
    assert not np.allclose(fused.weights()[0], Regression().weights()[0])


@compiled
@pytest.mark.parametrize("max_grad_norm", [None, 0.05])
def test_flat_gradients_of_equal_ranks_give_the_same_weights(jit, max_grad_norm):
    comm = TwoAlike()
    fused, ranks = Regression(max_grad_norm=max_grad_norm), Regression(jit=jit, max_grad_norm=max_grad_norm, comm=comm)
    results = [model.engine.minibatches(data_of(), minibatches(), lr=0.01, decay=0.1) for model in (fused, ranks)]
    assert results[0] == pytest.approx(results[1], rel=1e-5, abs=1e-6) and set(results[0]) == {"squares", "size"}
    assert_equal(fused, ranks)
    assert len(comm.sent) == 6


def test_one_flat_gradient_per_minibatch_is_sent():
    comm = TwoAlike()
    model = Regression(keras.optimizers.SGD, comm=comm)
    before = model.weights()
    model.engine.minibatches(data_of(), minibatches(count=1), lr=0.5, decay=0.0)
    (flat,) = comm.sent
    assert flat.dtype == np.float32
    expected = [(old - new) / 0.5 for old, new in zip(before, model.weights(), strict=True)]
    np.testing.assert_allclose(2 * flat, np.concatenate([part.ravel() for part in expected]), rtol=1e-3, atol=1e-5)


def test_the_average_over_ranks_is_clipped_and_applied():
    class Halving(TwoAlike):
        def sum(self, array):
            return array

    plain = Regression(keras.optimizers.SGD)
    halved = Regression(keras.optimizers.SGD, comm=Halving())
    for model, lr in ((plain, 0.1), (halved, 0.2)):
        model.engine.minibatches(data_of(), minibatches(count=1), lr=lr, decay=0.0)
    assert_equal(plain, halved)
    bounded = Regression(keras.optimizers.SGD, comm=Halving(), max_grad_norm=0.01)
    bounded.engine.minibatches(data_of(), minibatches(count=1), lr=1.0, decay=0.0)
    moves = [new - old for new, old in zip(bounded.weights(), Regression().weights(), strict=True)]
    assert np.sqrt(sum(np.square(move).sum() for move in moves)) == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize("comm", [None, TwoAlike()], ids=["fused", "flat"])
def test_statistics_are_means_of_what_was_true_before_each_step(comm):
    model, eager = Regression(comm=comm), Regression()
    statistics = model.engine.minibatches(data_of(), minibatches(), lr=0.1, decay=0.1)
    of_steps = eager.step_by_step(data_of(), minibatches(), 0.1, 0.1)
    assert statistics == pytest.approx(means(of_steps), rel=1e-5, abs=1e-6)
    assert all(np.ptp([one[name] for one in of_steps]) > 1e-3 for name in ("squares", "size"))


@pytest.mark.parametrize("comm", [None, TwoAlike()], ids=["fused", "flat"])
def test_the_coefficient_lr_is_the_size_of_a_step(comm):
    before, moves = Regression().weights(), []
    for lr in (0.0, 0.01, 0.02):
        model = Regression(keras.optimizers.SGD, comm=comm)
        model.engine.minibatches(data_of(), minibatches(count=1), lr=lr, decay=0.1)
        assert float(model.optimizer.learning_rate.value) == pytest.approx(lr)
        moves.append(model.weights()[0] - before[0])
    np.testing.assert_array_equal(moves[0], 0.0)
    assert np.abs(moves[1]).max() > 1e-4
    np.testing.assert_allclose(moves[2], 2 * moves[1], rtol=1e-3, atol=1e-6)


def test_other_coefficients_reach_the_loss():
    plain, decaying = Regression(keras.optimizers.SGD), Regression(keras.optimizers.SGD)
    plain.engine.minibatches(data_of(), minibatches(count=1), lr=0.1, decay=0.0)
    decaying.engine.minibatches(data_of(), minibatches(count=1), lr=0.1, decay=0.5)
    expected = plain.weights()[2] - 0.1 * 0.5 * 2 * Regression().weights()[2]
    np.testing.assert_allclose(decaying.weights()[2], expected, rtol=1e-5, atol=1e-6)


@compiled
def test_the_phase_is_traced_once(jit):
    model = Regression(jit=jit)
    for call in range(4):
        model.engine.minibatches(data_of(call), minibatches(seed=call), lr=0.1 / (call + 1), decay=call)
    assert model.engine.traces() == 1
    model.engine.minibatches(data_of(), minibatches(count=3), lr=0.1, decay=0.0)
    assert model.engine.traces() == 2


@pytest.mark.parametrize("count", [1, 2])
def test_few_minibatches(count):
    model, eager = Regression(), Regression()
    statistics = model.engine.minibatches(data_of(), minibatches(count), lr=0.1, decay=0.1)
    of_steps = eager.step_by_step(data_of(), minibatches(count), 0.1, 0.1)
    assert statistics == pytest.approx(means(of_steps), rel=1e-5, abs=1e-6)
    assert_equal(model, eager)


def test_a_variable_outside_the_loss_stays():
    model = Regression()
    model.engine.minibatches(data_of(), minibatches(), lr=0.1, decay=0.1)
    np.testing.assert_array_equal(model.weights()[3], Regression().weights()[3])


@compiled
@pytest.mark.parametrize("comm", [None, TwoAlike()], ids=["fused", "flat"])
def test_gradients_may_be_given_and_something_follows_every_step(jit, comm):
    """In place of a loss: here the sign of the parameter, after which it is cut to whole numbers of halves."""
    w, steps = keras.Variable(np.float32([2.0, -3.0])), tf.Variable(0.0)

    def gradients(batch):
        return [batch["size"] * tf.sign(w.value)], {"w": w.value[0], "rows": tf.reduce_sum(batch["x"])}

    def after_step():
        steps.assign_add(1.0)
        w.assign(tf.floor(2.0 * w.value) / 2.0)

    phase = Phase("sign", None, [w], keras.optimizers.SGD(), gradients=gradients)
    engine = Engine([phase], jit=jit, comm=comm, after=after_step)
    data = {"x": np.arange(4, dtype=np.float32)}
    statistics = engine.minibatches(data, np.array([[0, 1], [2, 3]], np.int32), lr=0.3, size=2.0)
    # 2 - 0.6 is cut to 1, 1 - 0.6 to 0; -3 + 0.6 to -2.5, -2.5 + 0.6 to -2.
    np.testing.assert_array_equal(w, [0.0, -2.0])
    assert steps.numpy() == 2.0
    assert statistics == {"w": 1.5, "rows": 3.0}


def test_the_slots_exist_before_the_first_step():
    """A checkpoint is restored into them."""
    assert len(Regression().optimizer.variables) == 2 + 2 * 4
