"""Acting in bfloat16: wide dense layers with copies of their kernels that are rounded once for many calls."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import keras
import tensorflow as tf

from tfbaselines.compiling import compiled
from tfbaselines.policy.networks import layers_of
from tfbaselines.policy.precision import in_bfloat16

# Weights of a kernel from which a copy is worth its memory.
WIDE = 2**18


class RoundedKernels:
    """Copies in bfloat16 of the kernels of wide dense layers; none in float32.

    TensorFlow would round a kernel in every call, which for the cnn and eight images is a quarter of the time.

    Args:
        modules: networks and layers, whose variables have their first numbers.
    """

    def __init__(self, modules: Sequence[Any]) -> None:
        layers = layers_of(*modules) if in_bfloat16() else []
        self._copies = [
            (layer, tf.Variable(tf.zeros(layer.kernel.shape, tf.bfloat16), trainable=False))
            for layer in layers
            if type(layer) is keras.layers.Dense and layer.kernel.shape.num_elements() >= WIDE
        ]
        self._round = compiled(self._assign)
        self.refresh()

    def refresh(self) -> None:
        """Round the kernels' present numbers."""
        if self._copies:
            self._round()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Whatever is traced meanwhile takes the copies for the kernels."""
        for layer, copy in self._copies:
            layer.call = partial(_dense, layer, copy)
        try:
            yield
        finally:
            for layer, _ in self._copies:
                del layer.call

    def _assign(self) -> None:
        for layer, copy in self._copies:
            copy.assign(tf.cast(layer.kernel.value, tf.bfloat16))


def _dense(layer: keras.layers.Dense, kernel: tf.Variable, inputs: tf.Tensor) -> tf.Tensor:
    """What a dense layer computes, with another kernel."""
    outputs = tf.cast(tf.matmul(tf.cast(inputs, tf.bfloat16), kernel), tf.float32)
    return layer.activation(outputs + layer.bias.value if layer.use_bias else outputs)
