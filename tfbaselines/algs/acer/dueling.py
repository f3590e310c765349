"""The stochastic duelling network of ACER (Wang et al. 2017, section 5.2.1): Q of continuous actions."""

from typing import Any

import keras
import tensorflow as tf

from tfbaselines.policy.policy import Policy
from tfbaselines.policy.precision import in_full

ADVANTAGE_UNITS = 64


class DuelingPolicy(Policy):
    """A Gaussian policy with V(x) and Q(x, a) = V(x) + A(x, a) - mean of A(x, u_i) over sampled actions u_i ~ policy.

    V is the expectation of Q by construction, whatever the number of samples.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        width = self.vf_layer.kernel.shape[0] + self.head.width
        orthogonal = keras.initializers.Orthogonal
        self._hidden = keras.layers.Dense(
            ADVANTAGE_UNITS, "tanh", kernel_initializer=orthogonal(2.0**0.5), name="advantage_hidden"
        )
        self._advantage = keras.layers.Dense(1, kernel_initializer=orthogonal(1.0), name="advantage")
        self._hidden.build((None, width))
        self._advantage.build((None, ADVANTAGE_UNITS))

    @property
    def modules(self) -> list[Any]:
        """The policy's, then the advantage's."""
        return [*super().modules, self._hidden, self._advantage]

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """The policy's, then the advantage's."""
        return [
            *super().trainable_variables,
            *self._hidden.trainable_variables,
            *self._advantage.trainable_variables,
        ]

    def q_of(
        self, features: tf.Tensor, values: tf.Tensor, actions: list[tf.Tensor], centre: list[tf.Tensor]
    ) -> list[tf.Tensor]:
        """Q [B] of each batch of actions.

        Args:
            features: [B, F] latent of V (Outputs.features).
            values: [B] V.
            actions: batches of actions to evaluate, [B, ...] each.
            centre: the sampled actions u_i, [B, ...] each.
        """
        middle = tf.add_n([self._advantage_of(features, action) for action in centre]) / len(centre)
        return [values + self._advantage_of(features, action) - middle for action in actions]

    def _advantage_of(self, features: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        flat = tf.reshape(actions, (-1, self.head.width))
        return in_full(self._advantage(self._hidden(tf.concat([features, flat], axis=-1))))[:, 0]
