"""The loss of Q-learning for every representation of returns.

    expectation   huber(q - y),                          y = r + discount q'
    categorical   KL(y || p),                            y = projection of r + discount z onto the support z
    quantiles     sum_i mean_j rho_i(y_j - theta_i),     y = r + discount theta'

rho is the quantile Huber loss. Priorities are computed from the errors q - y, or from the losses of distributions.
"""

from typing import Any

import tensorflow as tf

from tfbaselines.algs.deepq.q_network import CategoricalReturn, QuantileReturn, ReturnDistribution

Batch = dict[str, Any]


def huber(x: tf.Tensor) -> tf.Tensor:
    """Compute the Huber loss: x^2 / 2 for |x| < 1, |x| - 1/2 beyond."""
    size = tf.abs(x)
    return tf.where(size < 1.0, 0.5 * tf.square(x), size - 0.5)


def projection(places: tf.Tensor, probabilities: tf.Tensor, support: tf.Tensor) -> tf.Tensor:
    """Project probability mass onto a support of equal steps: each place shares its mass with its two neighbors.

    Args:
        places: [B, M] places of the mass; mass beyond an end of the support goes to that end.
        probabilities: [B, M] the mass.
        support: [N] points in ascending order.

    Returns:
        Probabilities [B, N] of the support's points.
    """
    step = support[1] - support[0]
    places = tf.clip_by_value(places, support[0], support[-1])
    distance = tf.abs(places[:, None, :] - support[None, :, None]) / step
    return tf.reduce_sum(tf.maximum(1.0 - distance, 0.0) * probabilities[:, None, :], axis=-1)


def kl_from_logits(targets: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Compute KL(targets || softmax(logits)) [B] of probabilities and logits [B, N]."""
    return tf.reduce_sum(tf.math.xlogy(targets, targets) - targets * tf.nn.log_softmax(logits), axis=-1)


def quantile_huber(quantiles: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """Compute the quantile Huber loss [B].

    It is the sum over i and the mean over j of |tau_i - (u < 0)| huber(u) with u = targets_j - quantiles_i.

    Args:
        quantiles: [B, N] quantiles at tau_i = (i + 1/2) / N.
        targets: [B, M] samples of the target distribution.
    """
    count = quantiles.shape[-1]
    tau = (tf.range(count, dtype=tf.float32) + 0.5) / count
    u = targets[:, None, :] - quantiles[:, :, None]
    below = tf.cast(u < 0.0, tf.float32)
    return tf.reduce_sum(tf.reduce_mean(tf.abs(tau[None, :, None] - below) * huber(u), axis=2), axis=1)


def return_targets(returns: ReturnDistribution, batch: Batch, outputs: tf.Tensor) -> tf.Tensor:
    """Compute the targets [B, atoms] of a batch: probabilities for categorical returns, else values or quantiles.

    Args:
        returns: representation of returns.
        batch: rewards and discount [B].
        outputs: [B, atoms] outputs of the target network for the next action.
    """
    rewards, discount = batch["rewards"][:, None], batch["discount"][:, None]
    if not isinstance(returns, CategoricalReturn):
        return rewards + discount * outputs
    support = tf.constant(returns.support)
    return projection(rewards + discount * support[None, :], tf.nn.softmax(outputs), support)


def return_loss(returns: ReturnDistribution, outputs: tf.Tensor, targets: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Compute the loss [B] and the error [B] of each row.

    Args:
        returns: representation of returns.
        outputs: [B, atoms] outputs for the actions that were taken.
        targets: [B, atoms] result of return_targets.
    """
    if isinstance(returns, CategoricalReturn):
        loss = kl_from_logits(targets, outputs)
        return loss, loss
    if isinstance(returns, QuantileReturn):
        loss = quantile_huber(outputs, targets)
        return loss, loss
    errors = (outputs - targets)[:, 0]
    return huber(errors), errors
