"""What the losses of off-policy algorithms share: batches of single steps and of sequences alike, and statistics."""

from typing import Any

import tensorflow as tf

from tfbaselines.policy.actor_critic import ActorCritic, View

Batch = dict[str, Any]


def views(policy: ActorCritic, batch: Batch) -> dict[str, View]:
    """What the networks see: 'now' for the batch's rows, 'next' for the observations that values go on from.

    Of sequences these are the same rows; `targets` picks the right ones.
    """
    now = policy.view_of(batch)
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
    """The mean [] over a batch's valid rows [B]."""
    if "valid" not in batch:
        return tf.reduce_mean(values)
    return tf.reduce_sum(values * batch["valid"]) / tf.maximum(tf.reduce_sum(batch["valid"]), 1.0)


def weighted_mean(batch: Batch, values: tf.Tensor) -> tf.Tensor:
    """The same of values times the importance of their rows, where the batch was not drawn uniformly."""
    return mean(batch, values * batch["weights"] if "weights" in batch else values)


def td_errors(batch: Batch, q: tf.Tensor) -> dict[str, tf.Tensor]:
    """What the priorities of a batch's rows [B] are made of, as a statistic; nothing where rows have no weights."""
    return {"td_errors": tf.abs(q - batch["targets"])} if "weights" in batch else {}


def spread(name: str, batch: Batch, values: tf.Tensor) -> dict[str, tf.Tensor]:
    """Mean (under `name` itself), standard deviation, smallest and largest of values [B], as statistics."""
    middle = mean(batch, values)
    if "valid" in batch:
        values = tf.where(batch["valid"] > 0, values, middle)
    deviation = tf.sqrt(mean(batch, tf.square(values - middle)))
    return {
        name: middle,
        f"{name}:std": deviation,
        f"{name}:min": tf.reduce_min(values),
        f"{name}:max": tf.reduce_max(values),
    }
