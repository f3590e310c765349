"""Exercise 5, solved: the log density of a squashed Gaussian."""

import math

import tensorflow as tf


def log_density(u: tf.Tensor, mean: tf.Tensor, log_std: tf.Tensor) -> tf.Tensor:
    """Return the log density [B] of the action a = tanh(u), where u is Gaussian."""
    gaussian = -0.5 * (tf.square((u - mean) * tf.exp(-log_std)) + 2.0 * log_std + math.log(2.0 * math.pi))
    # log(1 - tanh(u)^2), written without the square of a number that rounds to 1.
    squash = 2.0 * (math.log(2.0) - u - tf.nn.softplus(-2.0 * u))
    return tf.reduce_sum(gaussian - squash, axis=-1)
