"""SAC with CrossQ's critics (Bhatt et al. 2024, arXiv:1902.05605): learn/crossq.py has them and their joint pass.

The actor moves in every third step, a' ~ pi(s'), and y is cut off from gradients.
"""

from typing import Any

import tensorflow as tf

from tfbaselines.algs.sac.loss import Losses, squared_errors
from tfbaselines.algs.sac.tqc import QuantileLosses, quantile_errors, truncated
from tfbaselines.learn.crossq import StatisticsRule, joint_quantiles, joint_rule, joint_values
from tfbaselines.learn.losses import Batch, Statistics, targets, views
from tfbaselines.learn.optimizers import Optimizer


class JointLosses(Losses):
    """SAC's losses with the joint pass of CrossQ; for the arguments see Losses."""

    has_targets = False

    critic_rule: StatisticsRule

    def __init__(self, *parts: Any, **own: Any) -> None:
        super().__init__(*parts, **own)
        self.critic_rule = StatisticsRule()

    def rule(self) -> Optimizer:
        return joint_rule()

    def prepare(self, batch: Batch) -> Batch:
        batch = batch | views(self._policy, batch)
        actions, logp = self._policy.head.sample(self._policy.act(batch["next"]), batch["noise_next"])
        return batch | {"next_actions": actions, "next_logp": logp}

    def critic_loss(self, batch: Batch) -> tuple[tf.Tensor, Statistics]:
        now, following, penalty = joint_values(self._policy, batch, self.critic_rule.warm)
        soft = self._policy.least(following) - self.temperature() * batch["next_logp"]
        batch = batch | {"targets": tf.stop_gradient(targets(batch, soft))}
        loss, statistics = squared_errors(batch, now)
        return loss + penalty, statistics


class JointQuantileLosses(JointLosses, QuantileLosses):
    """The joint pass with TQC's quantiles in the critics; for the arguments see QuantileLosses."""

    def critic_loss(self, batch: Batch) -> tuple[tf.Tensor, Statistics]:
        now, following, penalty = joint_quantiles(self._policy, batch, self.critic_rule.warm)
        soft = truncated(following, self._dropped) - self.temperature() * batch["next_logp"][:, None]
        loss, statistics = quantile_errors(batch | {"targets": tf.stop_gradient(targets(batch, soft))}, now)
        return loss + penalty, statistics
