r"""The engine of all gradient steps: phases, taken along a plan, in one compiled call.

    plan: minibatches(data, indices) | block(batches) | repeat(data)         the rows of each step

    data --prepare--> batch k --> phase: loss -> gradients -> mean over ranks -> rule -> variables
                             \-> next phase ... --> after(step)              all of this is ONE compiled call

A phase is one loss, the variables that descend on it, and the rule by which they move, such as Adam. The engine chooses
how ranks exchange, packs the arguments of the call, compiles it, names the statistics, counts traces and owns the slots
that a checkpoint saves. A call for each step would spend most of its time between Python and TensorFlow.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.compiling import compiled
from tfbaselines.errors import UsageError
from tfbaselines.learn.exchange import (
    Calls,
    Row,
    clipped,
    leaves_of,
    mapped,
    one_row,
    plain,
    scalars_of,
    stacked,
    taken_apart,
)
from tfbaselines.learn.optimizers import Optimizer, restore_slots, rule_of, slots
from tfbaselines.parallel import mpi

Batch = dict[str, tf.Tensor]
Statistics = dict[str, tf.Tensor]
# Returns the scalar to minimize, and statistics by name: scalars, or arrays with a number for each row of the batch.
Loss = Callable[[Batch], tuple[tf.Tensor, Statistics]]
Gradients = Callable[[Batch], tuple[list[tf.Tensor], Statistics]]


def gradients_of(
    loss: Callable[[], tuple[tf.Tensor, Statistics]], variables: Sequence[keras.Variable]
) -> tuple[list[tf.Tensor], Statistics]:
    """Return the gradient of a loss for each variable, and the loss's statistics."""
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
        function = self.gradients or (lambda batch: gradients_of(partial(self.loss, batch), self.variables))
        gradients, statistics = function(batch)
        return gradients, in_float32(statistics)

    def apply(self, gradients: list[tf.Tensor], coefficients: Batch) -> None:
        """Move the variables along averaged gradients."""
        if self.clip_norm is not None:
            # tf.clip_by_norm with half as many passes over a large gradient.
            norms = [tf.sqrt(2.0 * tf.nn.l2_loss(gradient)) for gradient in gradients]
            gradients = [
                g * (self.clip_norm / tf.maximum(n, self.clip_norm)) for g, n in zip(gradients, norms, strict=True)
            ]
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
    """A function's vector of each prepared batch, such as sums of returns; `take` gets its average over the ranks."""

    vector: Callable[[Batch], tf.Tensor]
    take: Callable[[tf.Tensor], None]


def in_float32(statistics: Statistics) -> Statistics:
    """Read statistics, which may be variables, as float32 tensors, before a step changes them."""
    return {name: tf.cast(tf.convert_to_tensor(value), tf.float32) for name, value in statistics.items()}


class Outcome(NamedTuple):
    """All phases' statistics before and after the steps of `Engine.repeat`, and the number of steps of each phase."""

    before: dict[str, float]
    after: dict[str, float]
    steps: list[int]


