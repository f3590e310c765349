"""The losses of DDPG (Lillicrap et al. 2016, arXiv:1509.02971), with baselines' additions and TD3's.

Popart (van Hasselt et al. 2016, arXiv:1602.07714): critics predict in units of running statistics of returns, and are
rescaled when the statistics change, so that their predictions stay the same.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.algs.ddpg import Config
from tfbaselines.learn.engine import Merged
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
from tfbaselines.policy.bounded import BoundedHead


def target_noise(
    head: BoundedHead, config: Config, rng: np.random.Generator, rows: tuple[int, int]
) -> dict[str, np.ndarray]:
    """Draw TD3's noise [K, B, n] on the target's actions, clipped; nothing if its standard deviation is 0."""
    if not config.target_noise:
        return {}
    noise = config.target_noise * head.draw_noise(rng, rows)
    return {"noise": head.limit * np.clip(noise, -config.noise_clip, config.noise_clip)}


class Losses:
    """The losses of an actor and its one critic or two.

    Critics may predict in units of running statistics, see ReturnStatistics; y and the statistics are plain returns.
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
        statistics = self._policy.returns
        goal = statistics.normalized(batch["targets"]) if statistics else batch["targets"]
        goal = tf.stop_gradient(self._clipped(goal))
        qs = self._policy.q(batch["now"], batch["actions"])
        loss = tf.add_n([weighted_mean(batch, tf.square(q - goal)) for q in qs])
        kernels = [kernel.value for critic in self._policy.critics for kernel in critic.kernels]
        if self._l2 and kernels:
            loss += self._l2 * tf.add_n([tf.nn.l2_loss(kernel) for kernel in kernels])
        return loss, {"loss_critic": loss} | td_errors(batch, self._policy.returns_of(qs[0]))

    def actor_loss(self, batch: Batch) -> tuple[tf.Tensor, Statistics]:
        """Return -E[q_1(s, pi(s))]."""
        q, *_ = self._policy.q(batch["now"], self._policy.head.mode(self._policy.act(batch["now"])))
        loss = -mean(batch, self._policy.returns_of(self._clipped(q)))
        return loss, {"loss_actor": loss}

    def _clipped(self, values: tf.Tensor) -> tf.Tensor:
        return tf.clip_by_value(values, *self._return_range)


# Initial count and sum of squares, and the least variance.
EPSILON = 1e-2
# Added to the standard deviation in divisions.
TINY = 1e-8


class ReturnStatistics:
    """Mean and standard deviation of all returns that the ranks saw, from running sums (float64; results float32)."""

    def __init__(self, ranks: int = 1) -> None:
        self._ranks = ranks
        self._sums = tf.Variable([0.0, EPSILON, EPSILON], dtype=tf.float64, trainable=False)
        self.variables = [self._sums]

    @property
    def mean(self) -> tf.Tensor:
        """Mean []."""
        return tf.cast(self._sums[0] / self._sums[2], tf.float32)

    @property
    def std(self) -> tf.Tensor:
        """Standard deviation [], at least 0.1."""
        squares = tf.cast(self._sums[1] / self._sums[2], tf.float32)
        return tf.sqrt(tf.maximum(squares - tf.square(self.mean), EPSILON))

    def normalized(self, x: tf.Tensor) -> tf.Tensor:
        """Standardize returns."""
        return (x - self.mean) / (self.std + TINY)

    def denormalized(self, x: tf.Tensor) -> tf.Tensor:
        """Undo `normalized`."""
        return x * self.std + self.mean

    def sums(self, returns: tf.Tensor) -> tf.Tensor:
        """Return sum, sum of squares and count [3] of a batch of returns."""
        values = tf.cast(returns, tf.float64)
        parts = [tf.reduce_sum(values), tf.reduce_sum(tf.square(values)), tf.cast(tf.size(values), tf.float64)]
        return tf.cast(tf.stack(parts), tf.float32)

    def take(self, sums: tf.Tensor) -> None:
        """Take in what `sums` returned, averaged over ranks."""
        self._sums.assign_add(tf.cast(sums, tf.float64) * self._ranks)

    def observe(self, returns: tf.Tensor, comm: Any) -> None:
        """Take in one batch of returns from every rank."""
        self.take(tf.constant(comm.average(self.sums(returns).numpy())))

    def state(self) -> np.ndarray:
        return self._sums.numpy()

    def restore(self, state: Any) -> None:
        self._sums.assign(state)


def rescaled(statistics: ReturnStatistics, layers: list[keras.layers.Dense], change: Any, *arguments: Any) -> None:
    """Call change(*arguments) on the statistics, and rescale critics' output layers: predictions stay the same."""
    mean, std = statistics.mean, statistics.std
    change(*arguments)
    new_mean, new_std = statistics.mean, statistics.std
    for layer in layers:
        layer.kernel.assign(layer.kernel.value * (std / new_std))
        layer.bias.assign((layer.bias.value * std + mean - new_mean) / new_std)


def rescaling(policy: ActorCritic, target: ActorCritic) -> Merged:
    """Make the part of a gradient step that updates the statistics of returns and rescales all critics."""
    returns = policy.returns
    layers = [critic.layer for network in (policy, target) for critic in network.critics]
    return Merged(
        lambda batch: returns.sums(batch["targets"]), lambda sums: rescaled(returns, layers, returns.take, sums)
    )
