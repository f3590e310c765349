"""Gradient steps of several optimisers, one after another, on all rows of one batch: one compiled call.

A stage takes its steps before the next one begins, and may end early, as a policy's does when it has moved far enough
from the one that acted. Over several ranks the statistic that ends the stage is averaged together with the gradient, so
that all of them end in the same step.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.learn.exchange import Exchange
from tfbaselines.learn.optimizers import Optimizer, descend
from tfbaselines.learn.update import Batch, Statistics, gradients_of
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
    optimizer: Optimizer
    lr: str
    steps: int
    statistic: str | None = None
    most: float = np.inf

    def gradients(self, batch: Batch) -> tuple[list[tf.Tensor], tuple]:
        """One gradient per variable, and last the statistic, 0 without one: what is averaged over ranks."""
        gradients, statistics = gradients_of(lambda: self.loss(batch), self.variables)
        return [*gradients, tf.constant(0.0) if self.statistic is None else statistics[self.statistic]], ()

    def apply(self, gradients: list[tf.Tensor], lr: tf.Tensor) -> None:
        """Change the variables."""
        descend(self.optimizer, gradients, self.variables, lr)


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
        self.stages, self._exchange = list(stages), Exchange(comm, jit)
        # Of the statistics; known once the losses are traced.
        self._names: tuple[str, ...] = ()
        for stage in self.stages:
            stage.optimizer.build(stage.variables)
        self._fused: Any = None

    def __call__(self, data: dict[str, np.ndarray], **coefficients: float) -> Outcome:
        """Take all steps.

        Args:
            data: the batch.
            coefficients: learning rates, and numbers that become part of the batch, by name.
        """
        if self._fused is None:
            variables = [variable for stage in self.stages for variable in stage.variables]
            self._exchange.choose(variables, len(next(iter(data.values()))), data)
            self._fused = self._exchange.compile(self._run_all)
        rates = {name: tf.constant(value, tf.float32) for name, value in coefficients.items()}
        outcome = self._fused(self._exchange.batches(data), rates)
        before, after, steps = (array.numpy() for array in outcome)
        before, after = (dict(zip(self._names, array.tolist(), strict=True)) for array in (before, after))
        return Outcome(before, after, steps.tolist())

    def traces(self) -> int:
        """How many times the compiled call was traced: once, unless shapes change from call to call."""
        return self._fused.experimental_get_tracing_count()

    def _run_all(self, batches: list[Batch], rates: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        def statistics() -> tf.Tensor:
            return self._exchange.own([self._statistics(batch) for batch in batches])

        # Losses may have coefficients that change.
        batches = [batch | rates for batch in batches]
        before = statistics()
        steps = [self._descend(stage, batches, rates[stage.lr]) for stage in self.stages]
        return before, statistics(), tf.stack(steps)

    def _statistics(self, batch: Batch) -> tf.Tensor:
        found: Statistics = {}
        for stage in self.stages:
            found |= stage.loss(batch)[1]
        self._names = tuple(found)
        return tf.stack(list(found.values()))

    def _descend(self, stage: Stage, batches: list[Batch], lr: tf.Tensor) -> tf.Tensor:
        """Take the steps of a stage; how many they were."""
        mean = self._exchange.mean(stage.gradients)

        def due(taken: tf.Tensor, reached: tf.Tensor) -> tf.Tensor:
            return tf.logical_and(taken < stage.steps, reached <= stage.most)

        def step(taken: tf.Tensor, reached: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            (*gradients, reached), _ = mean(batches)
            stage.apply(gradients, lr)
            return taken + 1, reached

        return tf.while_loop(due, step, (tf.constant(0), tf.constant(0.0)))[0]
