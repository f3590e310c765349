"""The losses of DDPG (Lillicrap et al. 2016, arXiv:1509.02971), with baselines' additions and TD3's."""

import numpy as np
import tensorflow as tf

from tfbaselines.algs.ddpg import Config
from tfbaselines.learn.losses import (
    Batch,
    Statistics,
    mean,
    target_actions,
    targets,
    td_errors,
    views,
    weighted_mean,
)
from tfbaselines.policy.actor_critic import ActorCritic
from tfbaselines.policy.distributions import BoundedHead


def target_noise(
    head: BoundedHead, config: Config, rng: np.random.Generator, rows: tuple[int, int]
) -> dict[str, np.ndarray]:
    """Draw TD3's noise [K, B, n] on the target's actions, clipped; nothing if its standard deviation is 0.

    Args:
        head: the policy's head, with the bounds of actions.
        config: the arguments, with the present values of schedules.
        rng: numpy generator.
        rows: the shape [K, B] of a block of batches.
    """
    if not config.target_noise:
        return {}
    noise = config.target_noise * head.draw_noise(rng, rows)
    return {"noise": head.limit * np.clip(noise, -config.noise_clip, config.noise_clip)}


class Losses:
    """The losses of actor and critics.

    Critics may predict returns in units of running statistics, see popart.py; y and the statistics are plain returns.

    Args:
        policy: an actor with one critic or two.
        target: the target networks.
        config: the arguments.
    """

    def __init__(self, policy: ActorCritic, target: ActorCritic, config: Config) -> None:
        self._policy = policy
        self._target = target
        self._l2 = config.critic_l2_reg
        self._return_range = config.return_range or (-np.inf, np.inf)

    def prepare(self, batch: Batch) -> Batch:
        """Compute the targets y = r + gamma (1 - d) min_i q_i'(s', pi'(s')); TD3 adds noise to pi'."""
        batch = batch | views(self._policy, batch)
        actions = target_actions(self._target, batch["next"], batch.get("noise"))
        value = tf.reduce_min(tf.stack(self._target.q(batch["next"], actions)), axis=0)
        return batch | {"targets": targets(batch, self._policy.returns_of(value))}

    def critic_loss(self, batch: Batch) -> tuple[tf.Tensor, Statistics]:
        """Return sum_i E[(q_i(s, a) - y)^2] + critic_l2_reg / 2 |W|^2."""
        goal = tf.stop_gradient(self._clipped(self._normalized(batch["targets"])))
        qs = self._policy.q(batch["now"], batch["actions"])
        loss = tf.add_n([weighted_mean(batch, tf.square(q - goal)) for q in qs])
        if self._l2:
            kernels = [kernel.value for critic in self._policy.critics for kernel in critic.kernels]
            loss += self._l2 * tf.add_n([tf.nn.l2_loss(kernel) for kernel in kernels])
        return loss, {"loss_critic": loss} | td_errors(batch, self._policy.returns_of(qs[0]))

    def actor_loss(self, batch: Batch) -> tuple[tf.Tensor, Statistics]:
        """Return -E[q_1(s, pi(s))]."""
        q, *_ = self._policy.q(batch["now"], self._policy.head.mode(self._policy.act(batch["now"])))
        loss = -mean(batch, self._policy.returns_of(self._clipped(q)))
        return loss, {"loss_actor": loss}

    def _normalized(self, returns: tf.Tensor) -> tf.Tensor:
        statistics = self._policy.returns
        return statistics.normalized(returns) if statistics else returns

    def _clipped(self, values: tf.Tensor) -> tf.Tensor:
        return tf.clip_by_value(values, *self._return_range)
