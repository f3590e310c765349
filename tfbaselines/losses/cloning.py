"""Behaviour cloning: the log probability of what a demonstrator did."""

import tensorflow as tf

from tfbaselines.losses.policy_gradient import evaluated
from tfbaselines.policy.base import BasePolicy
from tfbaselines.policy.bounded import BoundedHead

Batch = dict[str, tf.Tensor]


def cloning_loss(policy: BasePolicy, batch: Batch) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """E[-log pi(a|s)] over the rows that count, and the policy's mean entropy there.

    Args:
        policy: gives pi.
        batch: obs [B, ...], actions [B, ...] and valid [B], 1 where a row counts; recurrent policies: as for
            `evaluated` in losses/policy_gradient.py.
    """
    batch, outputs = evaluated(policy, batch)
    pi, valid = policy.head.distribution(outputs.flat), batch["valid"]
    count = tf.maximum(tf.reduce_sum(valid), 1.0)
    loss = tf.reduce_sum(valid * pi.neglogp(batch["actions"])) / count
    return loss, {"loss": loss, "entropy": tf.reduce_sum(valid * pi.entropy()) / count}


def imitation_loss(policy: BasePolicy, batch: Batch) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """`cloning_loss` for every kind of policy. Of bounded heads it is the squared distance of the most likely action.

    Demonstrated actions often lie on their bounds, where the density of a squashed Gaussian has no maximum. Actions are
    in units of their bounds; entropy is left to the algorithm.

    Args:
        policy: gives pi.
        batch: see `cloning_loss`.
    """
    if not isinstance(policy.head, BoundedHead):
        return cloning_loss(policy, batch)
    batch, outputs = evaluated(policy, batch)
    head, valid = policy.head, batch["valid"]
    distance = tf.square(head.unit(head.mode(outputs.flat)) - head.unit(batch["actions"]))
    loss = tf.reduce_sum(valid * tf.reduce_mean(distance, axis=-1)) / tf.maximum(tf.reduce_sum(valid), 1.0)
    return loss, {"loss": loss}


def weight_penalty(variables: list) -> tf.Tensor:
    """Half the sum of squares of all parameters.

    Args:
        variables: Keras variables.
    """
    return tf.add_n([tf.nn.l2_loss(variable.value) for variable in variables])
