"""Objectives of policies and value functions on batches of their own rollouts: pure functions of tensors [B]."""

import tensorflow as tf

from tfbaselines.policy.policy import Outputs, Policy

Batch = dict[str, tf.Tensor]


def evaluated(policy: Policy, batch: Batch) -> tuple[Batch, Outputs]:
    """What the policy's networks give for a batch now, and the batch with rows alone.

    Args:
        policy: gives distributions and values.
        batch: obs and others [B, ...]; recurrent policies: the same as [n, T, ...], with episode_start [n, T] and
            states [n, S] before the first step.

    Returns:
        The batch with every array as [B, ...], B = n * T for recurrent policies; the outputs of these rows.
    """
    states = batch.get("states")
    if states is not None:
        rows = {name: array for name, array in batch.items() if name != "states"}
        batch = {n: tf.reshape(x, (-1, *x.shape[2:])) if x.shape.rank else x for n, x in rows.items()}
    return batch, policy.forward(batch["obs"], batch.get("episode_start"), states)


def with_outputs(policy: Policy, batch: Batch) -> Batch:
    """A batch with the parameters `flat` [B, P] of the distributions that the policy has now, unless it holds some.

    Args:
        policy: without memory.
        batch: obs [B, ...] and others.
    """
    return {"flat": policy.forward(batch["obs"]).flat} | batch


def squared_value_loss(policy: Policy, batch: Batch) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """E[(V - R)^2], also as the statistic LossV.

    Args:
        policy: gives V.
        batch: obs [B, ...] and returns R [B]; recurrent policies: as for `evaluated`.
    """
    batch, outputs = evaluated(policy, batch)
    loss = tf.reduce_mean(tf.square(outputs.value - batch["returns"]))
    return loss, {"LossV": loss}


def standardized(x: tf.Tensor) -> tf.Tensor:
    """With mean 0 and standard deviation 1."""
    return (x - tf.reduce_mean(x)) / (tf.math.reduce_std(x) + 1e-8)


def clipped_policy_loss(ratio: tf.Tensor, advantages: tf.Tensor, cliprange: tf.Tensor | float) -> tf.Tensor:
    """E[max(-A * ratio, -A * clip(ratio, 1 - cliprange, 1 + cliprange))] (Schulman et al. 2017).

    Args:
        ratio: [B] probability of the actions now over the one that they were taken with.
        advantages: A [B].
        cliprange: how far the ratio may go from 1.
    """
    clipped = tf.clip_by_value(ratio, 1.0 - cliprange, 1.0 + cliprange)
    return tf.reduce_mean(tf.maximum(-advantages * ratio, -advantages * clipped))


def clipped_value_loss(
    values: tf.Tensor, old_values: tf.Tensor, returns: tf.Tensor, cliprange: tf.Tensor | float
) -> tf.Tensor:
    """0.5 * E[max((V - R)^2, (V_old + clip(V - V_old, -cliprange, cliprange) - R)^2)].

    Args:
        values: V [B], now.
        old_values: V_old [B], when the rollout was collected.
        returns: R [B].
        cliprange: how far V may go from V_old.
    """
    clipped = old_values + tf.clip_by_value(values - old_values, -cliprange, cliprange)
    return 0.5 * tf.reduce_mean(tf.maximum(tf.square(values - returns), tf.square(clipped - returns)))
