"""Chains of layers in numpy, alone."""

import keras
import numpy as np
import pytest

from tfbaselines.policy.base import Mirror
from tfbaselines.policy.copies import NumpyCopies, repeatable, takes_rows
from tfbaselines.policy.networks import get_network_builder, mlp


def layer(units, inputs):
    dense = keras.layers.Dense(units)
    dense.build((None, inputs))
    return dense


def of_columns(rows, inputs, units):
    """A network of [rows, inputs] whose output is not flat."""
    x = keras.Input((rows, inputs))
    return keras.Model(x, keras.layers.Dense(units)(x))


def copied(chain):
    copies = NumpyCopies()
    function = copies.function(chain)
    copies.refresh()
    return function


def numbers(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def test_what_two_chains_begin_with_is_shared():
    network, other, pi, vf = mlp()((3,)), mlp()((3,)), layer(2, 64), layer(1, 64)
    assert Mirror([network, pi], [network, vf]).split() == ([network], [pi], [vf])
    assert Mirror([network, pi], [other, vf]).split() == ([], [network, pi], [other, vf])
    assert Mirror([network], [network, vf]).split() == ([network], [], [vf])
    assert Mirror([network, pi]).split() == ([], [network, pi], [])


def test_a_chain_is_its_modules_in_a_row():
    network, last = mlp(num_hidden=8)((3,)), layer(2, 8)
    np.testing.assert_allclose(
        copied([network, last])(numbers(5, 3)), last(network(numbers(5, 3))), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_array_equal(copied([])(numbers(5, 3)), numbers(5, 3))


def test_a_network_whose_output_is_not_flat_gives_rows():
    network, last = of_columns(2, 8, 64), layer(4, 128)
    x = numbers(5, 2, 8)
    expected = last(np.reshape(network(x), (5, -1)))
    np.testing.assert_allclose(copied([network, last])(x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["cnn", "cnn_small", "cnn_simple", "conv_only"])
def test_convolutions_are_not_repeatable(name):
    assert not repeatable(Mirror([get_network_builder(name)()((84, 84, 4))]))


def test_one_network_that_numpy_does_not_know_makes_a_mirror_unrepeatable():
    x = keras.Input((3,))
    known, unknown = mlp()((3,)), keras.Model(x, keras.layers.LeakyReLU()(x))
    assert repeatable(Mirror([known], [known, layer(1, 64)]))
    assert not repeatable(Mirror([unknown], [known]))
    assert not repeatable(Mirror([known], [unknown]))
    assert not repeatable(Mirror([known, keras.layers.Dense(2, activation="elu")]))


def test_a_chain_takes_rows_unless_its_network_has_another_shape():
    assert takes_rows(mlp()((3,))) and takes_rows(layer(2, 3))
    assert not takes_rows(mlp()((2, 3)))


def test_copies_follow_their_variables_on_refresh():
    dense, copies = layer(2, 3), NumpyCopies()
    function = copies.function([dense])
    copies.refresh()
    before = function(numbers(4, 3))
    dense.bias.assign([1.0, 2.0])
    np.testing.assert_array_equal(function(numbers(4, 3)), before)
    copies.refresh()
    np.testing.assert_allclose(function(numbers(4, 3)), before + np.array([1.0, 2.0]), rtol=1e-5, atol=1e-6)
