"""Rules by which variables move (Keras optimizers, a faster Adam, RMSProp as in TensorFlow 1), and averages."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.errors import UsageError
from tfbaselines.learn.exchange import few, joined, taken_apart
from tfbaselines.policy.policy import Policy


class Rule(Protocol):
    """Moves variables along their gradients.

    Attributes:
        variables: the slots, which a checkpoint saves.
    """

    variables: Sequence[Any]

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Make the slots, unless they exist."""

    def apply(self, gradients: Sequence[tf.Tensor], rate: tf.Tensor) -> None:
        """Take one step with a learning rate; `gradients` has one for each variable."""


class Adam(keras.optimizers.Adam):
    """Adam with one fused kernel for each variable: Keras's numbers at a third of the cost for large layers."""

    def update_step(self, gradient: tf.Tensor, variable: tf.Variable, learning_rate: tf.Tensor) -> None:
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


class KerasRule(Rule):
    """A Keras optimizer; `apply` sets its learning rate."""

    def __init__(self, optimizer: keras.Optimizer) -> None:
        self._optimizer = optimizer

    def build(self, variables: Sequence[keras.Variable]) -> None:
        self._moved = variables
        self._optimizer.build(variables)
        self.variables = self._optimizer.variables

    def apply(self, gradients: Sequence[tf.Tensor], rate: tf.Tensor) -> None:
        self._optimizer.learning_rate.assign(rate)
        self._optimizer.apply(gradients, self._moved)


class RMSProp(Rule):
    """RMSProp as in TensorFlow 1, where the mean square starts at one instead of zero.

        ms <- alpha ms + (1 - alpha) g^2;  w <- w - lr g / sqrt(ms + epsilon)

    With a start at one, the first steps are small for any gradient; with a start at zero they all have the size lr.

    The slots are the mean squares: one vector for small networks, where the formula is fastest; otherwise one for each
    variable, for the fused kernel.
    """

    def __init__(self, alpha: float = 0.99, epsilon: float = 1e-5) -> None:
        self._alpha = alpha
        self._epsilon = epsilon
        self.variables: list[tf.Variable] = []

    def build(self, variables: Sequence[keras.Variable]) -> None:
        if self.variables:
            return
        self._moved = variables
        shapes = [tuple(variable.shape) for variable in variables]
        as_one = few(variables)
        slots = [(sum(map(math.prod, shapes)),)] if as_one else shapes
        self.variables = [tf.Variable(tf.ones(shape), trainable=False) for shape in slots]
        # The fused kernel requires a place for momentum, although there is none.
        self._unused = [] if as_one else [tf.Variable(tf.zeros(shape), trainable=False) for shape in slots]

    def apply(self, gradients: Sequence[tf.Tensor], rate: tf.Tensor) -> None:
        if not self._unused:
            self._apply_formula(gradients, rate)
            return
        slots = zip(self.variables, self._unused, strict=True)
        for gradient, variable, (mean_square, unused) in zip(gradients, self._moved, slots, strict=True):
            tf.raw_ops.ResourceApplyRMSProp(
                var=variable.value.handle,
                ms=mean_square.handle,
                mom=unused.handle,
                lr=rate,
                rho=self._alpha,
                momentum=0.0,
                epsilon=self._epsilon,
                grad=gradient,
            )

    def _apply_formula(self, gradients: Sequence[tf.Tensor], rate: tf.Tensor) -> None:
        (mean_square,) = self.variables
        gradient = joined(gradients)
        mean_square.assign_add((1.0 - self._alpha) * (tf.square(gradient) - mean_square))
        step = rate * gradient * tf.math.rsqrt(mean_square + self._epsilon)
        for variable, part in zip(self._moved, taken_apart(step, self._moved), strict=True):
            variable.value.assign_sub(part)


Optimizer = keras.Optimizer | Rule


def rule_of(optimizer: Optimizer) -> Rule:
    """Return an optimizer as a rule."""
    return KerasRule(optimizer) if isinstance(optimizer, keras.Optimizer) else optimizer


def slots(optimizer: Optimizer) -> dict[str, np.ndarray]:
    """Return the slots of an optimizer by number, for saved files."""
    return {f"{number:02d}": slot.numpy() for number, slot in enumerate(optimizer.variables)}


def restore_slots(optimizer: Optimizer, saved: dict[str, np.ndarray]) -> None:
    """Restore what `slots` returned; raise UsageError if it belongs to other variables."""
    values = [value for _, value in sorted(saved.items(), key=lambda item: int(item[0]))]
    shapes = [tuple(slot.shape) for slot in optimizer.variables]
    sizes = [math.prod(shape) for shape in shapes]
    if len(values) == 1 < len(shapes) and np.shape(values[0]) == (sum(sizes),):
        # RMSProp's one vector, in files of larger networks than have one now.
        parts = np.split(values[0], np.cumsum(sizes)[:-1])
        values = [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
    if [np.shape(value) for value in values] != shapes:
        raise UsageError("the saved optimizer belongs to other variables than this one's")
    for slot, value in zip(optimizer.variables, values, strict=True):
        slot.assign(value)


class AveragedPolicy:
    """The average of a policy's weights: w_avg <- alpha w_avg + (1 - alpha) w after each update.

    Its attribute `policy` has the averaged weights: it is the copy, a policy of the same kind.
    """

    def __init__(self, policy: Policy, copy: Policy, alpha: float) -> None:
        self.policy = copy
        self._pairs = list(zip(copy.trainable_variables, policy.trainable_variables, strict=True))
        self._alpha = alpha
        self.reset()

    def reset(self) -> None:
        """Start again from the policy's present weights."""
        for average, followed in self._pairs:
            average.assign(followed.value)

    def step(self) -> None:
        """Update the average with the policy's weights, inside compiled functions."""
        for average, followed in self._pairs:
            average.assign(average.value * self._alpha + (1.0 - self._alpha) * followed.value)

    def forward(self, *inputs: tf.Tensor, **named: tf.Tensor) -> tf.Tensor:
        """Return the parameters of the averaged policy's distributions, cut off from gradients."""
        return tf.stop_gradient(self.policy.forward(*inputs, **named).flat)


def with_targets(make: Callable[[], Any], alpha: float) -> tuple[Any, AveragedPolicy]:
    """Make a policy and its average, which share the statistics of observations."""
    policy, copy = make(), make()
    copy.normalizer = policy.normalizer
    return policy, AveragedPolicy(policy, copy, alpha)
