"""The critics of SAC: what they are worth to the actor, and what they descend; see algs/sac.py.

Soft values: expectations over a policy's actions, and the entropy that a temperature is learnt for.

The weight of the policy's entropy, which may be learnt for a given entropy (Haarnoja et al. 2018).
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.envs.vec.observations import MASK as ACTION_MASK
from tfbaselines.learn.losses import Batch, spread, targets, td_errors, weighted_mean
from tfbaselines.policy.actor_critic import ActorCritic, View

# Share of the largest entropy of discrete actions that a temperature is learnt for.
DISCRETE_ENTROPY = 0.2


def expectation(
    policy: ActorCritic, critics: ActorCritic, view: View, noise: tf.Tensor | None
) -> tuple[tf.Tensor, tf.Tensor]:
    """The smallest of the critics' values [B] and log pi [B], expected over the policy's actions.

    Critics of K reward signals have values [B, K]. Of continuous actions one is drawn, of discrete ones the expectation
    is exact.

    Args:
        policy: whose actions.
        critics: who value them.
        view: the observations.
        noise: [B, n] to draw with; not used for discrete actions.
    """
    flat = policy.act(view)
    if not policy.discrete:
        actions, logp = policy.head.sample(flat, noise)
        return critics.least(critics.q(view, actions)), logp
    logp = policy.log_probabilities(flat)
    probabilities = tf.exp(logp)
    values = critics.least(critics.q_all(view))
    weights = probabilities if critics.streams is None else probabilities[:, :, None]
    return tf.reduce_sum(weights * values, axis=1), tf.reduce_sum(probabilities * logp, axis=1)


def allowed_share(policy: ActorCritic, view: View) -> tf.Tensor | float:
    """Largest entropy [B] of the actions that masks allow, as a share of the largest of all actions; 1 without masks.

    A target entropy that counts actions which are not allowed cannot be reached, and a temperature learnt for it grows
    without bound.
    """
    if not policy.masked:
        return 1.0
    space = policy.action_space
    widths = [int(space.n)] if isinstance(space, spaces.Discrete) else space.nvec.ravel().tolist()
    parts = tf.split(tf.cast(view.encoded[ACTION_MASK], tf.float32), widths, axis=-1)
    allowed = [tf.math.log(tf.maximum(tf.reduce_sum(part, axis=-1), 1.0)) for part in parts]
    return tf.add_n(allowed) / max(float(np.sum(np.log(widths))), 1e-6)


def default_target_entropy(space: spaces.Space) -> float:
    """Minus the number of continuous actions, or a part of the greatest entropy of discrete ones."""
    if isinstance(space, spaces.Box):
        return -float(np.prod(space.shape))
    choices = [space.n] if isinstance(space, spaces.Discrete) else space.nvec.ravel()
    return DISCRETE_ENTROPY * float(np.sum(np.log(choices)))


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


class Temperature:
    """The weight of the entropy.

    Args:
        alpha: its value at the start.
        target_entropy: entropy for which it is learnt; None to leave it as it is.
    """

    def __init__(self, alpha: float, target_entropy: float | None = None) -> None:
        self.learnt, self.target_entropy, self._alpha = target_entropy is not None, target_entropy, alpha
        self.log_alpha = keras.Variable(_log(alpha), name="log_alpha")

    @property
    def variables(self) -> list[keras.Variable]:
        """Its logarithm where it is learnt; a given one does not belong to the model."""
        return [self.log_alpha] if self.learnt else []

    def __call__(self) -> tf.Tensor:
        """alpha, cut off from gradients."""
        return tf.stop_gradient(tf.exp(self.log_alpha.value))

    def follow(self, alpha: float) -> None:
        """Take a new value, unless it is learnt."""
        if not self.learnt and alpha != self._alpha:
            self._alpha = alpha
            self.log_alpha.assign(_log(alpha))

    def loss(self, gap: tf.Tensor) -> tf.Tensor:
        """-log alpha (log pi + target_entropy), given the mean of what is in brackets."""
        return -self.log_alpha.value * tf.stop_gradient(gap)


def _log(alpha: float) -> np.float32:
    return np.float32(np.log(alpha) if alpha else -np.inf)
