"""Exercise 2, solved: PPO's clipped loss."""

import tensorflow as tf


def policy_loss(logp: tf.Tensor, old_logp: tf.Tensor, advantages: tf.Tensor, clip: float) -> tf.Tensor:
    """Return the loss [] that PPO descends."""
    # The present policy is the numerator.
    ratio = tf.exp(logp - old_logp)
    clipped = tf.clip_by_value(ratio, 1.0 - clip, 1.0 + clip)
    # The worse of both: the larger loss, as the surrogate to ascend is the smaller one.
    return tf.reduce_mean(tf.maximum(-advantages * ratio, -advantages * clipped))
