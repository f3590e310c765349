"""Keras layers that networks are made of, and stacks of convolutions over pixels with baselines' initialization.

Networks may compute in bfloat16; everything computed from their outputs is float32. For acting in bfloat16, the kernels
of wide dense layers are rounded once for many calls.
"""

import functools
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import BuiltinFunctionType
from typing import Any, TypeVar

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.compiling import compiled
from tfbaselines.errors import UsageError, bad_argument, warn

SQRT_2 = float(np.sqrt(2.0))
# The smallest height and width that convolutions without padding accept.
NATURE_MIN_SIZE = 36
SMALL_MIN_SIZE = 20
# Images usually have 1 channel, 3 colors, or a stack of 4 frames.
MAX_CHANNELS = 4
CHANNELS_LAST = "channels come last, and gymnasium.wrappers.TransformObservation moves them there"

# Names of PyTorch's activations in lower case that Keras has under another name.
OTHER_NAMES = {"identity": "linear", "hardswish": "hardsilu"}

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


def dense_layer(width: int, activation: Any, name: str, gain: float = SQRT_2) -> Dense:
    """Make a dense layer with orthogonal weights."""
    initializer = keras.initializers.Orthogonal(gain)
    return Dense(width, activation=activation, kernel_initializer=initializer, name=name)


def conv_layer(filters: int, size: int, stride: int, name: str, pad: str) -> keras.layers.Conv2D:
    """Make a convolution with ReLU; `pad` is 'VALID' or 'SAME'."""
    if pad.upper() not in ("VALID", "SAME"):
        raise bad_argument("pad", pad, "'VALID' or 'SAME'")
    initializer = keras.initializers.Orthogonal(SQRT_2)
    return keras.layers.Conv2D(
        filters, size, stride, padding=pad.lower(), activation="relu", kernel_initializer=initializer, name=name
    )


def named_activation(activation: Any) -> Any:
    """Return Keras's name of an activation of PyTorch, TensorFlow or Keras; other functions and names stay as they are.

    Args:
        activation: a name, a function, or a class or object of torch.nn or keras.layers.
    """
    kind = activation if isinstance(activation, type) else type(activation)
    module = getattr(activation, "__module__", None) or ("torch" if kind is BuiltinFunctionType else "")
    of_torch = "torch" in (module.split(".")[0], kind.__module__.split(".")[0])
    if isinstance(activation, str) or not (of_torch or module.split(".")[0] in ("tensorflow", "keras")):
        return activation
    name = getattr(activation, "__name__", kind.__name__)
    key = OTHER_NAMES.get(name.lower(), name.lower().replace("_", ""))
    # PyTorch's slope is 0.01, Keras's 0.2.
    if key in activations() and not (of_torch and key == "leakyrelu"):
        return activations()[key]
    return name if of_torch else activation


@functools.cache
def activations() -> dict[str, str]:
    """Map names without underscores to the names of Keras's activations."""
    names = [key for key in dir(keras.activations) if key.islower() and not key.startswith("_")]
    return {name.replace("_", ""): name for name in names}


def layers_of(*modules: Any) -> Iterator[keras.layers.Layer]:
    """Iterate over all layers of networks, nested networks included, and over single layers; skip anything else."""
    for module in modules:
        if isinstance(module, keras.Model):
            yield from layers_of(*module.layers)
        elif isinstance(module, keras.layers.Layer):
            yield module


def uniform_instead_of_orthogonal(*modules: Any) -> None:
    """Draw the kernels of layers with orthogonal initialization anew, uniformly within 1 / sqrt(inputs)."""
    initializer = keras.initializers.VarianceScaling(1.0 / 3.0, "fan_in", "uniform")
    for layer in layers_of(*modules):
        if isinstance(getattr(layer, "kernel_initializer", None), keras.initializers.Orthogonal):
            # The same seed would give equal layers equal weights.
            layer.kernel.assign(initializer.clone()(layer.kernel.shape))


def has_convolutions(*modules: Any) -> bool:
    """Check whether a network or layer convolves images."""
    return any(isinstance(layer, keras.layers.Conv2D) for layer in layers_of(*modules))


def run_network(network: keras.Model, x: tf.Tensor) -> tf.Tensor:
    """Compute the output of a feed-forward network as rows [B, width]."""
    latent = network(x)
    return latent if len(latent.shape) == 2 else tf.reshape(latent, (-1, flat_width(network)))


def run_with_memory(network: keras.Model, x: tf.Tensor, episode_start: Any, states: Any) -> tuple[tf.Tensor, Any]:
    """Compute the output of any network as rows [B, width], and new states [num_envs, S] or None."""
    return tuple(network([x, episode_start, states])) if state_size_of(network) else (run_network(network, x), None)


def state_size_of(network: keras.Model | None) -> int:
    """Count the numbers in one environment's recurrent state; 0 for a feed-forward network."""
    return getattr(network, "state_size", None) or 0


def model_with_memory(inputs: Any, state_size: int, outputs: Callable[[list[Any]], list[Any]]) -> keras.Model:
    """Make a recurrent model of inputs, episode_start and states.

    Args:
        inputs: Keras inputs of the observations.
        state_size: numbers in one environment's state.
        outputs: function from episode_start and states to the latent and new states.
    """
    memory = [keras.Input(()), keras.Input((state_size,))]
    model = keras.Model([inputs, *memory], outputs(memory))
    model.state_size = state_size
    return model


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
    """Return a precision, or float32 with a warning where bfloat16 is imitated, at half the speed, or not computed."""
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


def compile_with_xla(policy: Any, rows: int = 256) -> bool:
    """Decide whether to compile the updates of a policy with XLA; call set_precision first.

    XLA halves the speed of convolutions on a CPU, and has no bfloat16 matrix products there.

    Args:
        rows: batch size of one gradient step.
    """
    if policy.convolutional:
        return False
    if not in_bfloat16():
        return True
    width = policy.widest_dense
    return width < AMX_UNITS if "amx_bf16" in _flags() else rows * width**2 < BFLOAT16_WORK


def in_bfloat16() -> bool:
    """Check whether networks compute in bfloat16."""
    return bool(tf.config.optimizer.get_experimental_options().get(OPTION))


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
