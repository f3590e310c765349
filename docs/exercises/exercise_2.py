"""Exercise 2: mend PPO's clipped loss, which has two mistakes."""

import tensorflow as tf


def policy_loss(logp: tf.Tensor, old_logp: tf.Tensor, advantages: tf.Tensor, clip: float) -> tf.Tensor:
    """Return the loss [] that PPO descends.

    Args:
        logp: [B] log probabilities of the actions under the present policy.
        old_logp: [B] log probabilities under the policy that acted.
        advantages: [B].
        clip: range of the ratio around 1.
    """
    ratio = tf.exp(old_logp - logp)
    clipped = tf.clip_by_value(ratio, 1.0 - clip, 1.0 + clip)
    return tf.reduce_mean(tf.minimum(-advantages * ratio, -advantages * clipped))
