"""Numpy functions that repeat dense Keras networks with numpy copies of their weights."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.compiling import Reading
from tfbaselines.policy.recurrent import cell_of, normalized_in_numpy

ArrayFunction = Callable[[np.ndarray], np.ndarray]


class Repeating(Protocol):
    """Part of a policy that is neither a network nor a layer and defines its own numpy function.

    Attributes:
        repeatable: whether numpy can compute it.
    """

    repeatable: bool

    def in_numpy(self, copies: "NumpyCopies") -> ArrayFunction:
        """Make the function of arrays, which uses the copies' arrays in place of variables."""


# Networks and layers in a row; each takes the rows that the one before it returns.
Chain = Sequence[keras.Model | keras.layers.Layer | Repeating]


class Mirror(NamedTuple):
    """Description of a policy's computation for numpy.

    Modules at the start of both chains are computed once if both chains are needed.

    Attributes:
        actor: chain from encoded observations to the head's parameters. For a Q-network these are the values of all
            actions; for a dueling one the advantages suffice, which have the same order.
        value: chain from encoded observations to values; None to compute values through the graph.
        logstd: [1, n] appended to every row of the actor's output, or None.
        value_per_action: values are [B, A], one for each action or each reward signal, not [B].
        seen: observation space without the action mask, the input of both chains; None if there is no mask.
    """

    actor: Chain
    value: Chain | None = None
    logstd: keras.Variable | None = None
    value_per_action: bool = False
    seen: spaces.Space | None = None

    @property
    def repeatable(self) -> bool:
        """True if numpy can compute every layer of the chains."""
        return all(_repeatable(module) for module in (*self.actor, *(self.value or ())))

    @property
    def remembers(self) -> bool:
        """True if both chains begin with an LSTM, and numpy can compute every layer above it."""
        chains = (self.actor, self.value or ())
        return all(chain and cell_of(chain[0]) and all(map(_repeatable, chain[1:])) for chain in chains)

    def split(self) -> tuple[Chain, Chain, Chain]:
        """Split the chains into their common start, the rest of the actor's and the rest of the values'."""
        actor, value = list(self.actor), list(self.value or ())
        count = 0
        while count < min(len(actor), len(value)) and actor[count] is value[count]:
            count += 1
        return actor[:count], actor[count:], value[count:]


class NumpyCopies:
    """Numpy copies of variables, and the functions that compute with them."""

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
        product = self._product(self.of(layer.kernel))
        bias = self.of(layer.bias) if layer.use_bias else np.float32(0.0)
        activation = _ACTIVATIONS[_activation_name(layer)]

        def dense(x: np.ndarray) -> np.ndarray:
            y = product(x)
            y += bias
            return activation(y, out=y)

        return dense

    def _product(self, kernel: np.ndarray) -> ArrayFunction:
        """Make the function that multiplies rows [B, inputs] with a kernel [inputs, outputs]."""
        return lambda x: np.dot(x, kernel)

    def _layer_norm(self, layer: keras.layers.LayerNormalization) -> ArrayFunction:
        gamma, beta, epsilon = self.of(layer.gamma), self.of(layer.beta), layer.epsilon
        return lambda x: normalized_in_numpy(x, gamma, beta, epsilon)


def takes_rows(module: keras.Model | keras.layers.Layer) -> bool:
    """Check whether a chain's first module takes observations as rows of numbers [B, n]."""
    return not isinstance(module, keras.Model) or len(module.input_shape) == 2


_ACTIVATIONS: dict[str, Callable[..., np.ndarray]] = {
    "linear": lambda x, out: x,
    "tanh": np.tanh,
    "relu": lambda x, out: np.maximum(x, 0.0, out=out),
}


def _rows(x: np.ndarray) -> np.ndarray:
    return x.reshape(len(x), -1)


def _activation_name(layer: keras.layers.Layer) -> str:
    return getattr(layer.activation, "__name__", "")


def _layers(module: keras.Model | keras.layers.Layer) -> list[keras.layers.Layer]:
    return list(module.layers) if isinstance(module, keras.Model) else [module]


def _repeatable(module: Any) -> bool:
    """Check whether numpy can compute a module: known layers, each used once and in a row, or its own function."""
    if hasattr(module, "repeatable"):
        return module.repeatable
    if getattr(module, "state_size", None):
        return False
    kinds = keras.layers
    known = kinds.InputLayer | kinds.Flatten | kinds.Dense | kinds.LayerNormalization | kinds.Activation
    layers = _layers(module)
    if not layers or any(not isinstance(layer, known) for layer in layers):
        return False
    if any(len(getattr(layer, "_inbound_nodes", [None])) > 1 for layer in layers):
        return False
    norms = [layer for layer in layers if isinstance(layer, kinds.LayerNormalization)]
    if any(layer.axis != [-1] or layer.gamma is None or layer.beta is None for layer in norms):
        return False
    activated = [layer for layer in layers if isinstance(layer, kinds.Dense | kinds.Activation)]
    return all(_activation_name(layer) in _ACTIVATIONS for layer in activated)
