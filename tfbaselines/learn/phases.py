"""Phases of a gradient step: a loss, the variables that descend on it, and the rule by which they move."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import keras
import tensorflow as tf

from tfbaselines.compiling import compiled
from tfbaselines.learn.exchange import clipped
from tfbaselines.learn.optimizers import Optimizer

Batch = dict[str, tf.Tensor]
Statistics = dict[str, tf.Tensor]
# Returns the scalar to minimize, and statistics by name: scalars, or arrays with a number for each row of the batch.
Loss = Callable[[Batch], tuple[tf.Tensor, Statistics]]
Gradients = Callable[[Batch], tuple[list[tf.Tensor], Statistics]]


def gradients_of(
    loss: Callable[[], tuple[tf.Tensor, Statistics]], variables: Sequence[keras.Variable]
) -> tuple[list[tf.Tensor], Statistics]:
    """Return the gradients of a loss, one for each variable, and the statistics that the loss returns."""
    values = [variable.value for variable in variables]
    with tf.GradientTape() as tape:
        scalar, statistics = loss()
    return tape.gradient(scalar, values, unconnected_gradients="zero"), statistics


class Phase(NamedTuple):
    """One loss, the variables that descend on it, and the rule by which they move.

    Attributes:
        name: name of the phase, for checkpoints.
        loss: function of a batch and the coefficients in it. None where `gradients` or `Engine.descend` replaces it.
        variables: the variables to change.
        rule: a Keras optimizer, or a Rule.
        rate: name of the coefficient that is the rule's learning rate.
        every: the phase is due in steps 0, every, 2 * every, ...
        max_grad_norm: bound of the gradients' global norm; None for no bound.
        clip_norm: bound of the norm of each variable's gradient; None for no bound.
        gradients: function of a batch that returns gradients and statistics, in place of a loss.
        steps: most steps of this phase in `Engine.repeat`.
        until: statistic that ends the phase in `Engine.repeat`; None for all steps.
        most: the first step that begins with a larger `until` is the last one.
    """

    name: str
    loss: Loss | None
    variables: list[keras.Variable]
    rule: Optimizer
    rate: str = "lr"
    every: int = 1
    max_grad_norm: float | None = None
    clip_norm: float | None = None
    gradients: Gradients | None = None
    steps: int = 1
    until: str | None = None
    most: float = math.inf

    def gradients_and_statistics(self, batch: Batch) -> tuple[list[tf.Tensor], Statistics]:
        """Return one gradient for each variable, and float32 statistics."""
        if self.gradients is not None:
            gradients, statistics = self.gradients(batch)
        else:
            gradients, statistics = gradients_of(partial(self.loss, batch), self.variables)
        return gradients, in_float32(statistics)

    def apply(self, gradients: list[tf.Tensor], coefficients: Batch) -> None:
        """Move the variables along averaged gradients."""
        if self.clip_norm is not None:
            gradients = [_shortened(gradient, self.clip_norm) for gradient in gradients]
        if self.max_grad_norm is not None:
            gradients = clipped(gradients, self.variables, self.max_grad_norm)
        self.rule.apply(gradients, coefficients[self.rate])

    def zeros(self, batch: Batch) -> Statistics:
        """Return zeros in the shapes of the statistics, without computing the loss."""
        specs = tf.nest.map_structure(lambda x: None if x is None else tf.TensorSpec(x.shape, x.dtype), batch)
        # The graph of another function: only its outline is used.
        with tf.init_scope():
            outline = compiled(self.loss).get_concrete_function(specs).structured_outputs[1]
        return {name: tf.zeros(statistic.shape) for name, statistic in outline.items()}


class Merged(NamedTuple):
    """A vector of each batch, such as sums of returns, that is averaged over ranks before the phases.

    Attributes:
        vector: function of a prepared batch.
        take: compiled function that takes the average.
    """

    vector: Callable[[Batch], tf.Tensor]
    take: Callable[[tf.Tensor], None]


def _shortened(gradient: tf.Tensor, bound: float) -> tf.Tensor:
    """Clip a gradient by its norm: tf.clip_by_norm with half as many passes over a large gradient."""
    norm = tf.sqrt(2.0 * tf.nn.l2_loss(gradient))
    return gradient * (bound / tf.maximum(norm, bound))


def in_float32(statistics: Statistics) -> Statistics:
    """Read statistics, which may be variables, as float32 tensors, before a step changes them."""
    return {name: tf.cast(tf.convert_to_tensor(value), tf.float32) for name, value in statistics.items()}
