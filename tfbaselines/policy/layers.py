"""Keras layers that networks are made of, and stacks of convolutions over pixels with baselines' initialization."""

import functools
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.errors import UsageError, bad_argument, warn

SQRT_2 = float(np.sqrt(2.0))
# The smallest height and width that convolutions without padding accept.
NATURE_MIN_SIZE = 36
SMALL_MIN_SIZE = 20
# Images usually have 1 channel, 3 colors, or a stack of 4 frames.
MAX_CHANNELS = 4
CHANNELS_LAST = "channels come last, and gymnasium.wrappers.TransformObservation moves them there"

# Kernels by layer id, per thread: workers in threads trace functions of the same layers at the same time.
_replaced = threading.local()


class Dense(keras.layers.Dense):
    """A dense layer that can compute with a bfloat16 copy of its kernel."""

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        kernel = getattr(_replaced, "kernels", {}).get(id(self))
        if kernel is None:
            return super().call(inputs, training)
        outputs = tf.cast(tf.matmul(tf.cast(inputs, tf.bfloat16), kernel), tf.float32)
        return self.activation(outputs + self.bias.value if self.use_bias else outputs)


@contextmanager
def replaced_kernels(kernels: Mapping[int, tf.Variable]) -> Iterator[None]:
    """Compute with other kernels in everything that this thread traces inside the context.

    Args:
        kernels: bfloat16 kernels by the id of their Dense layer.
    """
    _replaced.kernels = kernels
    try:
        yield
    finally:
        _replaced.kernels = {}


def dense_layer(width: int, activation: Any, name: str) -> Dense:
    """Make a dense layer with orthogonal weights of gain sqrt(2)."""
    initializer = keras.initializers.Orthogonal(SQRT_2)
    return Dense(width, activation=activation, kernel_initializer=initializer, name=name)


def conv_layer(filters: int, size: int, stride: int, name: str, pad: str) -> keras.layers.Conv2D:
    """Make a convolution with ReLU; `pad` is 'VALID' or 'SAME'."""
    if pad.upper() not in ("VALID", "SAME"):
        raise bad_argument("pad", pad, "'VALID' or 'SAME'")
    initializer = keras.initializers.Orthogonal(SQRT_2)
    return keras.layers.Conv2D(
        filters, size, stride, padding=pad.lower(), activation="relu", kernel_initializer=initializer, name=name
    )


def layers_of(*modules: Any) -> Iterator[keras.layers.Layer]:
    """Iterate over all layers of networks, nested networks included, and over single layers; skip anything else."""
    for module in modules:
        if isinstance(module, keras.Model):
            yield from layers_of(*module.layers)
        elif isinstance(module, keras.layers.Layer):
            yield module


def has_convolutions(*modules: Any) -> bool:
    """Check whether a network or layer convolves images."""
    return any(isinstance(layer, keras.layers.Conv2D) for layer in layers_of(*modules))


def run_network(network: keras.Model, x: tf.Tensor) -> tf.Tensor:
    """Compute the output of a feed-forward network as rows [B, width]."""
    latent = network(x)
    return latent if len(latent.shape) == 2 else tf.reshape(latent, (-1, flat_width(network)))


def flat_width(network: keras.Model) -> int:
    """Count the numbers in one row of a network's output."""
    shape = network.output_shape
    shape = shape[0] if isinstance(shape, list) or isinstance(shape[0], tuple) else shape
    return int(np.prod(shape[1:]))


def nature_cnn(x: Any, pad: str = "VALID") -> Any:
    """Compute 512 features of a Keras tensor of pixels."""
    x = conv_layer(32, 8, 4, "c1", pad)(scaled(x, _min_size(NATURE_MIN_SIZE, pad)))
    x = conv_layer(64, 4, 2, "c2", pad)(x)
    x = conv_layer(64, 3, 1, "c3", pad)(x)
    return dense_layer(512, "relu", "fc1")(keras.layers.Flatten()(x))


def small_cnn(x: Any, pad: str = "VALID") -> Any:
    """Compute 128 features of a Keras tensor of pixels."""
    x = conv_layer(8, 8, 4, "c1", pad)(scaled(x, _min_size(SMALL_MIN_SIZE, pad)))
    x = conv_layer(16, 4, 2, "c2", pad)(x)
    return dense_layer(128, "relu", "fc1")(keras.layers.Flatten()(x))


def simple_cnn(x: Any) -> Any:
    """Compute 256 features of a Keras tensor of pixels; small images are fine."""
    # Images too small for strides of 4 and 2 get smaller strides.
    first, second = ((8, 4), (4, 2)) if min(x.shape[1:3]) >= 20 else ((3, 2), (3, 1))
    x = conv_layer(16, *first, "c1", "SAME")(scaled(x))
    x = conv_layer(32, *second, "c2", "SAME")(x)
    return dense_layer(256, "relu", "fc1")(keras.layers.Flatten()(x))


def convolved(x: Any, convs: Sequence[tuple[int, int, int]]) -> Any:
    """Apply padded convolutions, each (number of filters, size, stride), to a Keras tensor of pixels."""
    x = scaled(x)
    for k, (filters, size, stride) in enumerate(convs):
        x = keras.layers.Conv2D(filters, size, stride, padding="same", activation="relu", name=f"conv_{k}")(x)
    return x


def impala_features(x: Any, depths: Sequence[int] = (16, 32, 32)) -> Any:
    """Compute 256 features of a Keras tensor of pixels; layers are numbered in order of use."""
    layers = keras.layers
    numbers = iter(range(1000))

    def conv(x: Any, depth: int) -> Any:
        return layers.Conv2D(depth, 3, padding="same", name=f"layer_{next(numbers)}")(x)

    def residual(x: Any) -> Any:
        depth = x.shape[-1]
        out = conv(layers.Activation("relu")(x), depth)
        out = conv(layers.Activation("relu")(out), depth)
        return layers.Add()([out, x])

    x = scaled(x)
    for depth in depths:
        x = conv(x, depth)
        x = layers.MaxPooling2D(3, 2, padding="same")(x)
        x = residual(residual(x))
    x = layers.Activation("relu")(layers.Flatten()(x))
    return Dense(256, activation="relu", name=f"layer_{next(numbers)}")(x)


def scaled(x: Any, min_size: int = 1) -> Any:
    """Scale pixels from 0..255 to 0..1.

    Args:
        x: a Keras tensor [B, rows, columns, channels].
        min_size: the smallest number of rows and columns that the network accepts.
    """
    shape = tuple(x.shape[1:])
    if len(shape) != 3:
        raise UsageError(
            f"a convolutional network needs images [rows, columns, channels], not observations of shape {shape}"
        )
    if min(shape[:2]) < min_size:
        others = "impala_cnn, conv_only and cnn with pad='SAME' take smaller ones"
        raise UsageError(
            f"this network needs images of at least {min_size} x {min_size} pixels, not observations of shape {shape}: "
            f"{CHANNELS_LAST if _channels_seem_first(shape) else others}"
        )
    if _channels_seem_first(shape):
        _warn_of_channels(shape)
    return keras.layers.Rescaling(1.0 / 255.0)(x)


def _min_size(size: int, pad: str) -> int:
    return 1 if pad.upper() == "SAME" else size


def _channels_seem_first(shape: tuple[int, int, int]) -> bool:
    return shape[0] <= MAX_CHANNELS < min(shape[1:])


@functools.cache
def _warn_of_channels(shape: tuple[int, int, int]) -> None:
    """Warn once, however many networks are built."""
    warn(f"observations of shape {shape} are taken for images of {shape[2]} channels: {CHANNELS_LAST}")
