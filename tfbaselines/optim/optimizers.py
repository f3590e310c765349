"""Optimisers whose numbers equal TensorFlow 1's where Keras's own differ."""

from collections.abc import Sequence

import keras


class RMSProp(keras.optimizers.RMSprop):
    """RMSProp as TensorFlow 1 has it: the mean square starts at one, not at zero.

        ms <- alpha ms + (1 - alpha) g^2;  w <- w - lr g / sqrt(ms + epsilon)

    Starting at one, the first steps are small whatever the gradient's size; starting at zero they are all of size lr.

    Args:
        alpha: decay of the mean square.
        epsilon: inside the square root.
    """

    def __init__(self, alpha: float = 0.99, epsilon: float = 1e-5) -> None:
        super().__init__(rho=alpha, epsilon=epsilon)

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Make the slots."""
        if self.built:
            return
        super().build(variables)
        for slot in self._velocities:
            slot.assign(keras.ops.ones_like(slot))
