"""TQC: truncated quantile critics (Kuznetsov et al. 2020, arXiv:2005.04269).

N critics estimate M quantiles of the return each. The targets are the NM quantiles of the target critics, sorted,
without the largest: their mean overestimates less. With the K that are left, z_(1) <= ... <= z_(K),

    y_k = r + gamma (1 - d) (z_(k)(s', a') - alpha log pi(a'|s')),   a' ~ pi(s')

and critics minimize the mean quantile Huber loss. The actor maximizes the mean of all NM quantiles.
"""

from typing import Any

import tensorflow as tf

from tfbaselines.algs.sac.loss import Losses
from tfbaselines.learn.losses import (
    Batch,
    Statistics,
    quantile_huber,
    spreads,
    targets,
    td_errors,
    views,
    weighted_mean,
)
from tfbaselines.policy.actor_critic import View


class QuantileLosses(Losses):
    """SAC's losses with truncated quantile critics.

    Args:
        parts: arguments of Losses; the critics have quantiles.
        dropped: number of the largest quantiles that the targets drop, for each critic.
    """

    def __init__(self, *parts: Any, dropped: int) -> None:
        super().__init__(*parts)
        self._dropped = dropped

    def prepare(self, batch: Batch) -> Batch:
        batch = batch | views(self._policy, batch)
        actions, logp = self._policy.head.sample(self._policy.act(batch["next"]), batch["noise_next"])
        kept = truncated(self._target.quantiles(batch["next"], actions), self._dropped)
        return batch | {"targets": targets(batch, kept - self.temperature() * logp[:, None])}

    def critic_loss(self, batch: Batch) -> tuple[tf.Tensor, Statistics]:
        return quantile_errors(batch, self._policy.quantiles(batch["now"], batch["actions"]))

    def _value(self, view: View, noise: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
        actions, logp = self._policy.head.sample(self._policy.act(view), noise)
        return tf.reduce_mean(tf.stack(self._policy.q(view, actions)), axis=0), logp


def quantile_errors(batch: Batch, every: list[tf.Tensor]) -> tuple[tf.Tensor, Statistics]:
    """Return the mean quantile Huber loss of critics' quantiles [B, M] at the targets, and their statistics."""
    losses = [weighted_mean(batch, quantile_huber(q, batch["targets"]) / q.shape[1]) for q in every]
    values = [tf.reduce_mean(quantiles, axis=1) for quantiles in every]
    statistics = {f"LossQ{i}": loss for i, loss in enumerate(losses, 1)} | spreads(batch, values)
    means = batch | {"targets": tf.reduce_mean(batch["targets"], axis=1)}
    return tf.add_n(losses) / len(losses), statistics | td_errors(means, values[0])


def truncated(quantiles: list[tf.Tensor], dropped: int) -> tf.Tensor:
    """Join the quantiles [B, M] of N critics, sort them, and leave out the `dropped` N largest of each row."""
    joined = tf.concat(quantiles, axis=1)
    return tf.sort(joined, axis=1)[:, : joined.shape[1] - dropped * len(quantiles)]
