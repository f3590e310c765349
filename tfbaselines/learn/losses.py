"""Parts of losses that several algorithms share: pure functions of tensors [B].

On-policy algorithms come first; the parts for off-policy algorithms take batches of single steps or of sequences.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import tensorflow as tf

from tfbaselines.learn.engine import Batch, Statistics
from tfbaselines.policy.base import BasePolicy, Outputs

if TYPE_CHECKING:
    from tfbaselines.policy.actor_critic import ActorCritic, View


def evaluated(policy: BasePolicy, batch: Batch) -> tuple[Batch, Outputs]:
    """Compute the policy's present outputs for a batch, and flatten sequences to rows.

    Args:
        policy: with distributions and values.
        batch: obs and others [B, ...]; recurrent policies: [n, T, ...], with episode_start [n, T] and states [n, S]
            before the first step.

    Returns:
        The batch with every array as [B, ...], B = n * T for recurrent policies; the outputs of these rows.
    """
    states = batch.get("states")
    if states is not None:
        rows = {name: array for name, array in batch.items() if name != "states"}
        batch = tf.nest.map_structure(lambda x: tf.reshape(x, (-1, *x.shape[2:])) if x.shape.rank else x, rows)
    further = {} if states is None else policy.sequence_inputs(batch)
    return batch, policy.forward(batch["obs"], batch.get("episode_start"), states, **further)


def with_outputs(policy: BasePolicy, batch: Batch) -> Batch:
    """Give a batch `flat` [B, P], the present distributions of a policy without memory, unless it has them."""
    return {"flat": policy.forward(batch["obs"]).flat} | batch


def squared_value_loss(policy: BasePolicy, batch: Batch) -> tuple[tf.Tensor, Statistics]:
    """Compute E[(V - R)^2] of a batch with returns R, as `evaluated` takes it; also as the statistic LossV."""
    batch, outputs = evaluated(policy, batch)
    loss = tf.reduce_mean(tf.square(outputs.value - batch["returns"]))
    return loss, {"LossV": loss}


def standardized(x: tf.Tensor, valid: tf.Tensor | None = None) -> tf.Tensor:
    """Scale to mean 0 and standard deviation 1, over the valid rows."""
    if valid is not None:
        centered = x - mean_of(x, valid)
        return centered / (tf.sqrt(mean_of(tf.square(centered), valid)) + 1e-8)
    return (x - tf.reduce_mean(x)) / (tf.math.reduce_std(x) + 1e-8)


def clipped_policy_loss(
    ratio: tf.Tensor, advantages: tf.Tensor, cliprange: tf.Tensor | float, valid: tf.Tensor | None = None
) -> tf.Tensor:
    """Compute E[max(-A * ratio, -A * clip(ratio, 1 - cliprange, 1 + cliprange))] (Schulman et al. 2017).

    The ratio divides the actions' present probabilities by their probabilities at the time of acting.
    """
    clipped = tf.clip_by_value(ratio, 1.0 - cliprange, 1.0 + cliprange)
    return mean_of(tf.maximum(-advantages * ratio, -advantages * clipped), valid)


def clipped_value_loss(
    values: tf.Tensor,
    old_values: tf.Tensor,
    returns: tf.Tensor,
    cliprange: tf.Tensor | float,
    valid: tf.Tensor | None = None,
) -> tf.Tensor:
    """Compute 0.5 * E[max((V - R)^2, (V_old + clip(V - V_old, -cliprange, cliprange) - R)^2)]."""
    clipped = old_values + tf.clip_by_value(values - old_values, -cliprange, cliprange)
    return 0.5 * mean_of(tf.maximum(tf.square(values - returns), tf.square(clipped - returns)), valid)


def views(policy: "ActorCritic", batch: Batch) -> dict[str, "View"]:
    """Preprocess the observations before the steps ('now') and after them ('next').

    Sequences contain both in the same rows; `targets` picks the right ones.
    """
    now = policy.view_of(batch)
    return {"now": now, "next": now if policy.recurrent else policy.view(batch["next_obs"])}


def target_actions(target: "ActorCritic", view: "View", noise: tf.Tensor | None) -> tf.Tensor:
    """Return the actions [B, n] of a deterministic target network, with noise [B, n] or None, inside the bounds."""
    head = target.head
    actions = tf.reshape(head.mode(target.act(view)), (-1, head.width))
    if noise is None:
        return actions
    return tf.clip_by_value(actions + noise, head.center - head.limit, head.center + head.limit)


def targets(batch: Batch, values: tf.Tensor) -> tf.Tensor:
    """Return rewards + discount * values, given the values [B] or quantiles [B, M] of the 'next' view."""
    several = tuple(values.shape[1:])
    if "next_rows" in batch:
        rows = batch["next_rows"]
        by_sequence = tf.reshape(values, (*rows.shape, *several))
        values = tf.reshape(tf.gather(by_sequence, rows, batch_dims=1), (-1, *several))
    rewards, discount = (tf.reshape(batch[name], (-1, *(1 for _ in several))) for name in ("rewards", "discount"))
    return rewards + discount * values


def mean(batch: Batch, values: tf.Tensor) -> tf.Tensor:
    """Return the mean over a batch's valid rows [B]."""
    return mean_of(values, batch.get("valid"))


