"""Exercise 5: write the log density of SAC's squashed Gaussian, so that it never overflows."""

import tensorflow as tf


def log_density(u: tf.Tensor, mean: tf.Tensor, log_std: tf.Tensor) -> tf.Tensor:
    """Return the log density [B] of the action a = tanh(u), where u is Gaussian.

    Args:
        u: [B, n] the numbers before the tanh.
        mean: [B, n] means of the Gaussian.
        log_std: [B, n] logarithms of its standard deviations.
    """
    gaussian = gaussian_log_density(u, mean, log_std)
    # Your code: the change of variables from u to tanh(u) is missing.
    return tf.reduce_sum(gaussian, axis=-1)


def gaussian_log_density(u: tf.Tensor, mean: tf.Tensor, log_std: tf.Tensor) -> tf.Tensor:
    """Return the log density [B, n] of each number of u."""
    return -0.5 * (tf.square((u - mean) * tf.exp(-log_std)) + 2.0 * log_std + tf.math.log(6.283185307179586))
