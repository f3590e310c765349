"""Kronecker factors of a network's Fisher matrix (Martens & Grosse 2015; convolutions: Grosse & Martens 2016).

The Fisher matrix of a kernel is approximated by a Kronecker product of two small matrices,

    F = A (x) G,   A = sum_bt a_bt a_bt' / (B T^2),   G = T sum_bt d_bt d_bt' / B

where the kernel multiplies a_bt at place t of row b, and d_bt is the gradient of the row's log-likelihood by the
result, before the activation. A dense layer has T = 1 place in a row, a convolution one for each position of its
kernel. A vector that is added has F = G; a bias shares the G of its kernel.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from types import MethodType
from typing import Any

import keras
import tensorflow as tf

from tfbaselines.errors import UsageError
from tfbaselines.policy.layers import in_float32

# Eigenvalues [n] and eigenvectors [n, n], as columns.
Eigen = tuple[tf.Tensor, tf.Tensor]


def input_factor(inputs: tf.Tensor) -> tf.Tensor:
    """Compute A [n, n] from a kernel's inputs [B, T, n]."""
    rows, places, _ = inputs.shape
    return _products(inputs) / (rows * places**2)


def gradient_factor(gradients: tf.Tensor) -> tf.Tensor:
    """Compute G [m, m] from gradients [B, T, m] of the mean log-likelihood, each 1 / B of its row's gradient."""
    rows, places, _ = gradients.shape
    return _products(gradients) * (rows * places)


@in_float32
def preconditioned(gradient: tf.Tensor, factors: Sequence[Eigen], damping: float) -> tf.Tensor:
    """Compute (F + damping)^-1 times the gradient of one variable.

    Args:
        gradient: gradient of a kernel [..., m], or of a vector with m elements.
        factors: decompositions of A and G for a kernel, of G for a vector.
        damping: number to add to the eigenvalues of F.
    """
    *inputs, (values, vectors) = factors
    matrix = tf.reshape(gradient, (-1, vectors.shape[0]))
    if inputs:
        ((input_values, input_vectors),) = inputs
        values = input_values[:, None] * values
        matrix = tf.matmul(input_vectors, matrix, transpose_a=True)
    matrix = tf.matmul(tf.matmul(matrix, vectors) / (values + damping), vectors, transpose_b=True)
    return tf.reshape(tf.matmul(input_vectors, matrix) if inputs else matrix, gradient.shape)


