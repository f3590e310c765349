"""Dropout in the critics' hidden layers; DroQ with layer normalization (Hiraoka et al. 2022, arXiv:2110.02034).

In DroQ dropout comes before each layer normalization, in the critics, in their targets and where the actor learns from
them; acting and evaluation have none. Masks come from a seed that is part of each batch, as all random numbers.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.algs.sac.loss import Losses
from tfbaselines.learn.losses import Batch, Statistics
from tfbaselines.learn.optimizers import Optimizer
from tfbaselines.policy.actor_critic import Critic
from tfbaselines.policy.layers import in_full

SEED = "dropout_seed"
# Masks in one phase: their numbers set the phases' seeds apart.
MOST_MASKS = 1000
# 2^32 divided by the golden ratio; shifts and factors of MurmurHash3.
GOLDEN = np.uint32(0x9E3779B1)
MIXING = ((16, 0x85EBCA6B), (13, 0xC2B2AE35))

# Seeds of the masks by thread: workers in threads may trace functions at the same time.
_drawing = threading.local()


@contextmanager
def masks(seed: tf.Tensor, first: int) -> Iterator[None]:
    """Apply dropout in everything that this thread traces inside the context.

    Args:
        seed: seed [2] of all masks.
        first: number of the first mask.
    """
    _drawing.seeds = (seed + np.int32([0, first + number]) for number in range(MOST_MASKS))
    try:
        yield
    finally:
        _drawing.seeds = None


class DroppedCritic(Critic):
    """A critic with dropout after each dense layer, before layer normalization if there is any.

    Args:
        args: arguments of Critic.
        rate: share of the numbers that are set to zero; the others are divided by 1 - rate.
    """

    def __init__(self, *args: Any, rate: float) -> None:
        super().__init__(*args)
        self._rate = rate

    def __call__(self, rows: tf.Tensor) -> tf.Tensor:
        seeds = getattr(_drawing, "seeds", None)
        if seeds is None:
            return super().__call__(rows)
        for layer in self._network.layers[1:]:
            rows = layer(rows)
            if isinstance(layer, keras.layers.Dense):
                rows = dropped(rows, self._rate, next(seeds))
        return in_full(self.layer(rows))


def dropped(rows: tf.Tensor, rate: float, seed: tf.Tensor) -> tf.Tensor:
    """Set a share of the numbers to zero and divide the others by 1 - rate.

    The mask is a hash of the places and the seed [2]: TensorFlow's generators would take most of a gradient step.
    """
    first, second = tf.unstack(tf.bitcast(seed, tf.uint32))
    places = tf.reshape(tf.cast(tf.range(tf.size(rows)), tf.uint32), tf.shape(rows))
    bits = _mixed(tf.bitwise.bitwise_xor(_mixed(places * GOLDEN + first), second))
    return tf.where(bits < np.uint32(rate * 2**32), 0.0, rows / (1.0 - rate))


def _mixed(x: tf.Tensor) -> tf.Tensor:
    """Mix the bits of each number, as the last step of MurmurHash3 does."""
    for shift, factor in MIXING:
        x = tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, np.uint32(shift))) * np.uint32(factor)
    return tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, np.uint32(16)))


class DroppedLosses:
    """Losses with dropout in each phase; it has the methods of Losses.

    Args:
        losses: losses of a policy with DroppedCritics.
    """

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self.temperature = losses.temperature
        self.temperature_loss = losses.temperature_loss
        self.critic_rule = losses.critic_rule
        self.columns = losses.columns
        self.has_targets = losses.has_targets
        self.variables = losses.variables

    def rule(self) -> Optimizer:
        return self._losses.rule()

    def noise(self, rng: np.random.Generator, rows: tuple[int, int]) -> dict[str, np.ndarray]:
        seeds = rng.integers(np.iinfo(np.int32).max - 3 * MOST_MASKS, size=(rows[0], 2), dtype=np.int32)
        return self._losses.noise(rng, rows) | {SEED: seeds}

    def prepare(self, batch: Batch) -> Batch:
        with masks(batch[SEED], 0):
            return self._losses.prepare(batch)

    def critic_loss(self, batch: Batch) -> tuple[tf.Tensor, Statistics]:
        with masks(batch[SEED], MOST_MASKS):
            return self._losses.critic_loss(batch)

    def actor_loss(self, batch: Batch) -> tuple[tf.Tensor, Statistics]:
        with masks(batch[SEED], 2 * MOST_MASKS):
            return self._losses.actor_loss(batch)
