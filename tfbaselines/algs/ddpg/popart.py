"""Popart: running statistics of returns, and critics that predict in their units (van Hasselt et al. 2016).

Critics are rescaled when the statistics change, so their predictions stay the same (arXiv:1602.07714).
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.learn.phases import Merged
from tfbaselines.policy.actor_critic import ActorCritic

# Initial count and sum of squares, and the least variance.
EPSILON = 1e-2
# Added to the standard deviation in divisions.
TINY = 1e-8


class ReturnStatistics:
    """Mean and standard deviation of all returns seen, from running sums (float64; results float32).

    Args:
        ranks: number of ranks; `take` takes the average of their sums.
    """

    def __init__(self, ranks: int = 1) -> None:
        self._ranks = ranks
        self._sums = tf.Variable([0.0, EPSILON, EPSILON], dtype=tf.float64, trainable=False)
        self.variables = [self._sums]

    @property
    def mean(self) -> tf.Tensor:
        """Mean []."""
        return tf.cast(self._sums[0] / self._sums[2], tf.float32)

    @property
    def std(self) -> tf.Tensor:
        """Standard deviation [], at least 0.1."""
        squares = tf.cast(self._sums[1] / self._sums[2], tf.float32)
        return tf.sqrt(tf.maximum(squares - tf.square(self.mean), EPSILON))

    def normalized(self, x: tf.Tensor) -> tf.Tensor:
        """Standardize returns."""
        return (x - self.mean) / (self.std + TINY)

    def denormalized(self, x: tf.Tensor) -> tf.Tensor:
        """Undo `normalized`."""
        return x * self.std + self.mean

    def sums(self, returns: tf.Tensor) -> tf.Tensor:
        """Return sum, sum of squares and count [3] of a batch of returns."""
        values = tf.cast(returns, tf.float64)
        parts = [tf.reduce_sum(values), tf.reduce_sum(tf.square(values)), tf.cast(tf.size(values), tf.float64)]
        return tf.cast(tf.stack(parts), tf.float32)

    def take(self, sums: tf.Tensor) -> None:
        """Take in what `sums` returned, averaged over ranks."""
        self._sums.assign_add(tf.cast(sums, tf.float64) * self._ranks)

    def observe(self, returns: tf.Tensor, comm: Any) -> None:
        """Take in one batch of returns from every rank."""
        self.take(tf.constant(comm.average(self.sums(returns).numpy())))

    def state(self) -> np.ndarray:
        """Return sum, sum of squares and count [3]."""
        return self._sums.numpy()

    def restore(self, state: Any) -> None:
        """Restore what `state` returned."""
        self._sums.assign(state)


def rescaled(statistics: ReturnStatistics, layers: list[keras.layers.Dense], change: Any, *arguments: Any) -> None:
    """Change the statistics, and rescale output layers so that predicted returns stay the same.

    Args:
        statistics: statistics of returns.
        layers: output layers of critics.
        change: function that changes the statistics.
        arguments: arguments of `change`.
    """
    mean, std = statistics.mean, statistics.std
    change(*arguments)
    new_mean, new_std = statistics.mean, statistics.std
    for layer in layers:
        layer.kernel.assign(layer.kernel.value * (std / new_std))
        layer.bias.assign((layer.bias.value * std + mean - new_mean) / new_std)


def rescaling(policy: ActorCritic, target: ActorCritic) -> Merged:
    """Make the part of a gradient step that updates the statistics and rescales all critics.

    Args:
        policy: an actor with critics and statistics of returns.
        target: the target networks.
    """
    returns = policy.returns
    layers = [critic.layer for network in (policy, target) for critic in network.critics]
    return Merged(
        lambda batch: returns.sums(batch["targets"]), lambda sums: rescaled(returns, layers, returns.take, sums)
    )
