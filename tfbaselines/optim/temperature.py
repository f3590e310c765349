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
        self.learnt, self.target_entropy = target_entropy is not None, target_entropy
        self.log_alpha = keras.Variable(np.float32(np.log(alpha) if alpha else -np.inf), name="log_alpha")

    @property
    def variables(self) -> list[keras.Variable]:
        """Its logarithm where it is learnt; a given one does not belong to the model."""
        return [self.log_alpha] if self.learnt else []

    def __call__(self) -> tf.Tensor:
        """alpha, cut off from gradients."""
        return tf.stop_gradient(tf.exp(self.log_alpha.value))

    def loss(self, gap: tf.Tensor) -> tf.Tensor:
        """-log alpha (log pi + target_entropy), given the mean of what is in brackets."""
        return -self.log_alpha.value * tf.stop_gradient(gap)
