"""bfloat16 inside the networks, and float32 for everything computed from their outputs.

For acting in bfloat16, the kernels of wide dense layers are rounded once for many calls.
"""

import functools
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import tensorflow as tf

from tfbaselines.compiling import compiled
from tfbaselines.errors import warn
from tfbaselines.policy.base import BasePolicy
from tfbaselines.policy.layers import Dense, layers_of, replaced_kernels

OPTION = "auto_mixed_precision_onednn_bfloat16"

# Multiplications in one dense layer (rows x units x units) from which oneDNN's bfloat16 is faster than XLA's float32:
# outside XLA an update costs some 2 ms more, however small its layers.
BFLOAT16_WORK = 256**3
# Units from which bfloat16 is faster on processors with tile products (AMX).
AMX_UNITS = 128

# Names of the instructions for bfloat16 in /proc/cpuinfo: two of x86, one of ARM.
BFLOAT16_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}
# Values of ONEDNN_MAX_CPU_ISA without bfloat16. TensorFlow does not read them: its kernels in bfloat16 would abort.
OLDER_ISA = {"SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX512_CORE", "AVX512_CORE_VNNI"}

T = TypeVar("T")


def available(precision: str, warns: bool = True) -> str:
    """Return a precision, or float32 with a warning where bfloat16 is imitated, at half the speed, or not computed.

    Args:
        precision: requested precision.
        warns: whether this rank shows the warning.
    """
    flags, switch = _flags(), _switched_off_by()
    if precision == "float32" or (not switch and (not flags or flags & BFLOAT16_FLAGS)):
        return precision
    if warns:
        reason = f"{switch} switches it off" if switch else "this processor has no instructions for it"
        warn(f"precision=bfloat16: {reason}, so that float32, which is faster, is used")
    return "float32"


def set_precision(precision: str) -> None:
    """Let oneDNN compute convolutions and matrix products in this precision; variables stay float32."""
    tf.config.optimizer.set_experimental_options({OPTION: precision == "bfloat16"})


def in_full(x: tf.Tensor) -> tf.Tensor:
    """Mark a network's output: everything computed from it, and its gradient, stays in float32.

    After a matrix product TensorFlow continues in bfloat16 as far as it can, up to ratios, advantages and returns,
    where differences need more than eight bits. It stops at an explicit conversion.
    """
    return tf.cast(tf.cast(x, tf.float64), tf.float32) if in_bfloat16() else x


def in_float32(function: Callable[..., T]) -> Callable[..., T]:
    """Let the decorated function compute its matrix products in float32, outside of networks.

    Where oneDNN would use bfloat16, XLA compiles the function: it has no bfloat16 products.
    """
    with_xla = compiled(function, jit=True)

    @functools.wraps(function)
    def full(*args: Any, **kwargs: Any) -> T:
        return (with_xla if in_bfloat16() else function)(*args, **kwargs)

    return full


def compile_with_xla(policy: BasePolicy, rows: int = 256) -> bool:
    """Decide whether to compile the updates of a policy with XLA; call set_precision first.

    XLA halves the speed of convolutions on a CPU, and has no bfloat16 matrix products there.

    Args:
        policy: the policy to update.
        rows: batch size of one gradient step.
    """
    if policy.convolutional:
        return False
    if not in_bfloat16():
        return True
    width = policy.widest_dense
    return width < AMX_UNITS if _amx() else rows * width**2 < BFLOAT16_WORK


def in_bfloat16() -> bool:
    """Check whether networks compute in bfloat16."""
    return bool(tf.config.optimizer.get_experimental_options().get(OPTION))


def _amx() -> bool:
    return "amx_bf16" in _flags()


def _switched_off_by() -> str:
    """Name the environment variable and value that keep oneDNN from computing in bfloat16; empty if none does."""
    switches = {"TF_ENABLE_ONEDNN_OPTS": {"0", "FALSE"}, "ONEDNN_MAX_CPU_ISA": OLDER_ISA}
    values = {name: os.environ.get(name, "") for name in switches}
    return next((f"{name}={value}" for name, value in values.items() if value.upper() in switches[name]), "")


@functools.cache
def _flags() -> frozenset[str]:
    """List the processor's instructions from Linux's /proc/cpuinfo; empty on other systems."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="ignore") as file:
            lines = [line for line in file if line.lower().startswith(("flags", "features"))]
    except OSError:
        lines = []
    return frozenset(lines[0].split()) if lines else frozenset()


# Weights of a kernel from which a copy is worth its memory.
WIDE = 2**18


class RoundedKernels:
    """bfloat16 copies of the kernels of wide Dense layers; there are none in float32.

    TensorFlow would round a kernel in every call, which takes a quarter of the time of the cnn with eight images.

    Args:
        modules: built networks and layers.
    """

    def __init__(self, modules: Sequence[Any]) -> None:
        layers = layers_of(*modules) if in_bfloat16() else []
        self._layers = [
            layer for layer in layers if isinstance(layer, Dense) and layer.kernel.shape.num_elements() >= WIDE
        ]
        self._copies = {
            id(layer): tf.Variable(tf.zeros(layer.kernel.shape, tf.bfloat16), trainable=False) for layer in self._layers
        }
        self._round = compiled(self._assign)
        self._outdated = True

    def refresh(self) -> None:
        """Round the kernels' present values before the copies are used next."""
        self._outdated = True

    def up_to_date(self, function: Callable) -> Callable:
        """Wrap a function that computes with the copies: round outdated copies before each call."""
        if not self._copies:
            return function

        def call(*arguments: Any) -> Any:
            if self._outdated:
                self._round()
                self._outdated = False
            return function(*arguments)

        return call

    def in_use(self) -> AbstractContextManager:
        """Use the copies in everything that this thread traces inside the context."""
        return replaced_kernels(self._copies)

    def _assign(self) -> None:
        for layer in self._layers:
            self._copies[id(layer)].assign(tf.cast(layer.kernel.value, tf.bfloat16))
