"""Residual blocks of SimBa (Lee et al. 2024, arXiv:2410.09754)."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.policy.layers import Dense

LAYER_NORM_EPSILON = 1e-5
# Units inside a block, in units of its width.
EXPANSION = 4


class ResidualBlock(keras.layers.Layer):
    """Compute x + W2 relu(W1 norm(x)), with layer normalization and He initialization."""

    def build(self, input_shape: Sequence[int]) -> None:
        width = input_shape[-1]
        make = {"kernel_initializer": "he_normal"}
        self.norm = keras.layers.LayerNormalization(epsilon=LAYER_NORM_EPSILON, name="layer_normalization")
        self.expand = Dense(EXPANSION * width, "relu", name="expand", **make)
        self.contract = Dense(width, name="contract", **make)
        self.norm.build((None, width))
        self.expand.build((None, width))
        self.contract.build((None, EXPANSION * width))

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return x + self.contract(self.expand(self.norm(x)))

    def in_numpy(self, copies: Any) -> Callable[[np.ndarray], np.ndarray]:
        """Make a function of arrays [B, n] from copies of the weights; see policy/actor.py."""
        change = copies.function([self.norm, self.expand, self.contract])
        return lambda x: x + change(x)
