"""Trust regions around an averaged policy (Wang et al. 2017, section 3.3).

The efficient one bounds how far a step moves the outputs, to first order. The exact one measures the KL divergence
that a step of the parameters has led to, and shortens the step until the bound holds.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import keras
import tensorflow as tf

# After so many the step is not taken at all.
MOST_HALVINGS = 10

Result = TypeVar("Result")


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


def shortened_step(
    variables: Sequence[keras.Variable],
    step: Callable[[], Result],
    divergence: Callable[[], float],
    delta: float,
) -> tuple[Result, float, float]:
    """Take a step of the parameters and halve it until a divergence is within its bound, or no larger than before.

    Args:
        variables: those that the divergence depends on; a shorter step is one of these alone.
        step: changes the variables.
        divergence: what is bounded; it is the same number on every rank.
        delta: the bound.

    Returns:
        What `step` returned, the divergence at the end, and which part of the step was taken.
    """
    bound = max(delta, divergence())
    before = [tf.identity(variable.value) for variable in variables]
    result = step()
    after = [tf.identity(variable.value) for variable in variables]
    for part in (*(0.5**halvings for halvings in range(MOST_HALVINGS + 1)), 0.0):
        if part < 1.0:
            for variable, old, new in zip(variables, before, after, strict=True):
                variable.assign(old + part * (new - old))
        reached = divergence()
        if reached <= bound:
            break
    return result, reached, part
