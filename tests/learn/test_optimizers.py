"""Adam takes the steps of Keras's, RMSProp those of TensorFlow 1's, compiled or not."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfbaselines.learn import exchange as flat
from tfbaselines.learn.optimizers import Adam, RMSProp, restore_slots, rule_of, slots

SHAPES = [(3, 4), (4,), (2, 2, 2)]
RATES = [0.01, 0.01, 0.001, 0.005, 0.01, 0.002]

everywhere = pytest.mark.parametrize("jit", [None, False, True], ids=["eager", "graph", "jit"])


few_or_many = pytest.mark.parametrize("few", [10**6, 0], ids=["few", "many"])


def variables_of(seed=0):
    rng = np.random.default_rng(seed)
    return [keras.Variable(rng.normal(size=shape).astype(np.float32)) for shape in SHAPES]


def gradients_of(step):
    """Of sizes from 1e-4 to 1e2."""
    rng = np.random.default_rng(100 + step)
    sizes = [10.0 ** rng.uniform(-4, 2, shape) for shape in SHAPES]
    return [(size * rng.choice([-1, 1], size.shape)).astype(np.float32) for size in sizes]


def run(optimizer, jit=None, rates=RATES):
    """The variables after each step."""
    variables = variables_of()
    rule = rule_of(optimizer)
    rule.build(variables)
    apply = rule.apply
    if jit is not None:
        apply = tf.function(apply, jit_compile=jit)
    history = []
    for step, rate in enumerate(rates):
        apply([tf.constant(gradient) for gradient in gradients_of(step)], tf.constant(rate))
        history.append([variable.numpy() for variable in variables])
    return history


def assert_same(one, other, rtol=1e-6):
    for step, (a, b) in enumerate(zip(one, other, strict=True)):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_allclose(x, y, rtol=rtol, atol=1e-6, err_msg=f"step {step}")


def arrays_of(optimizer):
    return list(slots(optimizer).values())


@everywhere
@pytest.mark.parametrize(
    "options", [{}, {"epsilon": 1e-5}, {"beta_1": 0.5, "beta_2": 0.9, "epsilon": 1e-2}], ids=["plain", "ppo2", "others"]
)
def test_adam_takes_the_steps_of_kerass(jit, options):
    ours, kerass = Adam(**options), keras.optimizers.Adam(**options)
    assert_same(run(ours, jit), run(kerass))
    # The kernel rounds 1 - beta_2 to float32, Keras computes it in double precision.
    assert_same([arrays_of(ours)], [arrays_of(kerass)], rtol=5e-5)


def test_adam_goes_on_from_kerass_slots():
    """Their meaning is the same: momentum, velocity and the number of steps."""
    ours, kerass = Adam(), keras.optimizers.Adam()
    run(kerass)
    variables = variables_of()
    ours.build(variables)
    for slot, value in zip(ours.variables, arrays_of(kerass), strict=True):
        slot.assign(value)
    others = variables_of()
    # Keras's optimiser knows its variables by identity: the same slots again, for others.
    again = keras.optimizers.Adam()
    again.build(others)
    for slot, value in zip(again.variables, arrays_of(kerass), strict=True):
        slot.assign(value)
    for optimizer, own in ((ours, variables), (again, others)):
        optimizer.apply([tf.constant(gradient) for gradient in gradients_of(9)], own)
    assert_same([[v.numpy() for v in variables]], [[v.numpy() for v in others]])


def rmsprop_by_hand(alpha, epsilon, start=1.0):
    """The formula of tf.train.RMSPropOptimizer."""
    weights = [variable.numpy().astype(np.float64) for variable in variables_of()]
    squares = [np.full(w.shape, start) for w in weights]
    history = []
    for step, rate in enumerate(RATES):
        for w, ms, g in zip(weights, squares, gradients_of(step), strict=True):
            ms[...] = alpha * ms + (1 - alpha) * np.square(g, dtype=np.float64)
            w -= rate * g / np.sqrt(ms + epsilon)
        history.append([w.copy() for w in weights])
    return history


@everywhere
@pytest.mark.parametrize(("alpha", "epsilon"), [(0.99, 1e-5), (0.5, 0.3)])
@few_or_many
def test_rmsprop_takes_the_steps_of_tensorflow_1s(monkeypatch, jit, alpha, epsilon, few):
    """By its formula and by TensorFlow's kernel."""
    monkeypatch.setattr(flat, "FEW", few)
    assert_same(run(RMSProp(alpha, epsilon), jit), rmsprop_by_hand(alpha, epsilon), rtol=1e-5)


