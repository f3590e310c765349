"""Running statistics of returns in compiled code, and critics whose predictions stay while these change (popart).

van Hasselt et al. 2016, arXiv:1602.07714.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

# The count, and the sum of squares, to start from; and the least variance.
EPSILON = 1e-2
# In the division by the standard deviation.
TINY = 1e-8


class ReturnStatistics:
    """Mean and standard deviation of all returns seen, from running sums (float64; results float32).

    Args:
        ranks: how many ranks' sums are averaged before `take`.
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
        """Returns in units of the statistics."""
        return (x - self.mean) / (self.std + TINY)

    def denormalized(self, x: tf.Tensor) -> tf.Tensor:
        """Back to returns."""
        return x * self.std + self.mean

    def sums(self, returns: tf.Tensor) -> tf.Tensor:
        """What is averaged over ranks of a batch of returns: sum, sum of squares and count [3]."""
        values = tf.cast(returns, tf.float64)
        parts = [tf.reduce_sum(values), tf.reduce_sum(tf.square(values)), tf.cast(tf.size(values), tf.float64)]
        return tf.cast(tf.stack(parts), tf.float32)

    def take(self, sums: tf.Tensor) -> None:
        """Take in what `sums` gave."""
        self._sums.assign_add(tf.cast(sums, tf.float64) * self._ranks)

    def observe(self, returns: tf.Tensor, comm: Any) -> None:
        """Take in a batch of returns of every rank."""
        self.take(tf.constant(comm.average(self.sums(returns).numpy())))

    def state(self) -> np.ndarray:
        """Sum, sum of squares and count [3]."""
        return self._sums.numpy()

    def restore(self, state: Any) -> None:
        """Take over what `state` gave."""
        self._sums.assign(state)


def rescaled(statistics: ReturnStatistics, layers: list[keras.layers.Dense], change: Any, *arguments: Any) -> None:
    """Change the statistics, and rescale output layers so that predicted returns stay the same.

    Args:
        statistics: of returns, in whose units the layers predict.
        layers: the output layers of critics.
        change: changes the statistics.
        arguments: of `change`.
    """
    mean, std = statistics.mean, statistics.std
    change(*arguments)
    new_mean, new_std = statistics.mean, statistics.std
    for layer in layers:
        layer.kernel.assign(layer.kernel.value * (std / new_std))
        layer.bias.assign((layer.bias.value * std + mean - new_mean) / new_std)
