"""Critics whose values are low away from a data set: CQL(H)'s penalty and its weight, for learning offline."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.errors import given
from tfbaselines.losses.offline import conservative_gaps, sampled_actions
from tfbaselines.optim.blocks import Batch, Statistics
from tfbaselines.policy.actor_critic import ActorCritic

# Unless others are given.
WEIGHT, ACTIONS = 5.0, 10

# Of the learnt weight.
LARGEST_WEIGHT = 1e6


class Conservatism:
    """The penalty of the critics; see `conservative_gaps` in losses/offline.py.

    A learnt weight descends -log weight (gap - threshold) beside the critics: it grows while their mean penalty is
    above the threshold.

    Attributes:
        columns: its statistics.

    Args:
        policy: the critics' policy, which also proposes actions.
        weight: of the penalty; at the start, where it is learnt.
        threshold: the penalty for which the weight is learnt; None to leave it as it is.
        actions: drawn of each kind for the estimate of a row's integral.
    """

    columns = ("LossCQL", "CQLWeight")

    def __init__(
        self, policy: ActorCritic, weight: float = WEIGHT, threshold: float | None = None, actions: int = ACTIONS
    ) -> None:
        self._policy, self._threshold, self._actions = policy, threshold, actions
        self._log_weight = keras.Variable(np.float32(np.log(weight) if weight else -np.inf), name="log_cql_weight")

    @property
    def variables(self) -> list[keras.Variable]:
        """The logarithm of a learnt weight, which is learnt with the critics; a given one is not of the model."""
        return [] if self._threshold is None else [self._log_weight]

    def draw(self, rng: np.random.Generator, rows: tuple[int, ...]) -> dict[str, np.ndarray]:
        """What the actions of a block are drawn with.

        Args:
            rng: generator.
            rows: [K, B], the rows of its batches.
        """
        if self._policy.discrete:
            return {}
        shape, head = (*rows, self._actions), self._policy.head
        uniform = 2.0 * rng.random((*shape, head.width), np.float32) - 1.0
        return {"uniform": uniform, "noise_several": head.draw_noise(rng, shape)}

    def prepared(self, batch: Batch) -> Batch:
        """What a batch needs beside its views: actions and their log densities."""
        if self._policy.discrete:
            return {}
        drawn = sampled_actions(self._policy, batch["now"], batch["uniform"], batch["noise_several"])
        return dict(zip(("sampled", "log_density"), drawn, strict=True))

    def __call__(self, batch: Batch, values: list[tf.Tensor]) -> tuple[tf.Tensor, Statistics]:
        """What the critics, and a learnt weight, descend beside their errors, and its statistics.

        Args:
            batch: with views, and what `prepared` gave.
            values: of the data's actions, [B] of each critic.
        """
        gaps = conservative_gaps(self._policy, batch, values)
        log_weight, gap = self._log_weight.value, tf.add_n(gaps) / len(gaps)
        weight = tf.minimum(tf.stop_gradient(tf.exp(log_weight)), LARGEST_WEIGHT)
        loss = weight * tf.add_n(gaps)
        if self._threshold is not None:
            loss -= log_weight * tf.stop_gradient(gap - self._threshold)
        return loss, {"LossCQL": gap, "CQLWeight": weight}


def conservatism(policy: ActorCritic, config: Any) -> Conservatism | None:
    """The penalty of a run that learns offline; None for any other run.

    Args:
        policy: the critics'.
        config: has offline, cql_weight, cql_threshold and cql_actions.
    """
    if config.offline is None:
        return None
    own = given(weight=config.cql_weight, threshold=config.cql_threshold, actions=config.cql_actions)
    return Conservatism(policy, **own)