def test_rmsprops_defaults_are_acers():
    assert_same(run(RMSProp()), rmsprop_by_hand(0.99, 1e-5), rtol=1e-5)


@few_or_many
def test_building_rmsprop_again_keeps_its_slots(monkeypatch, few):
    """A checkpoint is restored into them, and they are built once more for the first step."""
    monkeypatch.setattr(flat, "FEW", few)
    optimizer, variables = RMSProp(), variables_of()
    optimizer.build(variables)
    shapes = [slot.shape for slot in optimizer.variables]
    assert sum(map(np.prod, shapes)) == sum(map(np.prod, SHAPES))
    np.testing.assert_equal(arrays_of(optimizer), [np.ones(shape) for shape in shapes])
    restore_slots(optimizer, {str(i): np.full(shape, 3.0 + i) for i, shape in enumerate(shapes)})
    optimizer.build(variables)
    np.testing.assert_equal(arrays_of(optimizer), [np.full(shape, 3.0 + i) for i, shape in enumerate(shapes)])


def test_rmsprops_one_vector_of_a_larger_network_is_taken_apart(monkeypatch):
    """XLA divides a vector of 2^16 numbers among threads, which took twenty times as long: an LSTM's is one no more."""
    assert flat.FEW < 2**16
    vector = np.arange(sum(map(np.prod, SHAPES)), dtype=np.float32)
    for few, count in ((1000, 1), (0, len(SHAPES))):
        monkeypatch.setattr(flat, "FEW", few)
        optimizer = RMSProp()
        optimizer.build(variables_of())
        restore_slots(optimizer, {"00": vector})
        found = arrays_of(optimizer)
        assert len(found) == count
        np.testing.assert_array_equal(np.concatenate([array.ravel() for array in found]), vector)


@pytest.mark.parametrize("make", [Adam, RMSProp])
def test_slots_of_other_variables_are_refused(make):
    optimizer, other = make(), make()
    optimizer.build(variables_of())
    other.build(variables_of()[:2])
    with pytest.raises(ValueError, match="belongs to other variables"):
        restore_slots(optimizer, slots(other))


@pytest.mark.parametrize("make", [Adam, RMSProp])
def test_a_gradient_of_zero_moves_nothing(make):
    optimizer, variables = make(), variables_of()
    rule = rule_of(optimizer)
    rule.build(variables)
    rule.apply([tf.zeros(shape) for shape in SHAPES], tf.constant(0.1))
    np.testing.assert_equal([v.numpy() for v in variables], [v.numpy() for v in variables_of()])


@pytest.mark.parametrize("make", [Adam, RMSProp])
def test_slots_hold_all_that_is_remembered(make):
    """Half the steps, then the other half by a new optimiser with the first one's slots."""
    whole = run(make())[-1]
    first, second = rule_of(make()), rule_of(make())
    variables, others = variables_of(), variables_of()
    first.build(variables)
    second.build(others)
    for step, rate in enumerate(RATES):
        rule = first if step < 3 else second
        if step == 3:
            restore_slots(second, slots(first))
            for to, source in zip(others, variables, strict=True):
                to.assign(source)
        rule.apply([tf.constant(gradient) for gradient in gradients_of(step)], tf.constant(rate))
    assert_same([[v.numpy() for v in others]], [whole])
