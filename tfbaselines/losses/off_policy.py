"""What the losses of off-policy algorithms share: batches of single steps and of sequences alike, and statistics."""

import tensorflow as tf

from tfbaselines.optim.blocks import Batch
from tfbaselines.policy.actor_critic import ActorCritic, View


def view_of(policy: ActorCritic, batch: Batch) -> View:
    """`policy.view_of(batch)`."""
    return policy.view_of(batch)


def views(policy: ActorCritic, batch: Batch) -> dict[str, View]:
    """What the networks see: 'now' for the batch's rows, 'next' for the observations that values go on from.

    Of sequences these are the same rows; `values_after` picks the right ones.
    """
    now = view_of(policy, batch)
    return {"now": now, "next": now if policy.recurrent else policy.view(batch["next_obs"])}


def target_actions(target: ActorCritic, view: View, noise: tf.Tensor | None) -> tf.Tensor:
    """A deterministic target's actions [B, n], with noise [B, n] if there is any, inside of the bounds."""
    head = target.head
    actions = tf.reshape(head.mode(target.act(view)), (-1, head.width))
    if noise is None:
        return actions
    return tf.clip_by_value(actions + noise, head.centre - head.limit, head.centre + head.limit)


def targets(batch: Batch, values: tf.Tensor) -> tf.Tensor:
    """Returns [B] of each row: its rewards, and what the value [B] of the 'next' view is discounted to."""
    if "next_rows" in batch:
        rows = batch["next_rows"]
        by_sequence = tf.reshape(values, tf.shape(rows))
        values = tf.reshape(tf.gather(by_sequence, rows, batch_dims=1), (-1,))
    return batch["rewards"] + batch["discount"] * values


def mean(batch: Batch, values: tf.Tensor) -> tf.Tensor:
    """The mean [] over a batch's rows [B]; of sequences over those of which everything is known."""
    if "valid" not in batch:
        return tf.reduce_mean(values)
    return tf.reduce_sum(values * batch["valid"]) / tf.maximum(tf.reduce_sum(batch["valid"]), 1.0)


def spread_names(name: str) -> tuple[str, ...]:
    """Names of what `spread` tells of the values called `name`."""
    return (name, f"{name}:std", f"{name}:min", f"{name}:max")


def spread(batch: Batch, values: tf.Tensor) -> list[tf.Tensor]:
    """Mean, standard deviation, smallest and largest of values [B]."""
    middle = mean(batch, values)
    if "valid" in batch:
        values = tf.where(batch["valid"] > 0, values, middle)
    deviation = tf.sqrt(mean(batch, tf.square(values - middle)))
    return [middle, deviation, tf.reduce_min(values), tf.reduce_max(values)]