def mean_of(values: tf.Tensor, valid: tf.Tensor | None) -> tf.Tensor:
    """Return the mean over the rows [B, ...] where `valid` [B] is 1, 0 without any; None for all rows."""
    if valid is None:
        return tf.reduce_mean(values)
    if values.shape.rank > 1:
        values = tf.reduce_mean(values, axis=range(1, values.shape.rank))
    return tf.reduce_sum(values * valid) / tf.maximum(tf.reduce_sum(valid), 1.0)


def weighted_mean(batch: Batch, values: tf.Tensor) -> tf.Tensor:
    """Return the mean of values times the importance weights of their rows, if the batch has any."""
    return mean(batch, values * batch["weights"] if "weights" in batch else values)


def td_errors(batch: Batch, q: tf.Tensor) -> Statistics:
    """Return |q - y| [B] as a statistic for priorities; nothing for a batch without importance weights."""
    return {"td_errors": tf.abs(q - batch["targets"])} if "weights" in batch else {}


def spread(name: str, batch: Batch, values: tf.Tensor) -> Statistics:
    """Return mean (under `name` itself), standard deviation, minimum and maximum of values [B] as statistics."""
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


def spreads(batch: Batch, values: Sequence[tf.Tensor]) -> Statistics:
    """Compute `spread` of each critic's values [B], as Q1Vals, Q2Vals and so on."""
    return {k: x for i, q in enumerate(values, 1) for k, x in spread(f"Q{i}Vals", batch, q).items()}


def huber(x: tf.Tensor) -> tf.Tensor:
    """Compute the Huber loss: x^2 / 2 for |x| < 1, |x| - 1/2 beyond."""
    size = tf.abs(x)
    return tf.where(size < 1.0, 0.5 * tf.square(x), size - 0.5)


def quantile_huber(quantiles: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """Compute the sum over i and the mean over j of |tau_i - (u < 0)| huber(u) [B] with u = targets_j - quantiles_i.

    Args:
        quantiles: [B, N] quantiles at tau_i = (i + 1/2) / N.
        targets: [B, M] samples of the target distribution.
    """
    count = quantiles.shape[-1]
    tau = (tf.range(count, dtype=tf.float32) + 0.5) / count
    u = targets[:, None, :] - quantiles[:, :, None]
    # huber(u) = c (u - c / 2) with its derivative c = clip(u, -1, 1), and |tau - (u < 0)| c = c / 2 + (tau - 1/2) |c|.
    # With c held constant the gradient is this slope: where XLA does not compile it, in a third of the time.
    c = tf.stop_gradient(tf.clip_by_value(u, -1.0, 1.0))
    slope = 0.5 * c + (tau - 0.5)[None, :, None] * tf.abs(c)
    return tf.reduce_sum(tf.reduce_mean(slope * (u - 0.5 * c), axis=2), axis=1)