class Engine:
    """Gradient steps of one or several phases.

    Attributes:
        step: number of gradient steps so far.

    Args:
        phases: in their order.
        prepare: adds to a batch what all phases share, outside of any gradient.
        merged: between `prepare` and the phases.
        together: compute every phase's gradients before any phase changes its variables. Between ranks the gradients
            are then one message.
        after: compiled function that ends a step, in steps 0, after_every, ...
        jit: compile with XLA; see policy/layers.py.
        rank_weight: weight of this rank in the averages.
    """

    def __init__(
        self,
        phases: Sequence[Phase],
        *,
        prepare: Callable[[Batch], Batch] = lambda batch: batch,
        merged: Merged | None = None,
        together: bool = False,
        after: Callable[[], None] | None = None,
        after_every: int = 1,
        jit: bool = True,
        comm: mpi.Communicator | None = None,
        rank_weight: float = 1.0,
    ) -> None:
        if together and any(phase.every > 1 for phase in phases):
            raise ValueError("phases that step together must all be due in every step")
        self.phases = [phase._replace(rule=rule_of(phase.rule)) for phase in phases]
        self._groups = [self.phases] if together else [[phase] for phase in self.phases]
        self._prepare = prepare
        self._merged = merged
        self._after = after or (lambda: None)
        self._after_every = after_every
        self._comm = mpi.wrap(comm)
        self._rank_weight = rank_weight
        self._calls = Calls(self.variables, jit, comm, rank_weight)
        # Calls without other ranks.
        self._local = Calls(self.variables, jit)
        self._exchange = self._calls.exchange
        self._compiled_prepare = compiled(prepare, jit)
        self.step = 0
        for phase in self.phases:
            phase.rule.build(phase.variables)

    @property
    def variables(self) -> list[keras.Variable]:
        """All variables that the phases change."""
        return [variable for phase in self.phases for variable in phase.variables]

    def minibatches(
        self, data: dict[str, Any], indices: np.ndarray | None = None, **coefficients: float
    ) -> dict[str, float]:
        """Take one step on each minibatch of some data.

        Args:
            data: arrays, or dictionaries of them, with the same first axis.
            indices: rows [K, B] of the K minibatches; None for one step on all rows.
            coefficients: learning rates and other numbers; they become part of each batch.

        Returns:
            Means over the steps of the phases' statistics, each of before its step.
        """
        count, rows = (1, len(leaves_of(data)[0])) if indices is None else np.shape(indices)
        places = () if indices is None else np.asarray(indices, np.int32)
        structure = one_row((data, scalars_of(coefficients), places, np.int32(self.step)))
        statistics = self._calls("minibatches", self._minibatches, structure, rows)
        self.step += count
        return plain(_together(statistics))

    def block(self, block: dict[str, Any], **coefficients: float) -> dict[str, np.ndarray]:
        """Take one step on each batch of a block [K, B, ...]; the coefficients become part of each batch.

        The result has the phases' statistics [K] or [K, B], without the steps when a phase was not due.
        """
        count, rows = leaves_of(block)[0].shape[:2]
        scalars = {name: np.full(count, value, np.float32) for name, value in coefficients.items()}
        numbers = np.arange(self.step, self.step + count, dtype=np.int32)
        statistics = self._calls("block", partial(self._block, count), (block, scalars, numbers), rows)
        for phase in self.phases:
            due = slice(-self.step % phase.every, None, phase.every)
            statistics[phase.name] = {name: array[due] for name, array in statistics[phase.name].items()}
        self.step += count
        return _together(statistics)

    def repeat(self, data: dict[str, np.ndarray], **coefficients: float) -> Outcome:
        """Take all steps of each phase in turn, on all rows of some data; for the arguments see `minibatches`.

        Over several ranks, the statistic that ends a phase is averaged in the gradients' message, so that all ranks end
        in the same step.
        """
        structure = one_row((data, scalars_of(coefficients)))
        before, after, steps = self._calls("repeat", self._repeat, structure, len(leaves_of(data)[0]))
        return Outcome(plain(before), plain(after), [int(taken) for taken in steps])

    def in_parts(self, parts: Iterable[tuple[dict[str, np.ndarray], float]], **coefficients: float) -> dict[str, float]:
        """Take one step of the only phase on a batch in parts, so that one part at a time is in memory; see `gradient`.

        Returns:
            The statistics.
        """
        vector, statistics = self.gradient(parts, **coefficients)
        self.descend(vector, **coefficients)
        return statistics

    def gradient(
        self, parts: Iterable[tuple[dict[str, np.ndarray], float]], **coefficients: float
    ) -> tuple[np.ndarray, dict[str, float]]:
        """Compute the gradient of the only phase on a batch in parts, without a step: `descend` takes it.

        It is the weighted mean of the parts' gradients, which is the whole batch's gradient if the loss is a mean.

        Args:
            parts: for each part its arrays, with the same first axis, and its weight: the number of terms in its mean.
            coefficients: learning rate and other numbers; they become part of each batch.

        Returns:
            The vector, the same on every rank, and the statistics.
        """
        sums = None
        total = 0.0
        for data, weight in parts:
            found = self._local("gradients", self._local_gradients, one_row((data, scalars_of(coefficients))))
            weighted = mapped(partial(np.multiply, weight), found)
            sums = weighted if sums is None else mapped(np.add, sums, weighted)
            total += weight
        gradients, statistics = mapped(lambda array: array / total, sums)
        vector = np.concatenate([gradient.ravel() for gradient in gradients])
        return self._comm.average(vector, weight=self._rank_weight), plain(statistics)

    def descend(self, gradient: np.ndarray, **coefficients: float) -> None:
        """Take one step of the only phase along a vector that was computed elsewhere, equal on every rank."""
        structure = one_row((np.asarray(gradient, np.float32), scalars_of(coefficients)))
        self._local("descend", self._descend, structure)
        self.step += 1

    def prepared(self, batch: dict[str, Any]) -> Batch:
        """Return a batch as the phases see it."""
        return self._compiled_prepare(mapped(tf.convert_to_tensor, batch))

    def traces(self) -> int:
        """Count the traces: one for each plan, unless shapes change from call to call."""
        return self._calls.traces()

    def state(self) -> dict[str, Any]:
        """Return the number of steps and the rules' slots."""
        return {"step": self.step, "slots": {phase.name: slots(phase.rule) for phase in self.phases}}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned; raise UsageError if it belongs to other phases."""
        names = [phase.name for phase in self.phases]
        if sorted(state["slots"]) != sorted(names):
            saved = ", ".join(sorted(state["slots"]))
            raise UsageError(f"the saved model was trained with the phases {saved}, this one has {', '.join(names)}")
        self.step = state["step"]
        for phase in self.phases:
            restore_slots(phase.rule, state["slots"][phase.name])

    def _minibatches(self, ranks: list[Row]) -> dict[str, Statistics]:
        rows = [row(0) for row in ranks]
        _, scalars, indices, first = rows[0]
        if isinstance(indices, tuple):
            return self._step([data | scalars for data, *_ in rows], scalars, first)

        def step(k: tf.Tensor) -> dict[str, Statistics]:
            batches = [mapped(partial(tf.gather, indices=places[k]), data) | scalars for data, _, places, _ in rows]
            return self._step(batches, scalars, first + k)

        return mapped(lambda array: tf.reduce_mean(array, 0), stacked(indices.shape[0], step))

    def _block(self, count: int, ranks: list[Row]) -> dict[str, Statistics]:
        def step(k: tf.Tensor) -> dict[str, Statistics]:
            rows = [row(k) for row in ranks]
            _, scalars, number = rows[0]
            return self._step([batch | scalars for batch, *_ in rows], scalars, number)

        return stacked(count, step)

    def _step(self, batches: list[Batch], scalars: Batch, step: tf.Tensor) -> dict[str, Statistics]:
        batches = [self._prepare(batch) for batch in batches]
        if self._merged is not None:
            (vector,), _ = self._exchange.mean(lambda batch: ([self._merged.vector(batch)], ()))(batches)
            self._merged.take(vector)
        found: dict[str, Statistics] = {}
        for group in self._groups:
            found |= self._take(group, batches, scalars, step)

        def end() -> None:
            self._after()

        _when(step, self._after_every, end, lambda: None)
        return found

    def _take(self, group: list[Phase], batches: list[Batch], scalars: Batch, step: tf.Tensor) -> dict[str, Statistics]:
        def gradients(batch: Batch) -> tuple[list[tf.Tensor], dict[str, Statistics]]:
            found = [phase.gradients_and_statistics(batch) for phase in group]
            statistics = {phase.name: own for phase, (_, own) in zip(group, found, strict=True)}
            return [gradient for of_phase, _ in found for gradient in of_phase], statistics

        def taken() -> dict[str, Statistics]:
            averaged, statistics = self._exchange.mean(gradients)(batches)
            for phase in group:
                phase.apply(averaged[: len(phase.variables)], scalars)
                averaged = averaged[len(phase.variables) :]
            return statistics

        def idle() -> dict[str, Statistics]:
            return {phase.name: phase.zeros(batches[0]) for phase in group}

        return _when(step, group[0].every, taken, idle)

    def _repeat(self, ranks: list[Row]) -> tuple[Statistics, Statistics, list[tf.Tensor]]:
        rows = [row(0) for row in ranks]
        scalars = rows[0][1]
        batches = [self._prepare(data | scalars) for data, _ in rows]
        before = self._statistics(batches)
        steps = [self._repeat_phase(phase, batches, scalars) for phase in self.phases]
        return before, self._statistics(batches), steps

    def _statistics(self, batches: list[Batch]) -> Statistics:
        def of_batch(batch: Batch) -> Statistics:
            return in_float32(_together({phase.name: phase.loss(batch)[1] for phase in self.phases}))

        return self._exchange.own([of_batch(batch) for batch in batches])

    def _repeat_phase(self, phase: Phase, batches: list[Batch], scalars: Batch) -> tf.Tensor:
        def gradients(batch: Batch) -> tuple[list[tf.Tensor], tuple]:
            found, statistics = phase.gradients_and_statistics(batch)
            return [*found, tf.constant(0.0) if phase.until is None else statistics[phase.until]], ()

        mean = self._exchange.mean(gradients)

        def due(taken: tf.Tensor, reached: tf.Tensor) -> tf.Tensor:
            return tf.logical_and(taken < phase.steps, reached <= phase.most)

        def step(taken: tf.Tensor, reached: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            (*averaged, reached), _ = mean(batches)
            phase.apply(averaged, scalars)
            return taken + 1, reached

        return tf.while_loop(due, step, (tf.constant(0), tf.constant(0.0)))[0]

    def _local_gradients(self, ranks: list[Row]) -> tuple[list[tf.Tensor], Statistics]:
        data, scalars = ranks[0](0)
        (phase,) = self.phases
        return phase.gradients_and_statistics(data | scalars)

    def _descend(self, ranks: list[Row]) -> tf.Tensor:
        vector, scalars = ranks[0](0)
        (phase,) = self.phases
        phase.apply(taken_apart(vector, phase.variables), scalars)
        self._after()
        return tf.constant(0.0)


def _when(step: tf.Tensor, every: int, due: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
    return due() if every == 1 else tf.cond(step % every == 0, due, otherwise)


def _together(statistics: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {name: value for of_phase in statistics.values() for name, value in of_phase.items()}
