"""Soft critics of several reward signals: each signal has its own pair, discount and rewards; see algs/sac.py.

The critics q_k1, q_k2 of signal k, of strength c_k, descend 0.5 (q_ki(s, a) - y_k)^2 towards

    y_k = r_k + gamma_k (1 - d_k) (min_i q_ki'(s', a') - alpha log pi(a'|s') / sum_j c_j),   a' ~ pi(s')

and the actor ascends sum_k c_k min_i q_ki(s, a) - alpha log pi(a|s). With equal discounts that sum is the soft value of
the rewards sum_k c_k r_k.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfbaselines.losses.entropy import expectation
from tfbaselines.losses.off_policy import Batch, mean, spread, targets
from tfbaselines.losses.soft_critics import SoftCritics, Statistics
from tfbaselines.policy.actor_critic import ActorCritic, View


class SignalCritics(SoftCritics):
    """The critics of K reward signals.

    Args:
        policy: an actor with two critics for each signal.
        target: its targets.
        names: of the signals, in the order of their critics.
        strengths: of each signal.
        goes_on: of each signal, whether its returns go on in the next episode.
    """

    def __init__(
        self,
        policy: ActorCritic,
        target: ActorCritic,
        names: Sequence[str],
        strengths: Sequence[float],
        goes_on: Sequence[bool],
    ) -> None:
        super().__init__(policy, target)
        self._names = list(names)
        self._strengths, self._goes_on = np.float32(strengths), np.array(goes_on)
        total = float(np.sum(strengths))
        # Of the entropy in each signal's targets. Without any strength the actor ascends its own entropy alone.
        self._share = 1.0 / total if total else 0.0
        self.columns = tuple(f"{name}/{of}" for name in names for of in ("value", "q_loss"))

    def value(self, view: View, noise: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
        """The weighted sum [B] of the signals' values, and log pi [B]; see `expectation`."""
        values, logp = expectation(self._policy, self._policy, view, noise)
        return self._weighted(values), logp

    def prepared(self, batch: Batch, temperature: tf.Tensor) -> dict[str, Any]:
        """Returns [B, K] of each row as 'targets'.

        Args:
            batch: prepared, with rewards and discount [B, K], and `following` where returns go on in the next episode.
            temperature: alpha.
        """
        soft = self._soft_values(batch["next"], batch, temperature)
        if self._goes_on.any() and "following" in batch:
            following = self._soft_values(self._policy.view(batch["following"]), batch, temperature)
            soft = tf.where(self._goes_on, following, soft)
        columns = zip(*(tf.unstack(x, axis=-1) for x in (batch["rewards"], batch["discount"], soft)), strict=True)
        own = [batch | {"rewards": rewards, "discount": discount} for rewards, discount, _ in columns]
        return {"targets": tf.stack([targets(one, soft[:, k]) for k, one in enumerate(own)], axis=-1)}

    def loss(self, batch: Batch) -> tuple[tf.Tensor, Statistics]:
        """The sum of all critics' losses, and its statistics: of the weighted sums of values, and of each signal.

        Args:
            batch: prepared, with targets [B, K]; of sequences also `counts` [B, K], 1 for a signal's valid rows.
        """
        q = tf.stack(self._policy.q(batch["now"], batch["actions"]), axis=-1)
        pairs = tf.reshape(q, (-1, len(self._names), 2))
        statistics, losses = {}, []
        for k, name in enumerate(self._names):
            rows = batch | {"valid": batch["counts"][:, k]} if "counts" in batch else batch
            both = [0.5 * mean(rows, tf.square(pairs[:, k, i] - batch["targets"][:, k])) for i in range(2)]
            losses.append(both)
            value = mean(rows, tf.reduce_min(pairs[:, k], axis=-1))
            statistics |= {f"{name}/value": value, f"{name}/q_loss": tf.add_n(both)}
        loss1, loss2 = (tf.add_n(of_one) for of_one in zip(*losses, strict=True))
        q1, q2 = (self._weighted(pairs[:, :, i]) for i in range(2))
        statistics |= {"LossQ1": loss1, "LossQ2": loss2} | spread("Q1Vals", batch, q1) | spread("Q2Vals", batch, q2)
        return loss1 + loss2, statistics

    def _soft_values(self, view: View, batch: Batch, temperature: tf.Tensor) -> tf.Tensor:
        values, logp = expectation(self._policy, self._target, view, batch.get("noise_next"))
        return values - temperature * self._share * logp[:, None]

    def _weighted(self, values: tf.Tensor) -> tf.Tensor:
        return tf.linalg.matvec(values, self._strengths)
