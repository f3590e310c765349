"""The losses of HER: DDPG as in baselines, and cloning of demonstrations (Nair et al. 2018, arXiv:1709.10089)."""

import numpy as np
import tensorflow as tf

from tfbaselines.algs.her import Config
from tfbaselines.algs.her.goal import GoalActorCritic
from tfbaselines.learn.losses import Batch, Statistics, target_actions, targets, views


class Losses:
    """The losses of actor and critic.

    Args:
        policy: the actor with its critic.
        target: the target networks.
        config: the arguments.
        least_return: lower bound of the critic's targets.
    """

    def __init__(self, policy: GoalActorCritic, target: GoalActorCritic, config: Config, least_return: float) -> None:
        self._policy = policy
        self._target = target
        self._config = config
        self._least_return = least_return
        self._most_return = 0.0 if config.clip_pos_returns else np.inf

    def prepare(self, batch: Batch) -> Batch:
        """Compute the targets y = clip(r + gamma (1 - d) q'(s', g, pi'(s', g)), -1 / (1 - gamma), 0)."""
        batch = batch | views(self._policy, batch)
        (value,) = self._target.q(batch["next"], target_actions(self._target, batch["next"], None))
        return batch | {"targets": tf.clip_by_value(targets(batch, value), self._least_return, self._most_return)}

    def critic_loss(self, batch: Batch) -> tuple[tf.Tensor, Statistics]:
        """Return E[(q(s, g, a) - y)^2]."""
        (q,) = self._policy.q(batch["now"], batch["actions"])
        loss = tf.reduce_mean(tf.square(batch["targets"] - q))
        return loss, {"Q_loss": loss}

    def actor_loss(self, batch: Batch) -> tuple[tf.Tensor, Statistics]:
        """Return -E[q(s, g, pi(s, g))] + action_l2 E[pi(s, g)^2], actions in units of their bounds."""
        loss, _, _ = self._ddpg_loss(batch)
        return loss, {"pi_loss": loss}

    def _ddpg_loss(self, batch: Batch) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return the actor's loss, pi(s, g) and q(s, g, pi(s, g))."""
        actions = self._policy.head.mode(self._policy.act(batch["now"]))
        (q_pi,) = self._policy.q(batch["now"], actions)
        size = tf.reduce_mean(tf.square(self._policy.head.unit(actions)))
        return -tf.reduce_mean(q_pi) + self._config.action_l2 * size, actions, q_pi


class CloningLosses(Losses):
    """The losses with bc_loss: the last demo_batch_size rows of every batch are demonstrations."""

    def actor_loss(self, batch: Batch) -> tuple[tf.Tensor, Statistics]:
        """Return prm_loss_weight (DDPG's loss) + aux_loss_weight sum |pi(s, g) - a|^2 over the demonstrations."""
        loss, actions, q_pi = self._ddpg_loss(batch)
        cloning = self._cloning_loss(batch, actions, q_pi)
        loss = self._config.prm_loss_weight * loss + self._config.aux_loss_weight * cloning
        return loss, {"pi_loss": loss, "cloning_loss": cloning}

    def _cloning_loss(self, batch: Batch, actions: tf.Tensor, q_pi: tf.Tensor) -> tf.Tensor:
        distances = tf.reshape(tf.square(actions - batch["actions"]), (-1, self._policy.head.width))
        counts = tf.ones_like(q_pi)
        if self._config.q_filter:
            # Only rows where the critic prefers the demonstrated action.
            (q,) = self._policy.q(batch["now"], batch["actions"])
            counts = tf.cast(q > q_pi, tf.float32)
        rows = tf.reduce_sum(distances, axis=-1) * tf.stop_gradient(counts)
        return tf.reduce_sum(rows[-self._config.demo_batch_size :])
