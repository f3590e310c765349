"""Critics whose values are low away from a data set: CQL(H)'s penalty and its weight, for learning offline."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.algs.sac.loss import SoftCritics, Statistics
from tfbaselines.learn.losses import Batch, conservative_gaps, sampled_actions
from tfbaselines.policy.actor_critic import ActorCritic

# Unless others are given.
WEIGHT, ACTIONS = 5.0, 10

# Of the learnt weight.
LARGEST_WEIGHT = 1e6


class ConservativeCritics(SoftCritics):
    """Critics that also descend a penalty; see `conservative_gaps` in learn/losses.py.

    A learnt weight descends -log weight (gap - threshold) beside the critics: it grows while their mean penalty is
    above the threshold.

    Args:
        policy: an actor with two critics, which also proposes actions.
        target: its targets, of which the critics are used.
        weight: of the penalty; at the start, where it is learnt.
        threshold: the penalty for which the weight is learnt; None to leave it as it is.
        actions: drawn of each kind for the estimate of a row's integral.
    """

    columns = ("LossCQL", "CQLWeight")

    def __init__(
        self,
        policy: ActorCritic,
        target: ActorCritic,
        weight: float = WEIGHT,
        threshold: float | None = None,
        actions: int = ACTIONS,
    ) -> None:
        super().__init__(policy, target)
        self._threshold, self._actions = threshold, actions
        self._log_weight = keras.Variable(np.float32(np.log(weight) if weight else -np.inf), name="log_cql_weight")

    @property
    def variables(self) -> list[keras.Variable]:
        """The logarithm of a learnt weight, which is learnt with the critics; a given one is not of the model."""
        return [] if self._threshold is None else [self._log_weight]

    def draw(self, rng: np.random.Generator, rows: tuple[int, int]) -> dict[str, np.ndarray]:
        """What the actions of a block are drawn with; see SoftCritics."""
        plain = super().draw(rng, rows)
        if self._policy.discrete:
            return plain
        shape, head = (*rows, self._actions), self._policy.head
        uniform = 2.0 * rng.random((*shape, head.width), np.float32) - 1.0
        return plain | {"uniform": uniform, "noise_several": head.draw_noise(rng, shape)}

    def prepared(self, batch: Batch, temperature: tf.Tensor) -> dict[str, Any]:
        """Targets, and sampled actions with their log densities; see SoftCritics."""
        plain = super().prepared(batch, temperature)
        if self._policy.discrete:
            return plain
        drawn = sampled_actions(self._policy, batch["now"], batch["uniform"], batch["noise_several"])
        return plain | dict(zip(("sampled", "log_density"), drawn, strict=True))

    def loss(self, batch: Batch) -> tuple[tf.Tensor, Statistics]:
        """Squared errors, the weighted penalty, and what a learnt weight descends; see SoftCritics."""
        values = self._policy.q(batch["now"], batch["actions"])
        errors, statistics = self._squared_errors(batch, values)
        gaps = conservative_gaps(self._policy, batch, values)
        log_weight, gap = self._log_weight.value, tf.add_n(gaps) / len(gaps)
        weight = tf.minimum(tf.stop_gradient(tf.exp(log_weight)), LARGEST_WEIGHT)
        loss = errors + weight * tf.add_n(gaps)
        if self._threshold is not None:
            loss -= log_weight * tf.stop_gradient(gap - self._threshold)
        return loss, statistics | {"LossCQL": gap, "CQLWeight": weight}
