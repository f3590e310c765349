"""SAC with CrossQ's critics (Bhatt et al. 2024, arXiv:1902.05605): learn/crossq.py has them and their joint pass.

The actor moves in every third step, a' ~ pi(s'), and y is cut off from gradients.
"""

from typing import Any

import tensorflow as tf

from tfbaselines.algs.sac.loss import Losses, squared_errors
from tfbaselines.algs.sac.tqc import mean_value, quantile_errors, truncated
from tfbaselines.learn.crossq import StatisticsRule, joint_rule, joint_values
from tfbaselines.learn.losses import Batch, Statistics, targets, views
from tfbaselines.learn.optimizers import Optimizer
from tfbaselines.policy.actor_critic import View


class JointLosses(Losses):
    """SAC's losses with the joint pass of CrossQ; for the arguments see Losses."""

    has_targets = False

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._statistics_rule = StatisticsRule()
        self.critic_rule = self._statistics_rule

    def rule(self) -> Optimizer:
        return joint_rule()

    def prepare(self, batch: Batch) -> Batch:
        batch = batch | views(self._policy, batch)
        actions, logp = self._policy.head.sample(self._policy.act(batch["next"]), batch["noise_next"])
        return batch | {"next_actions": actions, "next_logp": logp}

    def critic_loss(self, batch: Batch) -> tuple[tf.Tensor, Statistics]:
        *both, penalty = joint_values(self._policy, batch, self._statistics_rule.warm)
        now, following = ([q[:, 0] for q in each] for each in both)
        soft = self._policy.least(following) - self.temperature() * batch["next_logp"]
        batch = batch | {"targets": tf.stop_gradient(targets(batch, soft))}
        loss, statistics = squared_errors(batch, now)
        return loss + penalty, statistics


class JointQuantileLosses(JointLosses):
    """The joint pass with TQC's quantiles in the critics.

    Args:
        parts: arguments of Losses; the critics have quantiles.
        dropped: number of the largest quantiles that the targets drop, for each critic.
    """

    def __init__(self, *parts: Any, dropped: int) -> None:
        super().__init__(*parts)
        self._dropped = dropped

    def critic_loss(self, batch: Batch) -> tuple[tf.Tensor, Statistics]:
        now, following, penalty = joint_values(self._policy, batch, self._statistics_rule.warm)
        soft = truncated(following, self._dropped) - self.temperature() * batch["next_logp"][:, None]
        loss, statistics = quantile_errors(batch | {"targets": tf.stop_gradient(targets(batch, soft))}, now)
        return loss + penalty, statistics

    def _value(self, view: View, noise: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
        return mean_value(self._policy, view, noise)