class KroneckerFactors:
    """Factors of the layers of networks, and of vectors outside of layers.

    Attributes:
        sizes: size n of each factor [n, n].

    Args:
        layers: layers of the kinds Dense, Conv2D and LayerNormalization; layers without trained variables are ignored.
        vectors: variables that are added to every row of a tensor.
    """

    def __init__(self, layers: Iterable[keras.layers.Layer], vectors: Sequence[keras.Variable] = ()) -> None:
        trained = {id(layer): layer for layer in layers if layer.trainable_variables}
        self._sites = {number: _site(layer) for number, layer in trained.items()}
        self._vectors = list(vectors)
        self._copies: dict[int, keras.Operation] = {}
        self.sizes: list[int] = []
        self._numbers: dict[int, list[int]] = {}
        for site in self._sites.values():
            self._add(site.sizes, site.variables)
        for vector in self._vectors:
            self._add([math.prod(vector.shape)], [(vector, [0])])

    def numbers_of(self, variable: keras.Variable) -> list[int]:
        """Return the numbers of a variable's factors: A and G of a kernel, G of a vector."""
        if id(variable) not in self._numbers:
            raise UsageError(f"variable '{variable.path}' belongs to no layer that has Kronecker factors: {TAKE}")
        return self._numbers[id(variable)]

    def observed(self, value: Any) -> Any:
        """Copy a network, layer or operation; the copy shares its variables and records what factors need.

        Keras has no hooks, and layers of ours in place of Dense would refuse users' networks. A copy runs the layer's
        own code, also inside a model with a `call` of its own: the attributes of a copied model are copied layers.
        Nothing is set on the originals. Collections and methods of operations are copied too; other values are not.
        """
        if isinstance(value, keras.Operation):
            return self._copied(value)
        if isinstance(value, MethodType) and isinstance(value.__self__, keras.Operation):
            return MethodType(value.__func__, self.observed(value.__self__))
        if isinstance(value, dict):
            return {key: self.observed(item) for key, item in value.items()}
        if isinstance(value, tuple) and hasattr(value, "_make"):
            return value._make(map(self.observed, value))
        kind = next((kind for kind in (list, tuple, set) if isinstance(value, kind)), None)
        return value if kind is None else kind(map(self.observed, value))

    def _copied(self, operation: keras.Operation) -> keras.Operation:
        # A layer that is not built has no variables; building a copy would build the original.
        if not getattr(operation, "built", True):
            return operation
        if id(operation) not in self._copies:
            # copy.copy would save the layer and load it.
            copy = self._copies[id(operation)] = object.__new__(type(operation))
            vars(copy).update(self.observed(vars(operation)))
            if isinstance(operation, keras.Model) and isinstance(operation, keras.Function):
                # A functional model runs a graph of layers, not its attributes.
                vars(copy).update(vars(keras.models.clone_model(operation, clone_function=self._copied)))
            if id(operation) in self._sites:
                self._sites[id(operation)].observe(copy)
        return self._copies[id(operation)]

    def begin(self) -> None:
        """Forget what was recorded."""
        for site in self._sites.values():
            site.inputs.clear()
            site.outputs.clear()

    def new(self, gradient: Callable[[Any], Any], rows: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Compute the factors [n, n] of the batch that was recorded since `begin`.

        Args:
            gradient: returns the gradients of the mean log-likelihood by tensors.
            rows: for each vector, the tensor [B, n] that it was added to or became.
        """
        sites = self._sites.values()
        for site in sites:
            site.require_records()
        *by_site, by_vector = gradient([*(site.outputs for site in sites), list(rows)])
        found = [factor for site, d in zip(sites, by_site, strict=True) for factor in site.factors(d)]
        return found + [gradient_factor(d[:, None]) for d in by_vector]

    def _add(self, sizes: Sequence[int], variables: Iterable[tuple[keras.Variable, list[int]]]) -> None:
        for variable, positions in variables:
            self._numbers[id(variable)] = [len(self.sizes) + position for position in positions]
        self.sizes += sizes


TAKE = "K-FAC takes networks of Dense, Conv2D and LayerNormalization layers; a2c and ppo2 take any"


class _Site:
    """A layer, and inputs and outputs of its copy: one tensor for each call, outputs before the activation.

    Args:
        layer: the layer.
        sizes: sizes of its factors.
        variables: variables of the layer, each with the positions of its factors in `sizes`.
    """

    def __init__(
        self, layer: keras.layers.Layer, sizes: list[int], variables: list[tuple[keras.Variable, list[int]]]
    ) -> None:
        self.layer = layer
        self.sizes = sizes
        self.variables = variables
        self.inputs: list[tf.Tensor] = []
        self.outputs: list[tf.Tensor] = []

    def require_records(self) -> None:
        """Raise a UsageError if the copy did not run."""
        if not self.outputs:
            raise UsageError(
                f"K-FAC sees no call of layer '{self.layer.name}': a model must use its layers, and reach them through "
                "its attributes, not through a function that was made with the model"
            )


class _Kernel(_Site):
    """Dense and Conv2D: A and G for the kernel, the same G for the bias."""

    def __init__(self, layer: keras.layers.Dense | keras.layers.Conv2D) -> None:
        *inputs, width = layer.kernel.shape
        variables = [(layer.kernel, [0, 1]), *([(layer.bias, [1])] if layer.use_bias else [])]
        super().__init__(layer, [math.prod(inputs), width], variables)

    def observe(self, copy: keras.layers.Layer) -> None:
        # The output before the activation is the input of the activation.
        vars(copy).update(call=_noting(copy.call, self.inputs), activation=_noting(copy.activation, self.outputs))

    def factors(self, gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        inputs = [self._patches(x) for x in self.inputs]
        return [input_factor(_places(inputs)), gradient_factor(_places(gradients))]

    def _patches(self, x: tf.Tensor) -> tf.Tensor:
        """Return the numbers [B, ..., n] that the kernel multiplies."""
        if isinstance(self.layer, keras.layers.Dense):
            return x
        sizes, strides, rates = (
            (1, *numbers, 1) for numbers in (self.layer.kernel_size, self.layer.strides, self.layer.dilation_rate)
        )
        return tf.image.extract_patches(x, sizes, strides, rates, self.layer.padding.upper())


class _Normalization(_Site):
    """LayerNormalization: one G for the gain and one for the offset."""

    def __init__(self, layer: keras.layers.LayerNormalization) -> None:
        vectors = layer.trainable_variables
        variables = [(vector, [number]) for number, vector in enumerate(vectors)]
        super().__init__(layer, [math.prod(vector.shape) for vector in vectors], variables)

    def observe(self, copy: keras.layers.Layer) -> None:
        vars(copy).update(call=_noting(copy.call, self.inputs, self.outputs))

    def factors(self, gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        offset, gain = _places(gradients), _places([self._normalized(x) for x in self.inputs])
        by_name = {"gamma": offset * gain, "beta": offset}
        return [gradient_factor(by_name[vector.name]) for vector, _ in self.variables]

    def _normalized(self, x: tf.Tensor) -> tf.Tensor:
        mean, variance = tf.nn.moments(x, axes=[-1], keepdims=True)
        return (x - mean) * tf.math.rsqrt(variance + self.layer.epsilon)


def _noting(function: Callable, taken: list, returned: list | None = None) -> Callable:
    """Wrap a function: record its first argument and its result in lists."""

    def noting(x: tf.Tensor, *args: Any, **kwargs: Any) -> tf.Tensor:
        taken.append(x)
        y = function(x, *args, **kwargs)
        if returned is not None:
            returned.append(y)
        return y

    return noting


def _site(layer: keras.layers.Layer) -> _Site:
    kinds = keras.layers
    plain = getattr(layer, "data_format", "channels_last") == "channels_last" and getattr(layer, "groups", 1) == 1
    if isinstance(layer, kinds.Dense | kinds.Conv2D) and plain:
        return _Kernel(layer)
    if isinstance(layer, kinds.LayerNormalization) and layer.axis == [-1] and not layer.rms_scaling:
        return _Normalization(layer)
    raise UsageError(f"layer '{layer.name}' ({type(layer).__name__}) has no Kronecker factors: {TAKE}")


def _places(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Join tensors [B, ..., n] of several calls to [B, T, n]: each position in each call is a place."""
    return tf.concat([tf.reshape(x, (x.shape[0], -1, x.shape[-1])) for x in tensors], axis=1)


@in_float32
def _products(x: tf.Tensor) -> tf.Tensor:
    """Sum x_bt x_bt' [n, n] over all places [B, T, n]."""
    rows = tf.reshape(x, (-1, x.shape[-1]))
    return tf.matmul(rows, rows, transpose_a=True)
