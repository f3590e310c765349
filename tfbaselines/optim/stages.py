"""Gradient steps of several optimisers, one after another, on all rows of one batch: one compiled call.

A stage takes its steps before the next one begins, and may end early, as a policy's does when it has moved far enough
from the one that acted. Over several ranks each step is a compiled flat gradient, one Allreduce of it together with
the statistic that ends the stage, and a compiled step; so all ranks take the same steps and end in the same one.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.optim.update import Batch, Statistics, gradients_of, joined, taken_apart
from tfbaselines.parallel import mpi


class Stage(NamedTuple):
    """One optimiser's steps.

    Attributes:
        loss: function of a batch that returns the scalar to minimise and its statistics, scalars by name.
        variables: what changes.
        optimizer: how; its learning rate is the coefficient `lr`.
        lr: name of that coefficient.
        steps: the most that are taken.
        statistic: name of the one that ends the stage; None for none.
        most: the step at whose beginning the statistic is above this is the last one.
    """

    loss: Callable[[Batch], tuple[tf.Tensor, Statistics]]
    variables: list[keras.Variable]
    optimizer: keras.Optimizer
    lr: str
    steps: int
    statistic: str | None = None
    most: float = np.inf

    def gradients(self, batch: Batch) -> tuple[list[tf.Tensor], tf.Tensor]:
        """One gradient per variable, and the statistic; 0 without one."""
        gradients, statistics = gradients_of(lambda: self.loss(batch), self.variables)
        return gradients, tf.constant(0.0) if self.statistic is None else statistics[self.statistic]

    def apply(self, gradients: list[tf.Tensor], lr: tf.Tensor) -> None:
        """Change the variables."""
        self.optimizer.learning_rate.assign(lr)
        self.optimizer.apply(gradients, self.variables)


class Outcome(NamedTuple):
    """Of all stages.

    Attributes:
        before: every stage's statistics before the first step.
        after: the same after the last one.
        steps: how many each stage took.
    """

    before: dict[str, float]
    after: dict[str, float]
    steps: list[int]


class StagedUpdate:
    """Several stages on one batch.

    Attributes:
        stages: these.

    Args:
        stages: taken in their order; names of their statistics differ.
        jit: compile with XLA; see policy/precision.py.
        comm: communicator over which gradients are averaged.
    """

    def __init__(self, stages: Sequence[Stage], *, jit: bool = True, comm: mpi.Communicator | None = None) -> None:
        self.stages, self._comm = list(stages), mpi.wrap(comm)
        # Of the statistics; known once the losses are traced.
        self._names: tuple[str, ...] = ()
        for stage in self.stages:
            stage.optimizer.build(stage.variables)
        self._fused = tf.function(self._run_all, jit_compile=jit)
        self._measure = tf.function(self._statistics, jit_compile=jit)
        self._flat_gradients = [tf.function(_flat_gradient(stage), jit_compile=jit) for stage in self.stages]
        self._applies = [tf.function(_apply_flat(stage), jit_compile=jit) for stage in self.stages]

    def __call__(self, data: dict[str, np.ndarray], **coefficients: float) -> Outcome:
        """Take all steps.

        Args:
            data: the batch.
            coefficients: learning rates by name.
        """
        batch = {name: tf.convert_to_tensor(array) for name, array in data.items()}
        rates = {name: tf.constant(value, tf.float32) for name, value in coefficients.items()}
        if self._comm.size == 1:
            before, after, steps = (array.numpy() for array in self._fused(batch, rates))
        else:
            before = self._measure(batch).numpy()
            steps = np.array([self._descend_over_ranks(k, batch, rates) for k in range(len(self.stages))])
            after = self._measure(batch).numpy()
        before, after = (dict(zip(self._names, array.tolist(), strict=True)) for array in (before, after))
        return Outcome(before, after, steps.tolist())

    def traces(self) -> int:
        """How many times the compiled call was traced: once, unless shapes change from call to call."""
        return self._fused.experimental_get_tracing_count()

    def _run_all(self, batch: Batch, rates: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        before = self._statistics(batch)
        steps = [_descend(stage, batch, rates[stage.lr]) for stage in self.stages]
        return before, self._statistics(batch), tf.stack(steps)

    def _statistics(self, batch: Batch) -> tf.Tensor:
        found: Statistics = {}
        for stage in self.stages:
            found |= stage.loss(batch)[1]
        self._names = tuple(found)
        return tf.stack(list(found.values()))

    def _descend_over_ranks(self, number: int, batch: Batch, rates: dict[str, tf.Tensor]) -> int:
        stage, taken, reached = self.stages[number], 0, 0.0
        while taken < stage.steps and reached <= stage.most:
            averaged = self._comm.average(self._flat_gradients[number](batch).numpy())
            self._applies[number](tf.constant(averaged), rates[stage.lr])
            taken, reached = taken + 1, averaged[-1]
        return taken


def _descend(stage: Stage, batch: Batch, lr: tf.Tensor) -> tf.Tensor:
    """Take the steps of a stage; how many they were."""
    taken, reached = tf.constant(0), tf.constant(0.0)
    while taken < stage.steps and reached <= stage.most:
        gradients, reached = stage.gradients(batch)
        stage.apply(gradients, lr)
        taken += 1
    return taken


def _flat_gradient(stage: Stage) -> Callable[[Batch], tf.Tensor]:
    """A function of a batch: the stage's gradients end to end, and its statistic last."""

    def flat_gradient(batch: Batch) -> tf.Tensor:
        gradients, reached = stage.gradients(batch)
        return joined([*gradients, reached])

    return flat_gradient


def _apply_flat(stage: Stage) -> Callable[[tf.Tensor, tf.Tensor], Any]:
    """A function of what `_flat_gradient` gives, averaged, and of the learning rate."""

    def apply_flat(flat: tf.Tensor, lr: tf.Tensor) -> None:
        stage.apply(taken_apart(flat[:-1], stage.variables), lr)

    return apply_flat
