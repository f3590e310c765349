"""The losses of SAC (Haarnoja et al. 2018, arXiv:1801.01290, arXiv:1812.05905).

Expectations over continuous actions are sampled; over discrete ones they are exact (Christodoulou 2019,
arXiv:1910.07207). offline.py and signals.py replace the critics' loss.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.envs.vec.observations import MASK as ACTION_MASK
from tfbaselines.learn.losses import Batch, Statistics, mean, spread, spreads, targets, td_errors, views, weighted_mean
from tfbaselines.learn.optimizers import Adam, Optimizer
from tfbaselines.policy.actor_critic import ActorCritic, View

ADAM_EPSILON = 1e-8


class Losses:
    """The losses of critics, actor and temperature.

    Attributes:
        temperature: alpha.
        critic_rule: rule by which the critics move.
        columns: names of statistics that only these critics have, for the logs.

    Args:
        policy: an actor with critics q_1, q_2.
        target: the target networks q_1', q_2'.
        temperature: alpha.
        actions: expectation over the policy's actions; None for SampledActions.
    """

    columns: tuple[str, ...] = ()
    # The target networks follow the critics after each step.
    has_targets = True

    def __init__(
        self, policy: ActorCritic, target: ActorCritic, temperature: "Temperature", actions: Any = None
    ) -> None:
        self._policy = policy
        self._target = target
        self.temperature = temperature
        self._actions = actions or SampledActions(policy)
        self.critic_rule = self.rule()

    @property
    def variables(self) -> list[keras.Variable]:
        """Variables that the critics' loss trains in addition to their networks."""
        return []

    def rule(self) -> Optimizer:
        """Make the rule by which a phase's variables move."""
        return Adam(epsilon=ADAM_EPSILON)

    def noise(self, rng: np.random.Generator, rows: tuple[int, int]) -> dict[str, np.ndarray]:
        """Draw the random numbers [K, B, ...] that a block of K batches needs."""
        return self._actions.noise(rng, rows)

    def prepare(self, batch: Batch) -> Batch:
        """Compute the targets y = r + gamma (1 - d) (min_i q_i'(s', a') - alpha log pi(a'|s')) with a' ~ pi(s')."""
        batch = batch | views(self._policy, batch)
        value, logp = self._actions.value(self._target, batch["next"], batch.get("noise_next"))
        return batch | {"targets": targets(batch, value - self.temperature() * logp)}

    def critic_loss(self, batch: Batch) -> tuple[tf.Tensor, Statistics]:
        """Return sum_i E[0.5 (q_i(s, a) - y)^2]."""
        return squared_errors(batch, self._policy.q(batch["now"], batch["actions"]))

    def actor_loss(self, batch: Batch) -> tuple[tf.Tensor, Statistics]:
        """Return E[alpha log pi(a|s) - min_i q_i(s, a)] with a ~ pi(s)."""
        value, logp = self._value(batch["now"], batch.get("noise"))
        loss = mean(batch, self.temperature() * logp - value)
        return loss, {"LossPi": loss} | spread("LogPi", batch, logp)

    def temperature_loss(self, batch: Batch) -> tuple[tf.Tensor, Statistics]:
        """Return -log alpha E[log pi(a|s) + target entropy] with a ~ pi(s)."""
        _, logp = self._value(batch["now"], batch.get("noise"))
        target_entropy = self._actions.target_entropy(self.temperature.target_entropy, batch["now"])
        loss = self.temperature.loss(mean(batch, logp + target_entropy))
        return loss, {"Alpha": self.temperature(), "LossAlpha": loss}

    def _value(self, view: View, noise: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
        return self._actions.value(self._policy, view, noise)


def squared_errors(batch: Batch, values: list[tf.Tensor]) -> tuple[tf.Tensor, Statistics]:
    """Return sum_i E[0.5 (q_i - y)^2] of critics' values [B], and their statistics."""
    losses = [0.5 * weighted_mean(batch, tf.square(q - batch["targets"])) for q in values]
    statistics = {f"LossQ{i}": loss for i, loss in enumerate(losses, 1)} | td_errors(batch, values[0])
    return tf.add_n(losses), statistics | spreads(batch, values)


class SampledActions:
    """Estimates expectations over a policy's continuous actions with one drawn action, as the paper does."""

    def __init__(self, policy: ActorCritic) -> None:
        self._policy = policy
        self.default_target_entropy = -float(np.prod(policy.action_space.shape))

    def noise(self, rng: np.random.Generator, rows: tuple[int, int]) -> dict[str, np.ndarray]:
        """Draw the noise [K, B, n] of the actions a and a' of a block of batches."""
        return {name: self._policy.head.draw_noise(rng, rows) for name in ("noise", "noise_next")}

    def value(self, critics: ActorCritic, view: View, noise: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
        """Draw a ~ pi(s) and return min_i q_i(s, a) and log pi(a|s), each [B]."""
        actions, logp = self._policy.head.sample(self._policy.act(view), noise)
        return critics.least(critics.q(view, actions)), logp

    def target_entropy(self, entropy: float, view: View) -> tf.Tensor | float:
        """Return the target entropy of each row [B]: the same for all."""
        return entropy


class Temperature:
    """The weight alpha of the entropy.

    Args:
        alpha: initial value.
        target_entropy: entropy for which alpha is learned; None for a given alpha.
    """

    def __init__(self, alpha: float, target_entropy: float | None = None) -> None:
        self.learned = target_entropy is not None
        self.target_entropy = target_entropy
        self._first = self._alpha = alpha
        self.log_alpha = keras.Variable(_log(alpha), name="log_alpha")
        # A given alpha is not part of the model.
        self.variables = [self.log_alpha] if self.learned else []

    def __call__(self) -> tf.Tensor:
        """Return alpha, cut off from gradients."""
        return tf.stop_gradient(tf.exp(self.log_alpha.value))

    def follow(self, alpha: float) -> None:
        """Take the present value of a schedule, unless alpha is learned."""
        if not self.learned and alpha != self._alpha:
            self._alpha = alpha
            self.log_alpha.assign(_log(alpha))

    def restart(self) -> None:
        """Go back to the initial value, if alpha is learned."""
        if self.learned:
            self.log_alpha.assign(_log(self._first))

    def loss(self, gap: tf.Tensor) -> tf.Tensor:
        """Return -log alpha (log pi + target entropy); the argument is the mean of the bracket."""
        return -self.log_alpha.value * tf.stop_gradient(gap)


def _log(alpha: float) -> np.float32:
    return np.float32(np.log(alpha) if alpha else -np.inf)


# The default target entropy as a share of the largest possible entropy.
DISCRETE_ENTROPY = 0.2


class Choices:
    """Computes expectations over a policy's discrete actions; replaces SampledActions."""

    def __init__(self, policy: ActorCritic) -> None:
        self._policy = policy
        space = policy.action_space
        # Number of choices in each part of an action.
        self._widths = [int(space.n)] if isinstance(space, spaces.Discrete) else space.nvec.ravel().tolist()
        self._largest_entropy = float(np.sum(np.log(self._widths)))
        self.default_target_entropy = DISCRETE_ENTROPY * self._largest_entropy

    def noise(self, rng: np.random.Generator, rows: tuple[int, int]) -> dict[str, np.ndarray]:
        """Draw nothing: the expectation is exact."""
        return {}

    def value(self, critics: ActorCritic, view: View, noise: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
        """Return E[min_i q_i(s, a)] and E[log pi(a|s)], each [B]; with K reward signals the former is [B, K]."""
        logp = self._policy.log_probabilities(self._policy.act(view))
        probabilities = tf.exp(logp)
        values = critics.least(critics.q_all(view))
        weights = probabilities if critics.streams is None else probabilities[:, :, None]
        return tf.reduce_sum(weights * values, axis=1), tf.reduce_sum(probabilities * logp, axis=1)

    def target_entropy(self, entropy: float, view: View) -> tf.Tensor | float:
        """Return the target entropy of each row [B], scaled by the entropy that the action masks leave.

        An entropy that counts forbidden actions is out of reach, and alpha would grow without bound.
        """
        if not self._policy.masked:
            return entropy
        parts = tf.split(tf.cast(view.encoded[ACTION_MASK], tf.float32), self._widths, axis=-1)
        allowed = [tf.math.log(tf.maximum(tf.reduce_sum(part, axis=-1), 1.0)) for part in parts]
        return entropy * (tf.add_n(allowed) / max(self._largest_entropy, 1e-6))
