"""Acting in bfloat16: wide dense layers with copies of their kernels that are rounded once for many calls."""

import threading
from collections.abc import Callable, Iterator, Sequence
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

# The copies in use, by layer: workers that are threads trace functions of the same layers at the same time.
_here = threading.local()


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
        for layer, _ in self._copies:
            layer.call = partial(_call, layer)
        self._round, self._outdated = compiled(self._assign), True

    def refresh(self) -> None:
        """Let the kernels' present numbers be rounded before they are needed."""
        self._outdated = True

    def up_to_date(self, function: Callable) -> Callable:
        """A function that computes with the copies, after they were rounded anew where that is due."""
        if not self._copies:
            return function

        def call(*arguments: Any) -> Any:
            if self._outdated:
                self._round()
                self._outdated = False
            return function(*arguments)

        return call

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Whatever this thread traces meanwhile takes the copies for the kernels."""
        _here.copies = {id(layer): copy for layer, copy in self._copies}
        try:
            yield
        finally:
            _here.copies = {}

    def _assign(self) -> None:
        for layer, copy in self._copies:
            copy.assign(tf.cast(layer.kernel.value, tf.bfloat16))


def _call(layer: keras.layers.Dense, inputs: tf.Tensor, **kwargs: Any) -> tf.Tensor:
    """What a dense layer computes: with the copy of its kernel that is in use in this thread, or with the kernel."""
    copy = getattr(_here, "copies", {}).get(id(layer))
    if copy is None:
        return type(layer).call(layer, inputs, **kwargs)
    outputs = tf.cast(tf.matmul(tf.cast(inputs, tf.bfloat16), copy), tf.float32)
    return layer.activation(outputs + layer.bias.value if layer.use_bias else outputs)
