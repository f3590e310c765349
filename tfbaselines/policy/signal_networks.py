"""Networks of reward signals: observations scaled by running statistics of their own, and encoders of them."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.envs.vec.packed import opened, unpacked
from tfbaselines.parallel import mpi
from tfbaselines.policy.base import CLIP_NORMALIZED
from tfbaselines.policy.encoding import encode, encoded_shape, is_image
from tfbaselines.policy.networks import get_network_builder
from tfbaselines.policy.normalizer import DictNormalizer, Normalizer, numeric_parts
from tfbaselines.policy.parts import without_mask
from tfbaselines.policy.trunk import ENCODERS, Trunk

IMAGE_ENCODER = "simple"

# A layer's units and its activation.
Units = tuple[int, str | None]


class Observations:
    """Observations as encoders take them: numbers scaled by a running mean and deviation, and clipped.

    Images, which encoders scale, and one-hots pass unchanged.

    Args:
        space: of one environment.
        comm: the ranks over which the statistics are merged.
    """

    def __init__(self, space: spaces.Space, comm: mpi.Communicator | None) -> None:
        self._space, whole = space, opened(space)
        self.parts = without_mask(whole)
        self._normalizer: Normalizer | DictNormalizer | None = None
        if isinstance(whole, spaces.Dict):
            self._normalizer = DictNormalizer(whole, comm)
        elif isinstance(whole, spaces.Box) and not is_image(whole):
            self._normalizer = Normalizer(encoded_shape(whole), comm)

    def __call__(self, obs: tf.Tensor) -> Any:
        """Encoded observations [B, ...], or a dictionary of them."""
        encoded = encode(obs, self._space)
        if self._normalizer is None:
            return encoded
        encoded = self._normalizer.apply(encoded)
        if isinstance(encoded, dict):
            return encoded | {name: _clipped(encoded[name]) for name in numeric_parts(opened(self._space))}
        return _clipped(encoded)

    def take_in(self, obs: Any) -> None:
        """Merge a batch [B, ...], or a dictionary of them, into the statistics; every rank must call it."""
        if self._normalizer is not None:
            self._normalizer.update(unpacked(obs, self._space))

    def state(self) -> dict[str, Any] | None:
        """The statistics."""
        return None if self._normalizer is None else self._normalizer.state()

    def restore(self, state: dict[str, Any] | None) -> None:
        """Take over what `state` gave."""
        if self._normalizer is not None:
            self._normalizer.restore(state)


class Dense:
    """Dense layers over rows.

    Args:
        inputs: numbers in a row.
        units: of each layer.
    """

    def __init__(self, inputs: int, units: Sequence[Units]) -> None:
        self._layers = []
        for width, activation in units:
            initializer = keras.initializers.Orthogonal(np.sqrt(2.0) if activation else 1.0)
            layer = keras.layers.Dense(width, activation=activation, kernel_initializer=initializer)
            layer.build((None, inputs))
            self._layers.append(layer)
            inputs = width

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """Of all layers, in their order."""
        return [variable for layer in self._layers for variable in layer.trainable_variables]

    def __call__(self, rows: tf.Tensor) -> tf.Tensor:
        """Rows [B, units of the last layer]."""
        for layer in self._layers:
            rows = layer(rows)
        return rows


class Encoder:
    """Dense layers over observations; images pass through convolutions first.

    Args:
        observations: gives the observations' parts.
        units: of each layer.
    """

    def __init__(self, observations: Observations, units: Sequence[Units]) -> None:
        self._trunk = Trunk(observations.parts, get_network_builder(ENCODERS[IMAGE_ENCODER])())
        self._dense = Dense(self._trunk.width, units)

    @property
    def convolutional(self) -> bool:
        """Whether it convolves images."""
        return bool(self._trunk.modules)

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """The convolutions', then the layers'."""
        return [*self._trunk.trainable_variables, *self._dense.trainable_variables]

    def __call__(self, encoded: Any) -> tf.Tensor:
        """Encodings [B, units of the last layer] of what Observations gave."""
        return self._dense(self._trunk(encoded, None, None)[0])


def _clipped(x: tf.Tensor) -> tf.Tensor:
    return tf.clip_by_value(x, -CLIP_NORMALIZED, CLIP_NORMALIZED)
