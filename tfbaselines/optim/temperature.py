"""The weight of the policy's entropy, which may be learnt for a given entropy (Haarnoja et al. 2018)."""

import keras
import numpy as np
import tensorflow as tf


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
