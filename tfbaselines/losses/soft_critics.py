"""The critics of SAC: what they are worth to the actor, and what they descend; see algs/sac.py."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.losses.entropy import expectation
from tfbaselines.losses.off_policy import Batch, spread, targets, td_errors, weighted_mean
from tfbaselines.policy.actor_critic import ActorCritic, View

Statistics = dict[str, tf.Tensor]


class SoftCritics:
    """Two critics of the environment's rewards. Subclasses have other critics, or descend on more.

    Attributes:
        columns: names of statistics beside those of all critics, for the logs.

    Args:
        policy: an actor with two critics.
        target: its targets, of which the critics are used.
    """

    columns: tuple[str, ...] = ()

    def __init__(self, policy: ActorCritic, target: ActorCritic) -> None:
        self._policy, self._target = policy, target

    @property
    def variables(self) -> list[keras.Variable]:
        """What the critics' loss changes beside their networks."""
        return []

    def draw(self, rng: np.random.Generator, rows: tuple[int, int]) -> dict[str, np.ndarray]:
        """What a block needs beside its experience, such as the noise of actions: arrays [K, B, ...].

        Args:
            rng: generator.
            rows: [K, B], the rows of its batches.
        """
        if self._policy.discrete:
            return {}
        return {name: self._policy.head.draw_noise(rng, rows) for name in ("noise", "noise_next")}

    def prepared(self, batch: Batch, temperature: tf.Tensor) -> dict[str, Any]:
        """What is no part of a gradient: 'targets' at least.

        Args:
            batch: with views 'now' and 'next', rewards and discount [B].
            temperature: alpha.
        """
        value, logp = expectation(self._policy, self._target, batch["next"], batch.get("noise_next"))
        return {"targets": targets(batch, value - temperature * logp)}

    def value(self, view: View, noise: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
        """What the actor ascends, without entropy [B], and log pi [B]; see `expectation`."""
        return expectation(self._policy, self._policy, view, noise)

    def loss(self, batch: Batch) -> tuple[tf.Tensor, Statistics]:
        """What the critics descend, and its statistics.

        Args:
            batch: with what `prepared` gave.
        """
        return self._squared_errors(batch, self._policy.q(batch["now"], batch["actions"]))

    def _squared_errors(self, batch: Batch, values: list[tf.Tensor]) -> tuple[tf.Tensor, Statistics]:
        q1, q2 = values
        loss1, loss2 = (0.5 * weighted_mean(batch, tf.square(q - batch["targets"])) for q in (q1, q2))
        statistics = {"LossQ1": loss1, "LossQ2": loss2} | td_errors(batch, q1)
        return loss1 + loss2, statistics | spread("Q1Vals", batch, q1) | spread("Q2Vals", batch, q2)
