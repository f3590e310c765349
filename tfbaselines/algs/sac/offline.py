"""Conservative critics for learning from a data set alone: CQL(H) (Kumar et al. 2020, arXiv:2006.04779).

They keep values low for actions that the data set does not contain.
"""

import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.algs.sac.loss import Losses, squared_errors
from tfbaselines.learn.losses import Batch, Statistics, mean
from tfbaselines.policy.actor_critic import ActorCritic, View

# Defaults of cql_weight and cql_actions.
WEIGHT = 5.0
ACTIONS = 10

# Bound of a learned weight.
LARGEST_WEIGHT = 1e6


class ConservativeLosses(Losses):
    """SAC's losses, where the critics also minimize the penalty of `conservative_gaps`.

    A learned weight minimizes -log weight (gap - threshold) together with the critics: it grows while their mean
    penalty is above the threshold.

    Args:
        parts: arguments of Losses.
        weight: weight of the penalty, or its initial value if it is learned.
        threshold: penalty for which the weight is learned; None for a fixed weight.
        samples: number of uniform actions, and of the policy's, that estimate the penalty.
    """

    columns = ("LossCQL", "CQLWeight")

    def __init__(
        self, *parts: Any, weight: float = WEIGHT, threshold: float | None = None, samples: int = ACTIONS
    ) -> None:
        super().__init__(*parts)
        self._threshold = threshold
        self._samples = samples
        self._log_weight = keras.Variable(np.float32(np.log(weight) if weight else -np.inf), name="log_cql_weight")

    @property
    def variables(self) -> list[keras.Variable]:
        return [] if self._threshold is None else [self._log_weight]

    def noise(self, rng: np.random.Generator, rows: tuple[int, int]) -> dict[str, np.ndarray]:
        plain = super().noise(rng, rows)
        if self._policy.discrete:
            return plain
        shape = (*rows, self._samples)
        head = self._policy.head
        uniform = 2.0 * rng.random((*shape, head.width), np.float32) - 1.0
        return plain | {"uniform": uniform, "noise_several": head.draw_noise(rng, shape)}

    def prepare(self, batch: Batch) -> Batch:
        batch = super().prepare(batch)
        if self._policy.discrete:
            return batch
        sampled, density = sampled_actions(self._policy, batch["now"], batch["uniform"], batch["noise_several"])
        return batch | {"sampled": sampled, "log_density": density}

    def critic_loss(self, batch: Batch) -> tuple[tf.Tensor, Statistics]:
        values = self._policy.q(batch["now"], batch["actions"])
        errors, statistics = squared_errors(batch, values)
        gaps = conservative_gaps(self._policy, batch, values)
        log_weight = self._log_weight.value
        gap = tf.add_n(gaps) / len(gaps)
        weight = tf.minimum(tf.stop_gradient(tf.exp(log_weight)), LARGEST_WEIGHT)
        loss = errors + weight * tf.add_n(gaps)
        if self._threshold is not None:
            loss -= log_weight * tf.stop_gradient(gap - self._threshold)
        return loss, statistics | {"LossCQL": gap, "CQLWeight": weight}


def sampled_actions(
    policy: ActorCritic, view: View, uniform: tf.Tensor, noise: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Draw continuous actions [B, 2N, ...], N uniform ones and N of the policy, with the log density [B, 2N] of each.

    The first are scaled from uniform numbers [B, N, n] in -1..1, the others drawn with noise [B, N, n].
    """
    head, (_, count, width) = policy.head, uniform.shape
    flat = tf.repeat(policy.act(view), count, axis=0)
    drawn, logp = head.sample(flat, tf.reshape(noise, (-1, width)))
    spread_evenly = head.scaled(tf.reshape(uniform, (-1, width)))
    actions = [tf.reshape(one, (-1, count, *head.action_shape)) for one in (spread_evenly, drawn)]
    logp = tf.reshape(logp, (-1, count))
    return tf.concat(actions, axis=1), tf.concat([tf.fill(tf.shape(logp), -width * math.log(2.0)), logp], axis=1)


def conservative_gaps(policy: ActorCritic, batch: Batch, values: list[tf.Tensor]) -> list[tf.Tensor]:
    """Return each critic's penalty E[log sum_a exp Q(s, a) - Q(s, a_data)].

    With continuous actions the sum is an integral, estimated by samples: log E[exp(Q(s, a)) / density(a)].

    Args:
        policy: actor with critics.
        batch: view 'now' and the data's actions; continuous actions need the `sampled_actions` and their density too.
        values: each critic's values [B] of the data's actions.
    """
    view = batch["now"]
    if policy.discrete:
        # The values of several simultaneous choices are added, so the sum factorizes.
        chosen = policy.choices(batch["actions"])
        return [-mean(batch, tf.reduce_sum(chosen * policy.log_probabilities(q), axis=-1)) for q in policy.q_all(view)]
    density = batch["log_density"]
    count = np.float32(math.log(density.shape[1]))
    every = policy.q_of_several(view, batch["sampled"])
    soft = [tf.reduce_logsumexp(q - density, axis=1) - count for q in every]
    return [mean(batch, high - value) for high, value in zip(soft, values, strict=True)]
