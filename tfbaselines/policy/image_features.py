"""What convolutional networks make of pixels, as functions of Keras tensors, with the initialisation of baselines."""

import functools
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from tfbaselines.errors import UsageError, bad_argument, warn

SQRT_2 = float(np.sqrt(2.0))
# Rows and columns from which convolutions without padding leave an image.
NATURE_LEAST, SMALL_LEAST = 36, 20
# Channels that an image has, as a rule: one, a stack of four, or colours.
MOST_CHANNELS = 4
CHANNELS_LAST = "channels come last, and gymnasium.wrappers.TransformObservation moves them there"


def nature_cnn(x: Any, pad: str = "VALID") -> Any:
    """From a Keras tensor of pixels to 512 features."""
    x = conv_layer(32, 8, 4, "c1", pad)(scaled(x, _least(NATURE_LEAST, pad)))
    x = conv_layer(64, 4, 2, "c2", pad)(x)
    x = conv_layer(64, 3, 1, "c3", pad)(x)
    return dense_layer(512, "relu", "fc1")(keras.layers.Flatten()(x))


def small_cnn(x: Any, pad: str = "VALID") -> Any:
    """From a Keras tensor of pixels to 128 features."""
    x = conv_layer(8, 8, 4, "c1", pad)(scaled(x, _least(SMALL_LEAST, pad)))
    x = conv_layer(16, 4, 2, "c2", pad)(x)
    return dense_layer(128, "relu", "fc1")(keras.layers.Flatten()(x))


def simple_cnn(x: Any) -> Any:
    """From a Keras tensor of pixels, of small images too, to 256 features."""
    rows = min(x.shape[1:3])
    # Images too small for strides of 4 and 2 get smaller strides.
    first, second = ((8, 4), (4, 2)) if rows >= 20 else ((3, 2), (3, 1))
    x = conv_layer(16, *first, "c1", "SAME")(scaled(x))
    x = conv_layer(32, *second, "c2", "SAME")(x)
    return dense_layer(256, "relu", "fc1")(keras.layers.Flatten()(x))


def convolved(x: Any, convs: Sequence[tuple[int, int, int]]) -> Any:
    """From a Keras tensor of pixels to an image; padded convolutions of (number of filters, their size, stride)."""
    x = scaled(x)
    for k, (filters, size, stride) in enumerate(convs):
        x = keras.layers.Conv2D(filters, size, stride, padding="same", activation="relu", name=f"conv_{k}")(x)
    return x


def impala_features(x: Any, depths: Sequence[int] = (16, 32, 32)) -> Any:
    """From a Keras tensor of pixels to 256 features; layers are numbered in order of use."""
    layers, number = keras.layers, iter(range(1000))

    def conv(x: Any, depth: int) -> Any:
        return layers.Conv2D(depth, 3, padding="same", name=f"layer_{next(number)}")(x)

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
    return layers.Dense(256, activation="relu", name=f"layer_{next(number)}")(x)


def scaled(x: Any, least: int = 1) -> Any:
    """Pixels from 0..255 to 0..1.

    Args:
        x: a Keras tensor [B, rows, columns, channels].
        least: rows and columns that the network needs.
    """
    shape = tuple(x.shape[1:])
    if len(shape) != 3:
        raise UsageError(
            f"a convolutional network needs images [rows, columns, channels], not observations of shape {shape}"
        )
    if min(shape[:2]) < least:
        others = "impala_cnn, conv_only and cnn with pad='SAME' take smaller ones"
        raise UsageError(
            f"this network needs images of at least {least} x {least} pixels, not observations of shape {shape}: "
            f"{CHANNELS_LAST if _channels_seem_first(shape) else others}"
        )
    if _channels_seem_first(shape):
        _warn_of_channels(shape)
    return keras.layers.Rescaling(1.0 / 255.0)(x)


def _least(least: int, pad: str) -> int:
    """Rows and columns that convolutions need, which padded ones do not."""
    return 1 if pad.upper() == "SAME" else least


def _channels_seem_first(shape: tuple[int, int, int]) -> bool:
    return shape[0] <= MOST_CHANNELS < min(shape[1:])


@functools.cache
def _warn_of_channels(shape: tuple[int, int, int]) -> None:
    """Once, however many networks are built."""
    warn(f"observations of shape {shape} are taken for images of {shape[2]} channels: {CHANNELS_LAST}")


def conv_layer(filters: int, size: int, stride: int, name: str, pad: str) -> keras.layers.Conv2D:
    """A convolution with ReLU; `pad` is 'VALID' or 'SAME'."""
    if pad.upper() not in ("VALID", "SAME"):
        raise bad_argument("pad", pad, "'VALID' or 'SAME'")
    initializer = keras.initializers.Orthogonal(SQRT_2)
    return keras.layers.Conv2D(
        filters, size, stride, padding=pad.lower(), activation="relu", kernel_initializer=initializer, name=name
    )


def dense_layer(width: int, activation: Any, name: str) -> keras.layers.Dense:
    """A dense layer whose weights begin orthogonal, with gain sqrt(2)."""
    return keras.layers.Dense(
        width, activation=activation, kernel_initializer=keras.initializers.Orthogonal(SQRT_2), name=name
    )
