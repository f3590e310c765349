"""Optimisers: Keras's own with a faster step, and those whose numbers equal TensorFlow 1's where Keras's differ."""

import math
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.errors import UsageError
from tfbaselines.learn.exchange import few, joined, taken_apart

OTHER_VARIABLES = "the saved optimiser is of other variables than this one's"


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


class RMSProp:
    """RMSProp as TensorFlow 1 has it: the mean square starts at one, not at zero.

        ms <- alpha ms + (1 - alpha) g^2;  w <- w - lr g / sqrt(ms + epsilon)

    Starting at one, the first steps are small whatever the gradient's size; starting at zero they are all of size lr.

    Args:
        alpha: decay of the mean square.
        epsilon: inside the square root.
    """

    def __init__(self, alpha: float = 0.99, epsilon: float = 1e-5) -> None:
        self._alpha, self._epsilon = alpha, epsilon
        self._shapes: list[tuple[int, ...]] = []
        # One vector of few parameters, for which the formula is fastest; else one for each variable, and the kernel.
        self._mean_squares: list[tf.Variable] = []
        self._steps: list[tf.Variable] = []

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Make the slots, if there are none."""
        if self._mean_squares:
            return
        self._shapes = [tuple(variable.shape) for variable in variables]
        as_one = few(variables)
        of_slots = [(sum(map(math.prod, self._shapes)),)] if as_one else self._shapes
        self._mean_squares = [tf.Variable(tf.ones(shape), trainable=False) for shape in of_slots]
        # The fused kernel writes its momentum somewhere, also when there is none to remember.
        self._steps = [] if as_one else [tf.Variable(tf.zeros(shape), trainable=False) for shape in of_slots]

    def descend(self, gradients: Sequence[tf.Tensor], variables: Sequence[keras.Variable], lr: tf.Tensor) -> None:
        """Take one step; see the function of this name."""
        if not self._steps:
            self._descend_by_formula(gradients, variables, lr)
            return
        slots = zip(self._mean_squares, self._steps, strict=True)
        for gradient, variable, (mean_square, step) in zip(gradients, variables, slots, strict=True):
            tf.raw_ops.ResourceApplyRMSProp(
                var=variable.value.handle,
                ms=mean_square.handle,
                mom=step.handle,
                lr=lr,
                rho=self._alpha,
                momentum=0.0,
                epsilon=self._epsilon,
                grad=gradient,
            )

    def slots(self) -> list[np.ndarray]:
        """The mean square of each variable."""
        flat = np.concatenate([slot.numpy().ravel() for slot in self._mean_squares])
        parts = np.split(flat, np.cumsum([math.prod(shape) for shape in self._shapes])[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, self._shapes, strict=True)]

    def restore(self, slots: Sequence[np.ndarray]) -> None:
        """Take over what `slots` gave; ValueError when it was of other variables.

        Older versions saved two numbers before them.
        """
        slots = slots[2:] if len(slots) == len(self._shapes) + 2 else slots
        if [np.shape(slot) for slot in slots] != self._shapes:
            raise UsageError(OTHER_VARIABLES)
        if not self._steps:
            slots = [np.concatenate([np.ravel(slot) for slot in slots])]
        for own, slot in zip(self._mean_squares, slots, strict=True):
            own.assign(slot)

    def _descend_by_formula(
        self, gradients: Sequence[tf.Tensor], variables: Sequence[keras.Variable], lr: tf.Tensor
    ) -> None:
        (mean_square,), gradient = self._mean_squares, joined(gradients)
        mean_square.assign_add((1.0 - self._alpha) * (tf.square(gradient) - mean_square))
        step = lr * gradient * tf.math.rsqrt(mean_square + self._epsilon)
        for variable, part in zip(variables, taken_apart(step, variables), strict=True):
            variable.value.assign_sub(part)


Optimizer = keras.Optimizer | RMSProp


def descend(
    optimizer: Optimizer, gradients: Sequence[tf.Tensor], variables: Sequence[keras.Variable], lr: tf.Tensor
) -> None:
    """Take one step.

    Args:
        optimizer: built for the variables.
        gradients: one for each variable.
        variables: those to change.
        lr: the learning rate.
    """
    if isinstance(optimizer, RMSProp):
        optimizer.descend(gradients, variables, lr)
    else:
        optimizer.learning_rate.assign(lr)
        optimizer.apply(gradients, variables)


def slots(optimizer: Optimizer) -> dict[str, np.ndarray]:
    """What an optimiser remembers, by number, for saved files."""
    own = isinstance(optimizer, RMSProp)
    arrays = optimizer.slots() if own else [slot.numpy() for slot in optimizer.variables]
    return {f"{number:02d}": array for number, array in enumerate(arrays)}


def restore_slots(optimizer: Optimizer, saved: dict[str, np.ndarray]) -> None:
    """Take over what `slots` gave; ValueError when it was of other variables than this one's."""
    values = [value for _, value in sorted(saved.items(), key=lambda item: int(item[0]))]
    if isinstance(optimizer, RMSProp):
        optimizer.restore(values)
        return
    if [np.shape(value) for value in values] != [tuple(slot.shape) for slot in optimizer.variables]:
        raise UsageError(OTHER_VARIABLES)
    for slot, value in zip(optimizer.variables, values, strict=True):
        slot.assign(value)
