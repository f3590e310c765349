"""The actor's loss for learning from a data set alone: TD3+BC (Fujimoto and Gu 2021, arXiv:2106.06860)."""

import tensorflow as tf

from tfbaselines.learn.losses import Batch, Statistics, mean
from tfbaselines.policy.actor_critic import ActorCritic


def actor_loss(policy: ActorCritic, alpha: float, batch: Batch) -> tuple[tf.Tensor, Statistics]:
    """Replace TD3's loss of the actor by `behavior_regularized`."""
    actions = policy.head.mode(policy.act(batch["now"]))
    q1, _ = policy.q(batch["now"], actions)
    loss, distance = behavior_regularized(policy, batch, q1, actions, alpha)
    return loss, {"LossPi": loss, "LossBC": distance}


def behavior_regularized(
    policy: ActorCritic, batch: Batch, q: tf.Tensor, actions: tf.Tensor, alpha: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the loss and its second term, with actions in units of their bounds.

    The loss is

        -lambda E[Q(s, pi(s))] + E[(pi(s) - a)^2],   lambda = alpha / E|Q(s, pi(s))|

    Args:
        policy: actor; its head scales actions.
        batch: the data's actions [B, ...].
        q: Q(s, pi(s)) [B].
        actions: pi(s) [B, ...].
        alpha: weight of the values.
    """
    # If all values are zero, lambda is 0.
    weight = tf.math.divide_no_nan(tf.cast(alpha, q.dtype), tf.stop_gradient(mean(batch, tf.abs(q))))
    squared = tf.square(policy.head.unit(actions) - policy.head.unit(batch["actions"]))
    distance = mean(batch, tf.reduce_mean(squared, axis=-1))
    return distance - weight * mean(batch, q), distance
