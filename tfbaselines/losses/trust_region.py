"""The efficient trust region around an averaged policy (Wang et al. 2017, section 3.3): how far outputs may move."""

import tensorflow as tf


def bounded_gradient(
    gradient: tf.Tensor, kl_gradient: tf.Tensor, delta: float
) -> tuple[tf.Tensor, tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]]:
    """The nearest z to the ascent direction g with k . z <= delta, per row: z = g - max(0, (k.g - delta) / |k|^2) k.

    Args:
        gradient: g [B, P], of the objective with respect to the policy's outputs.
        kl_gradient: k [B, P], of KL(averaged policy || policy) with respect to the same outputs.
        delta: the bound.

    Returns:
        z [B, P], and the sizes of k, g, k.g and of the adjustment, [B] each.
    """
    k_dot_g = tf.reduce_sum(kl_gradient * gradient, axis=-1)
    k_dot_k = tf.reduce_sum(tf.square(kl_gradient), axis=-1)
    adjustment = tf.maximum(0.0, (k_dot_g - delta) / (k_dot_k + 1e-6))
    sizes = (row_norms(kl_gradient), row_norms(gradient), tf.abs(k_dot_g), tf.abs(adjustment))
    return gradient - adjustment[:, None] * kl_gradient, sizes


def row_norms(x: tf.Tensor) -> tf.Tensor:
    """Euclidean norms [B] of the rows of x [B, P]."""
    return tf.sqrt(tf.reduce_sum(tf.square(x), axis=-1))


def gaussian_kl_gradient(average: tf.Tensor, flat: tf.Tensor) -> tf.Tensor:
    """Gradient of KL(average || policy) of diagonal Gaussians by the policy's means and log deviations.

    Args:
        average: [B, 2d] means and log deviations of the averaged policy.
        flat: [B, 2d] of the policy.
    """
    (mean_0, logstd_0), (mean, logstd) = tf.split(average, 2, axis=-1), tf.split(flat, 2, axis=-1)
    precision = tf.exp(-2.0 * logstd)
    spread = tf.exp(2.0 * logstd_0) + tf.square(mean_0 - mean)
    return tf.concat([(mean - mean_0) * precision, 1.0 - spread * precision], axis=-1)
