"""SAC with discrete actions: exact expectations over all choices, and action masks (Christodoulou 2019).

The policy gives probabilities and each critic one value per choice, so nothing has to be drawn.
"""

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.envs.vec.observations import MASK as ACTION_MASK
from tfbaselines.policy.actor_critic import ActorCritic, View

# The default target entropy as a share of the largest possible entropy.
DISCRETE_ENTROPY = 0.2


class Choices:
    """Compute expectations over discrete actions; replaces SampledActions in loss.py.

    Args:
        policy: actor with discrete actions.
    """

    def __init__(self, policy: ActorCritic) -> None:
        self._policy = policy

    @property
    def default_target_entropy(self) -> float:
        """A share of the largest entropy."""
        return DISCRETE_ENTROPY * float(np.sum(np.log(self._widths)))

    @property
    def _widths(self) -> list[int]:
        """Number of choices in each part of an action."""
        space = self._policy.action_space
        return [int(space.n)] if isinstance(space, spaces.Discrete) else space.nvec.ravel().tolist()

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
        return entropy * (tf.add_n(allowed) / max(float(np.sum(np.log(self._widths))), 1e-6))
