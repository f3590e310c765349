"""Optimisers: Keras's own with a faster step, and those whose numbers equal TensorFlow 1's where Keras's differ."""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

# Up to which RMSProp's formula is faster than TensorFlow's kernel, whose momentum XLA hands in and out for nothing.
FEW_PARAMETERS = 100_000


def slots(optimizer: keras.Optimizer) -> dict[str, np.ndarray]:
    """What an optimiser remembers, by number, for saved files."""
    return {f"{number:02d}": slot.numpy() for number, slot in enumerate(optimizer.variables)}


def restore_slots(optimizer: keras.Optimizer, saved: dict[str, np.ndarray]) -> None:
    """Take over what `slots` gave; ValueError when it was of other variables."""
    values = [value for _, value in sorted(saved.items(), key=lambda item: int(item[0]))]
    if [np.shape(value) for value in values] != [tuple(slot.shape) for slot in optimizer.variables]:
        raise ValueError("the saved optimiser is of other variables than this one's")
    for slot, value in zip(optimizer.variables, values, strict=True):
        slot.assign(value)


class Adam(keras.optimizers.Adam):
    """Adam whose step on a variable is one fused kernel: the same numbers at a third of the cost for large layers."""

    def update_step(self, gradient: tf.Tensor, variable: tf.Variable, learning_rate: tf.Tensor) -> None:
        """Change one variable; Keras calls this for each."""
        index = self._get_variable_index(variable)
        step = tf.cast(self.iterations.value + 1, tf.float32)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].value.handle,
            v=self._velocities[index].value.handle,
            beta1_power=self.beta_1**step,
            beta2_power=self.beta_2**step,
            lr=learning_rate,
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=gradient,
        )


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
        self._steps: list[tf.Variable] = []

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Make the slots."""
        if self.built:
            return
        super().build(variables)
        for slot in self._velocities:
            slot.assign(keras.ops.ones_like(slot))
        if sum(int(np.prod(variable.shape)) for variable in variables) > FEW_PARAMETERS:
            # The fused kernel writes its momentum somewhere, also when there is none to remember.
            self._steps = [tf.Variable(tf.zeros(variable.shape), trainable=False) for variable in variables]

    def update_step(self, gradient: tf.Tensor, variable: tf.Variable, learning_rate: tf.Tensor) -> None:
        """Change one variable; Keras calls this for each."""
        index = self._get_variable_index(variable)
        if not self._steps:
            mean_square = self._velocities[index].value
            mean_square.assign_add((1.0 - self.rho) * (tf.square(gradient) - mean_square))
            variable.assign_sub(learning_rate * gradient * tf.math.rsqrt(mean_square + self.epsilon))
            return
        tf.raw_ops.ResourceApplyRMSProp(
            var=variable.handle,
            ms=self._velocities[index].value.handle,
            mom=self._steps[index].handle,
            lr=learning_rate,
            rho=self.rho,
            momentum=0.0,
            epsilon=self.epsilon,
            grad=gradient,
        )
