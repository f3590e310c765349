"""bfloat16 inside the networks, and float32 for everything computed from their outputs.

Acting in bfloat16: wide dense layers with copies of their kernels that are rounded once for many calls.
"""

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import keras
import tensorflow as tf

from tfbaselines.compiling import compiled
from tfbaselines.errors import warn
from tfbaselines.policy.base import BasePolicy
from tfbaselines.policy.networks import layers_of

OPTION = "auto_mixed_precision_onednn_bfloat16"

# Multiplications in one dense layer (rows x units x units) from which oneDNN's bfloat16 is faster than XLA's float32:
# outside XLA an update costs some 2 ms more, however small its layers.
BFLOAT16_WORK = 256**3
# Units from which it is, where the processor has tile products (AMX).
AMX_UNITS = 128

# Names of the instructions for bfloat16 in /proc/cpuinfo: two of x86, one of ARM.
BFLOAT16_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}

T = TypeVar("T")


def available(precision: str, warns: bool = True) -> str:
    """A precision, or float32 with a warning where the processor can only imitate bfloat16, at half the speed.

    Args:
        precision: what was asked for.
        warns: whether this rank is the one that warns.
    """
    flags = _flags()
    if precision == "float32" or not flags or flags & BFLOAT16_FLAGS:
        return precision
    if warns:
        warn("precision=bfloat16: this processor has no instructions for it, so that float32, which is faster, is used")
    return "float32"


def set_precision(precision: str) -> None:
    """'bfloat16' makes oneDNN compute convolutions and matrix products in bfloat16; variables stay float32."""
    tf.config.optimizer.set_experimental_options({OPTION: precision == "bfloat16"})


def in_full(x: tf.Tensor) -> tf.Tensor:
    """A network's output, beyond which (and before whose gradient) nothing is computed in bfloat16.

    TensorFlow continues in bfloat16 after a matrix product as far as it can: over ratios, advantages and returns,
    whose differences need more than eight bits. It stops at a conversion that the program itself makes.
    """
    return tf.cast(tf.cast(x, tf.float64), tf.float32) if in_bfloat16() else x


def in_float32(function: Callable[..., T]) -> Callable[..., T]:
    """Decorator of a function of tensors, with matrix products outside of networks: it computes them in float32.

    XLA, which has no others, compiles it where oneDNN would take bfloat16.
    """
    with_xla = compiled(function, jit=True)

    @functools.wraps(function)
    def full(*args: Any, **kwargs: Any) -> T:
        return (with_xla if in_bfloat16() else function)(*args, **kwargs)

    return full


def compile_with_xla(policy: BasePolicy, rows: int = 256) -> bool:
    """Whether the updates of a policy are compiled with XLA; call set_precision first.

    XLA halves the speed of convolutions on a CPU, and has no bfloat16 matrix products there.

    Args:
        policy: the policy to update.
        rows: of the batch of one gradient step.
    """
    if policy.convolutional:
        return False
    if not in_bfloat16():
        return True
    width = policy.widest_dense
    return width < AMX_UNITS if _amx() else rows * width**2 < BFLOAT16_WORK


def in_bfloat16() -> bool:
    """Whether networks compute in bfloat16."""
    return bool(tf.config.optimizer.get_experimental_options().get(OPTION))


def _amx() -> bool:
    """Whether the processor has tile products of bfloat16."""
    return "amx_bf16" in _flags()


@functools.cache
def _flags() -> frozenset[str]:
    """Names of the processor's instructions, as Linux lists them in /proc/cpuinfo; empty on other systems."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="ignore") as file:
            lines = [line for line in file if line.lower().startswith(("flags", "features"))]
    except OSError:
        lines = []
    return frozenset(lines[0].split()) if lines else frozenset()


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
