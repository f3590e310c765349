"""Functions of numpy that compute a policy's networks from copies of their weights."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.compiling import Reading
from tfbaselines.policy.base import Chain, Mirror
from tfbaselines.policy.recurrent import cell_of, normalized_in_numpy

ArrayFunction = Callable[[np.ndarray], np.ndarray]
# Arrays without axes are faster operands than numbers.
ZERO = np.zeros((), np.float32)


class NumpyCopies:
    """Numpy copies of variables, and the functions that compute with them."""

    # Half the time of np.dot, which looks for other kinds of arrays first.
    _product = staticmethod(np.ndarray.dot)

    def __init__(self) -> None:
        self._variables: list[tf.Variable] = []
        self._copies: list[np.ndarray] = []
        self._reading: Reading | None = None

    def refresh(self) -> None:
        """Copy the variables' present values."""
        if self._reading is None:
            self._reading = Reading(self._variables)
        for copy, numbers in zip(self._copies, self._reading(), strict=True):
            # The variable's own numpy() copies twice.
            copy[...] = memoryview(numbers)

    def of(self, variable: keras.Variable) -> np.ndarray:
        """Make an array for a variable; `refresh` fills it."""
        copy = np.empty(variable.shape, np.float32)
        self._variables.append(variable.value)
        self._copies.append(copy)
        self._reading = None
        return copy

    def function(self, chain: Chain) -> ArrayFunction:
        """Make a function of arrays [B, ...] from a chain; an empty chain is the identity."""
        functions = [function for module in chain for function in self._functions(module)]
        if len(functions) == 1:
            return functions[0]

        def forward(x: np.ndarray) -> np.ndarray:
            for function in functions:
                x = function(x)
            return x

        return forward

    def _functions(self, module: Any) -> list[ArrayFunction]:
        if hasattr(module, "in_numpy"):
            return [module.in_numpy(self)]
        functions = [function for layer in _layers(module) if (function := self._layer(layer)) is not None]
        if isinstance(module, keras.Model) and len(module.output_shape) != 2:
            functions.append(_rows)
        return functions

    def _layer(self, layer: keras.layers.Layer) -> ArrayFunction | None:
        if hasattr(layer, "in_numpy"):
            return layer.in_numpy(self)
        if isinstance(layer, keras.layers.Dense):
            return self._dense(layer)
        if isinstance(layer, keras.layers.LayerNormalization):
            return self._layer_norm(layer)
        if isinstance(layer, keras.layers.Activation):
            activation = _ACTIVATIONS[_activation_name(layer)]
            # Not in place: x may be the caller's observations.
            return lambda x: activation(x, None)
        return _rows if isinstance(layer, keras.layers.Flatten) else None

    def _dense(self, layer: keras.layers.Dense) -> ArrayFunction:
        product = self._product
        kernel = self.of(layer.kernel)
        # Sums of arrays of the same rank are faster for one row.
        bias = np.atleast_2d(self.of(layer.bias)) if layer.use_bias else ZERO
        activation = _ACTIVATIONS[_activation_name(layer)]

        def dense(x: np.ndarray) -> np.ndarray:
            y = product(x, kernel)
            y += bias
            return activation(y, y)

        return dense

    def _layer_norm(self, layer: keras.layers.LayerNormalization) -> ArrayFunction:
        gamma, beta, epsilon = self.of(layer.gamma), self.of(layer.beta), layer.epsilon
        return lambda x: normalized_in_numpy(x, gamma, beta, epsilon)


def takes_rows(module: keras.Model | keras.layers.Layer) -> bool:
    """Check whether a chain's first module takes observations as rows of numbers [B, n]."""
    return not isinstance(module, keras.Model) or len(module.input_shape) == 2


_ACTIVATIONS: dict[str, Callable[..., np.ndarray]] = {
    "linear": lambda x, out: x,
    "tanh": np.tanh,
    "relu": lambda x, out: np.maximum(x, ZERO, out=out),
}


def _rows(x: np.ndarray) -> np.ndarray:
    return x.reshape(len(x), -1)


def _activation_name(layer: keras.layers.Layer) -> str:
    return getattr(layer.activation, "__name__", "")


def _layers(module: keras.Model | keras.layers.Layer) -> list[keras.layers.Layer]:
    return list(module.layers) if isinstance(module, keras.Model) else [module]


def _repeatable(module: Any) -> bool:
    """Check whether numpy can compute a module: known layers in a row, or its own function."""
    if hasattr(module, "in_numpy"):
        return True
    layers = _layers(module)
    return not getattr(module, "state_size", None) and bool(layers) and all(map(_known, layers))


def _known(layer: keras.layers.Layer) -> bool:
    used_again = len(getattr(layer, "_inbound_nodes", [None])) > 1
    if used_again:
        return False
    if hasattr(layer, "in_numpy"):
        return True
    if isinstance(layer, keras.layers.Dense | keras.layers.Activation):
        return _activation_name(layer) in _ACTIVATIONS
    if isinstance(layer, keras.layers.LayerNormalization):
        return layer.axis == [-1] and layer.gamma is not None and layer.beta is not None
    return isinstance(layer, keras.layers.InputLayer | keras.layers.Flatten)


def repeatable(mirror: Mirror) -> bool:
    """Check whether numpy can compute every layer of the chains."""
    return all(map(_repeatable, (*mirror.actor, *(mirror.value or ()))))


def remembers(mirror: Mirror) -> bool:
    """Check whether both chains begin with an LSTM, and numpy can compute every layer above it."""
    chains = (mirror.actor, mirror.value or ())
    return all(chain and cell_of(chain[0]) and all(map(_repeatable, chain[1:])) for chain in chains)
