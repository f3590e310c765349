"""LSTM that clears its state where an episode starts, with the originals' gate order and layer norm."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

LAYER_NORM_EPSILON = 1e-5

# Takes x [N, n], keep [N, 1] (0 where an episode starts) and states [N, 2 * width]; returns h [N, width], new states.
NumpyStep = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


# True while a function is traced in which every row is one step of an environment of its own.
_one_step = contextvars.ContextVar("one_step", default=False)


@contextlib.contextmanager
def one_step() -> Iterator[None]:
    """Trace one step of any number of environments: without a loop over time, which LiteRT and ONNX converters lack."""
    token = _one_step.set(True)
    try:
        yield
    finally:
        _one_step.reset(token)


class MaskedLSTM(keras.layers.Layer):
    """LSTM over rows ordered by environment, then time.

        c, h <- (1 - episode_start_t) (c, h)
        i, f, o, u = split(x_t Wx + h Wh + b);  c <- sig(f) c + sig(i) tanh(u);  h <- sig(o) tanh(c)

    With layer_norm, x Wx, h Wh (each over all four gates together) and the c inside the last tanh are normalized.

    Args:
        gain: of the orthogonal initialization.
    """

    def __init__(self, width: int, layer_norm: bool = False, gain: float = 1.0, name: str = "lstm") -> None:
        super().__init__(name=name)
        self.width = width
        self.layer_norm = layer_norm
        self._gain = gain

    def build(self, input_shapes: list) -> None:
        # The weights are created in the originals' order.
        inputs, gates = input_shapes[0][-1], 4 * self.width
        orthogonal = keras.initializers.Orthogonal(self._gain)

        def add(name: str, shape: tuple[int, ...], initializer: object) -> keras.Variable:
            return self.add_weight(name=name, shape=shape, initializer=initializer)

        self.wx = add("wx", (inputs, gates), orthogonal)
        if self.layer_norm:
            self.gx = add("gx", (gates,), "ones")
            self.bx = add("bx", (gates,), "zeros")
        # A second initializer: one instance would give both kernels the same numbers.
        self.wh = add("wh", (self.width, gates), keras.initializers.Orthogonal(self._gain))
        if self.layer_norm:
            self.gh = add("gh", (gates,), "ones")
            self.bh = add("bh", (gates,), "zeros")
        self.b = add("b", (gates,), "zeros")
        if self.layer_norm:
            self.gc = add("gc", (self.width,), "ones")
            self.bc = add("bc", (self.width,), "zeros")

    def compute_output_shape(self, input_shapes: list) -> list:
        return [(input_shapes[0][0], self.width), (input_shapes[2][0], 2 * self.width)]

    def call(self, inputs: list[tf.Tensor]) -> list[tf.Tensor]:
        """Run the sequences.

        Args:
            inputs: x [num_envs * steps, n], episode_start [num_envs * steps], states [num_envs, 2 * width] as (c, h).

        Returns:
            h of every row [num_envs * steps, width], and the last states [num_envs, 2 * width].
        """
        x, episode_start, states = inputs
        # The product with x is computed once for all steps.
        z = tf.matmul(x, self.wx.value)
        if self.layer_norm:
            z = _normalize(z, self.gx.value, self.bx.value)
        z += self.b.value
        if _one_step.get():
            c, h = self._step(tf.split(states, 2, axis=-1), (z, 1.0 - episode_start[:, None]))
            return [h, tf.concat([c, h], axis=-1)]
        environments = states.shape[0] if states.shape[0] is not None else tf.shape(states)[0]
        static = isinstance(environments, int) and x.shape[0] is not None
        steps = x.shape[0] // environments if static else tf.shape(x)[0] // environments
        z_by_time = tf.transpose(tf.reshape(z, (environments, steps, 4 * self.width)), (1, 0, 2))
        keep_by_time = tf.transpose(1.0 - tf.reshape(episode_start, (environments, steps, 1)), (1, 0, 2))
        c, h = tf.split(states, 2, axis=-1)
        if static and steps == 1:
            c, h = self._step((c, h), (z_by_time[0], keep_by_time[0]))
            return [h, tf.concat([c, h], axis=-1)]
        if self.layer_norm:
            c_by_time, h_by_time = tf.scan(self._step, (z_by_time, keep_by_time), initializer=(c, h))
        else:
            c_by_time, h_by_time = _sequence(z_by_time, keep_by_time, c, h, tf.convert_to_tensor(self.wh.value))
        rows = tf.reshape(tf.transpose(h_by_time, (1, 0, 2)), (-1, self.width))
        return [rows, tf.concat([c_by_time[-1], h_by_time[-1]], axis=-1)]

    def step_in_numpy(self, copy_of: Callable[[keras.Variable], np.ndarray]) -> NumpyStep:
        """Make a numpy function that computes one step of every environment.

        Args:
            copy_of: returns an array with a variable's values.
        """
        width, layer_norm = self.width, self.layer_norm
        wx, wh, b = (copy_of(variable) for variable in (self.wx, self.wh, self.b))
        if layer_norm:
            gx, bx, gh, bh, gc, bc = map(copy_of, (self.gx, self.bx, self.gh, self.bh, self.gc, self.bc))

        def step(x: np.ndarray, keep: np.ndarray, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            kept = states * keep
            zx, zh = np.dot(x, wx), np.dot(kept[:, width:], wh)
            if layer_norm:
                zx, zh = normalized_in_numpy(zx, gx, bx), normalized_in_numpy(zh, gh, bh)
            z = zx + b
            z += zh
            # sig(z) = (1 + tanh(z / 2)) / 2
            z[:, : 3 * width] *= 0.5
            z = np.tanh(z, out=z)
            z[:, : 3 * width] += 1.0
            z[:, : 3 * width] *= 0.5
            i, f, o, u = (z[:, k * width : (k + 1) * width] for k in range(4))
            new = np.empty_like(kept)
            c, h = new[:, :width], new[:, width:]
            c[...] = f * kept[:, :width] + i * u
            h[...] = o * np.tanh(normalized_in_numpy(c, gc, bc) if layer_norm else c)
            return h, new

        return step

    def _step(self, state: tuple[tf.Tensor, tf.Tensor], inputs: tuple[tf.Tensor, tf.Tensor]) -> tuple:
        (c, h), (zx, keep) = state, inputs
        c, h = c * keep, h * keep
        zh = tf.matmul(h, self.wh.value)
        if self.layer_norm:
            zh = _normalize(zh, self.gh.value, self.bh.value)
        i, f, o, u = tf.split(zx + zh, 4, axis=-1)
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(u)
        shown = _normalize(c, self.gc.value, self.bc.value) if self.layer_norm else c
        return c, tf.sigmoid(o) * tf.tanh(shown)


@tf.custom_gradient
def _sequence(z: tf.Tensor, keep: tf.Tensor, c: tf.Tensor, h: tf.Tensor, wh: tf.Tensor) -> tuple[Any, Callable]:
    """Compute all c and h [T, N, width] of an LSTM without layer norm.

    The gradient is written by hand: TensorFlow would add to the large gradient of wh in every step. Here it is one
    product after the last step.

    Args:
        z: [T, N, 4 * width] x Wx + b.
        keep: [T, N, 1].
        c: [N, width] before the first step.
        wh: [width, 4 * width].
    """

    def step(state: tuple, inputs: tuple) -> tuple:
        (c, h, *_), (z, keep) = state, inputs
        i, f, o, u = tf.split(z + tf.matmul(h * keep, wh), 4, axis=-1)
        i, f, o, u = tf.sigmoid(i), tf.sigmoid(f), tf.sigmoid(o), tf.tanh(u)
        c = f * c * keep + i * u
        return c, o * tf.tanh(c), i, f, o, u

    all_c, all_h, i, f, o, u = tf.scan(step, (z, keep), initializer=(c, h, c, c, c, c))

    def gradient(of_c: tf.Tensor, of_h: tf.Tensor) -> tuple:
        kept_c, kept_h = (tf.concat([first[None], rest[:-1]], 0) * keep for first, rest in ((c, all_c), (h, all_h)))
        shown = tf.tanh(all_c)
        # Derivatives of c by the sums of i, f and u, and of h by the sum of o and by c.
        by_c = i * (1.0 - i) * u, f * (1.0 - f) * kept_c, i * (1.0 - tf.square(u))
        by_h, c_by_h = o * (1.0 - o) * shown, o * (1.0 - tf.square(shown))

        def back(state: tuple, inputs: tuple) -> tuple:
            (later_c, later_h, _), (step_c, step_h, keep, f, by_i, by_f, by_u, by_o, c_by_h) = state, inputs
            of_h = step_h + later_h
            of_c = step_c + later_c + of_h * c_by_h
            of_z = tf.concat([of_c * by_i, of_c * by_f, of_h * by_o, of_c * by_u], axis=-1)
            return of_c * f * keep, tf.matmul(of_z, wh, transpose_b=True) * keep, of_z

        inputs = of_c, of_h, keep, f, *by_c, by_h, c_by_h
        before_c, before_h, of_z = tf.scan(back, inputs, (tf.zeros_like(c), tf.zeros_like(h), z[0]), reverse=True)
        rows = (tf.reshape(x, (-1, x.shape[-1])) for x in (kept_h, of_z))
        return of_z, None, before_c[0], before_h[0], tf.matmul(*rows, transpose_a=True)

    return (all_c, all_h), gradient


def _normalize(x: tf.Tensor, gain: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    mean, variance = tf.nn.moments(x, axes=[-1], keepdims=True)
    return (x - mean) / tf.sqrt(variance + LAYER_NORM_EPSILON) * gain + bias


def normalized_in_numpy(
    x: np.ndarray, gain: np.ndarray, bias: np.ndarray, epsilon: float = LAYER_NORM_EPSILON
) -> np.ndarray:
    """Normalize arrays [..., n] over their last axis."""
    centered = x - x.mean(axis=-1, keepdims=True)
    variance = np.square(centered).mean(axis=-1, keepdims=True)
    return centered / np.sqrt(variance + epsilon) * gain + bias


def cell_of(network: Any) -> MaskedLSTM | None:
    """Return the LSTM if a network consists of one; None for any other network."""
    around = keras.layers.InputLayer | keras.layers.Flatten
    layers = [layer for layer in getattr(network, "layers", []) if not isinstance(layer, around)]
    return layers[0] if len(layers) == 1 and isinstance(layers[0], MaskedLSTM) else None
