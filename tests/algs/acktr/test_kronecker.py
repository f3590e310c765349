"""Kronecker factors against sums over rows and places in numpy, and the inverse of the matrix that they stand for."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from tfbaselines.algs.acktr.kronecker import KroneckerFactors, preconditioned
from tfbaselines.policy.layers import in_full, layers_of, set_precision

RNG = np.random.default_rng(0)
ROWS = 5
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def randomized(network):
    for variable in network.trainable_variables:
        variable.assign(normal(*variable.shape))
    return network


def factors_of(network, x, weights, compiled=False):
    """The factors of E[sum of weights * output], one for each of `sizes`."""
    factors = KroneckerFactors(layers_of(network))
    observed = factors.observed(network)

    def compute(x, weights):
        factors.begin()
        with tf.GradientTape(persistent=True) as tape:
            likelihood = tf.reduce_sum(in_full(observed(x)) * weights) / ROWS
        return factors.new(lambda tensors: tape.gradient(likelihood, tensors), [])

    found = (tf.function(compute) if compiled else compute)(tf.constant(x), tf.constant(weights))
    assert [one.shape for one in found] == [(n, n) for n in factors.sizes]
    return [one.numpy() for one in found], factors


def outer(rows):
    """The sum of the outer products of all rows [..., n] with themselves."""
    flat = rows.reshape(-1, rows.shape[-1])
    return sum(np.outer(row, row) for row in flat)


@pytest.mark.parametrize("compiled", [False, True])
def test_dense(compiled):
    inputs = keras.Input((3,))
    hidden = layers.Dense(4, "tanh")
    network = randomized(keras.Model(inputs, layers.Dense(2, use_bias=False)(hidden(inputs))))
    x, weights = normal(ROWS, 3), normal(ROWS, 2)
    (a1, g1, a2, g2), factors = factors_of(network, x, weights, compiled)
    w1, b1, w2 = (variable.numpy() for variable in network.trainable_variables)
    h = np.tanh(x @ w1 + b1)
    expected = x, weights @ w2.T * (1 - h**2), h, weights
    for factor, rows in zip((a1, g1, a2, g2), expected, strict=True):
        np.testing.assert_allclose(factor, outer(rows) / ROWS, **CLOSE)
    assert [factors.numbers_of(variable) for variable in network.trainable_variables] == [[0, 1], [1], [2, 3]]


def convolved(x, kernel, bias, stride, dilation, pad):
    """Patches [B, T, n] in the order of the kernel's numbers, and outputs [B, T, m], place by place."""
    size, _, _, filters = kernel.shape
    reach = (size - 1) * dilation + 1
    if pad == "same":
        out = [-(-n // stride) for n in x.shape[1:3]]
        missing = [max((o - 1) * stride + reach - n, 0) for o, n in zip(out, x.shape[1:3], strict=True)]
        x = np.pad(x, [(0, 0), *((m // 2, m - m // 2) for m in missing), (0, 0)])
    else:
        out = [(n - reach) // stride + 1 for n in x.shape[1:3]]
    patches = [
        x[:, i * stride : i * stride + reach : dilation, j * stride : j * stride + reach : dilation].reshape(len(x), -1)
        for i, j in itertools.product(*map(range, out))
    ]
    patches = np.stack(patches, axis=1)
    return patches, patches @ kernel.reshape(-1, filters) + bias


@pytest.mark.parametrize(
    ("stride", "dilation", "pad"), [(1, 1, "valid"), (2, 1, "valid"), (2, 1, "same"), (1, 2, "same"), (3, 1, "same")]
)
def test_convolution(stride, dilation, pad):
    inputs = keras.Input((7, 6, 2))
    layer = layers.Conv2D(4, 3, stride, pad, dilation_rate=dilation, activation="relu")
    network = randomized(keras.Model(inputs, layer(inputs)))
    kernel, bias = (variable.numpy() for variable in network.trainable_variables)
    x = normal(ROWS, 7, 6, 2)
    patches, outputs = convolved(x, kernel, bias, stride, dilation, pad)
    np.testing.assert_allclose(np.maximum(outputs, 0.0), network(x).numpy().reshape(outputs.shape), **CLOSE)
    weights = normal(*outputs.shape)
    (a, g), factors = factors_of(network, x, weights.reshape(network(x).shape))
    places = outputs.shape[1]
    np.testing.assert_allclose(a, outer(patches) / (ROWS * places**2), **CLOSE)
    np.testing.assert_allclose(g, outer(weights * (outputs > 0)) * places / ROWS, **CLOSE)
    assert [factors.numbers_of(variable) for variable in network.trainable_variables] == [[0, 1], [1]]


def test_convolution_of_one_place_is_a_dense_layer():
    inputs = keras.Input((2, 2, 3))
    one = keras.Model(inputs, layers.Conv2D(4, 2)(inputs))
    other = keras.Model(inputs, layers.Dense(4)(layers.Flatten()(inputs)))
    for mine, theirs in zip(one.trainable_variables, randomized(other).trainable_variables, strict=True):
        mine.assign(theirs.numpy().reshape(mine.shape))
    x, weights = normal(ROWS, 2, 2, 3), normal(ROWS, 4)
    both = factors_of(one, x, weights.reshape(ROWS, 1, 1, 4))[0], factors_of(other, x, weights)[0]
    for mine, theirs in zip(*both, strict=True):
        np.testing.assert_allclose(mine, theirs, **CLOSE)


def test_layer_normalisation():
    inputs = keras.Input((4,))
    network = randomized(keras.Model(inputs, layers.LayerNormalization(epsilon=1e-3)(inputs)))
    x, weights = normal(ROWS, 4), normal(ROWS, 4)
    found, _ = factors_of(network, x, weights)
    for factor, variable in zip(found, network.trainable_variables, strict=True):
        rows = []
        for row, weight in zip(x, weights, strict=True):
            with tf.GradientTape() as tape:
                likelihood = tf.reduce_sum(network(row[None]) * weight)
            rows.append(tape.gradient(likelihood, variable.value).numpy())
        np.testing.assert_allclose(factor, outer(np.stack(rows)) / ROWS, **CLOSE)


def test_a_layer_that_is_used_twice_has_two_places():
    inputs, layer = keras.Input((3,)), layers.Dense(3, use_bias=False)
    network = randomized(keras.Model(inputs, layer(layer(inputs))))
    x, weights = normal(ROWS, 3), normal(ROWS, 3)
    (a, g), _ = factors_of(network, x, weights)
    kernel = layer.kernel.numpy()
    np.testing.assert_allclose(a, (outer(x) + outer(x @ kernel)) / (ROWS * 4), **CLOSE)
    np.testing.assert_allclose(g, (outer(weights) + outer(weights @ kernel.T)) * 2 / ROWS, **CLOSE)


def test_vectors():
    vector = keras.Variable(normal(1, 3))
    factors = KroneckerFactors([], [vector])
    weights = normal(ROWS, 3)
    with tf.GradientTape() as tape:
        rows = tf.zeros((ROWS, 3)) + vector.value
        likelihood = tf.reduce_sum(rows * weights) / ROWS
    (g,) = factors.new(lambda tensors: tape.gradient(likelihood, tensors), [rows])
    np.testing.assert_allclose(g, outer(weights) / ROWS, **CLOSE)
    assert factors.numbers_of(vector) == [0] and factors.sizes == [3]


def definite(n):
    root = RNG.standard_normal((n, n))
    return root @ root.T / n


def test_preconditioning_solves_with_the_kronecker_product():
    a, g, gradient = definite(6), definite(3), RNG.standard_normal((2, 3, 3))
    eigen = [tuple(map(tf.constant, np.linalg.eigh(factor))) for factor in (a, g)]
    expected = np.linalg.solve(np.kron(a, g) + 0.1 * np.eye(18), gradient.ravel()).reshape(gradient.shape)
    np.testing.assert_allclose(preconditioned(tf.constant(gradient), eigen, 0.1), expected, rtol=1e-9)
    vector = RNG.standard_normal((1, 3))
    expected = np.linalg.solve(g + 0.1 * np.eye(3), vector[0])[None]
    np.testing.assert_allclose(preconditioned(tf.constant(vector), eigen[1:], 0.1), expected, rtol=1e-9)


def test_products_stay_in_float32():
    """In bfloat16, networks' own are a thousandth off."""
    inputs = keras.Input((64,))
    network = keras.Model(inputs, layers.Dense(32)(inputs))
    x, weights = normal(ROWS, 64), normal(ROWS, 32)
    set_precision("bfloat16")
    try:
        found, _ = factors_of(network, x, weights, compiled=True)
    finally:
        set_precision("float32")
    for factor, rows in zip(found, (x, weights), strict=True):
        np.testing.assert_allclose(factor, outer(rows) / ROWS, rtol=1e-4, atol=1e-5)


class OwnCall(keras.Model):
    """A model in TensorFlow's functions: its layers are in a list, a tuple, a dictionary and other models."""

    def __init__(self):
        super().__init__()
        inputs = keras.Input((4,))
        self.several = [layers.Dense(4, "tanh"), layers.Dense(3)]
        self.pair = (layers.Dense(4, "relu"), keras.Sequential([layers.Dense(4, "elu")]))
        self.named = {"norm": layers.LayerNormalization(), "graph": keras.Model(inputs, self.several[1](inputs))}
        self.head = self.after

    @property
    def first(self):
        return self.pair[0]

    def after(self, x):
        return self.named["graph"](self.named["norm"](self.pair[1](x)))

    def call(self, x):
        return tf.tanh(self.head(tf.identity(self.several[0](self.first(x)))))


def test_a_model_with_a_call_of_its_own_has_the_factors_of_its_layers():
    inputs, own = keras.Input((3,)), OwnCall()
    network = randomized(keras.Model(inputs, own(inputs)))
    first, second, third = own.first, own.several[0], own.pair[1].layers[0]
    x = own.named["norm"](third(second(first(inputs))))
    plain = keras.Model(inputs, layers.Activation("tanh")(own.several[1](x)))
    assert {id(layer) for layer in layers_of(network)} >= {id(layer) for layer in plain.layers[1:-1]}
    x, weights = normal(ROWS, 3), normal(ROWS, 3)
    (mine, theirs), (numbers, others) = zip(factors_of(network, x, weights), factors_of(plain, x, weights), strict=True)
    for variable in plain.trainable_variables:
        for number, other in zip(numbers.numbers_of(variable), others.numbers_of(variable), strict=True):
            np.testing.assert_array_equal(mine[number], theirs[other])


def test_layers_that_are_not_seen_are_one_line():
    """A function that was made with the model runs the model's own layers, not the copies."""

    class Hidden(keras.Model):
        def __init__(self):
            super().__init__()
            self.inner = layers.Dense(2, name="inner")
            self.run = lambda x: self.inner(x)

        def call(self, x):
            return self.run(x)

    inputs = keras.Input((3,))
    with pytest.raises(ValueError, match=r"^K-FAC sees no call of layer 'inner': a model must use") as error:
        factors_of(keras.Model(inputs, Hidden()(inputs)), normal(ROWS, 3), normal(ROWS, 2))
    assert "\n" not in str(error.value)


def test_layers_are_left_as_they_were():
    inputs = keras.Input((3,))
    network = keras.Model(inputs, layers.LayerNormalization()(layers.Dense(4, "tanh")(inputs)))

    def attributes():
        own = [vars(layer) for layer in (network, *network.layers)]
        return [{name: list(value) if isinstance(value, list) else value for name, value in d.items()} for d in own]

    before = attributes()
    factors = KroneckerFactors(layers_of(network))
    observed = factors.observed(network)
    observed(normal(ROWS, 3))
    assert attributes() == before and observed is factors.observed(network) is not network
    unbuilt = layers.Dense(3)
    assert factors.observed(unbuilt) is unbuilt
    for mine, theirs in zip(observed.trainable_variables, network.trainable_variables, strict=True):
        assert mine is theirs


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (lambda: layers.Embedding(5, 2), ()),
        (lambda: layers.Conv2D(4, 2, groups=2), (5, 5, 2)),
        (lambda: layers.Conv1D(4, 2), (5, 2)),
        (lambda: layers.LayerNormalization(axis=1), (5, 2)),
        (lambda: layers.PReLU(), (3,)),
    ],
)
def test_other_layers_are_refused(layer, shape):
    inputs = keras.Input(shape)
    network = keras.Model(inputs, layer()(inputs))
    with pytest.raises(ValueError, match=r"has no Kronecker factors: K-FAC takes networks of Dense") as error:
        KroneckerFactors(layers_of(network))
    assert "\n" not in str(error.value) and type(network.layers[-1]).__name__ in str(error.value)


def test_variables_outside_of_layers_are_refused():
    with pytest.raises(ValueError, match=r"^variable 'stray' belongs to no layer"):
        KroneckerFactors([]).numbers_of(keras.Variable(0.0, name="stray"))
