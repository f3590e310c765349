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
                uniform = tf.random.stateless_uniform(tf.shape(rows), next(seeds))
                rows = tf.where(uniform < self._rate, 0.0, rows / (1.0 - self._rate))
        return in_full(self.layer(rows))


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
