"""Gradient steps of several optimisers over a block of batches, in one compiled call.

One gradient step of an off-policy algorithm is made of phases: the critics', the actor's, the temperature's. What the
phases share is prepared first, with the weights as they were before the step; target networks follow at its end.
"""

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.compiling import compiled, rows_of
from tfbaselines.errors import UsageError
from tfbaselines.learn.exchange import Exchange, joined
from tfbaselines.learn.optimizers import Optimizer, descend, restore_slots, slots
from tfbaselines.learn.packing import PackedCalls, Row
from tfbaselines.learn.update import Batch, Statistics, gradients_of
from tfbaselines.parallel import mpi


class Column(NamedTuple):
    """One statistic's place in the vector that a step returns."""

    name: str
    shape: tuple[int, ...]
    every: int

    @property
    def width(self) -> int:
        """Numbers of it."""
        return math.prod(self.shape)


class Phase(NamedTuple):
    """One optimiser's part of a gradient step.

    Attributes:
        loss: function of a prepared batch that returns the scalar to minimise and its statistics by name: scalars, or
            arrays with a number for each row of the batch, such as the errors that priorities are made of.
        variables: what changes.
        optimizer: how; its learning rate is the coefficient `lr`.
        lr: name of that coefficient.
        every: taken in steps 0, every, 2 * every, ...
        clip: bound of the norm of each variable's gradient; None for none.
    """

    loss: Callable[[Batch], tuple[tf.Tensor, Statistics]]
    variables: list[keras.Variable]
    optimizer: Optimizer
    lr: str = "lr"
    every: int = 1
    clip: float | None = None

    def gradients(self, batch: Batch) -> tuple[list[tf.Tensor], Statistics]:
        """One gradient per variable, and the loss's statistics."""
        return gradients_of(lambda: self.loss(batch), self.variables)

    def columns(self, statistics: Statistics) -> list[Column]:
        """The places of the loss's statistics in a step's vector."""
        return [Column(name, tuple(value.shape), self.every) for name, value in statistics.items()]

    def apply(self, gradients: list[tf.Tensor], lr: tf.Tensor) -> None:
        """Change the variables."""
        if self.clip is not None:
            gradients = [_clipped(gradient, self.clip) for gradient in gradients]
        descend(self.optimizer, gradients, self.variables, lr)


class Merged(NamedTuple):
    """A vector made of each batch that is averaged over ranks before the phases, such as sums of returns.

    Attributes:
        vector: function of a prepared batch.
        take: called with the average; runs in compiled code.
    """

    vector: Callable[[Batch], tf.Tensor]
    take: Callable[[tf.Tensor], None]


class BlockUpdate:
    """Gradient steps, one for each batch of a block.

    Args:
        phases: taken in their order in every step.
        prepare: adds to a batch what all phases share; it is not part of any gradient.
        merged: see Merged; comes after `prepare`.
        together: every phase's gradient is taken before any of them changes its variables. Over ranks the gradients
            then are one message.
        after: called at the end of a step, inside of compiled code.
        after_every: called in steps 0, after_every, ...
        jit: compile with XLA; see policy/precision.py.
        comm: communicator over which gradients are averaged.
    """

    def __init__(
        self,
        phases: list[Phase],
        *,
        prepare: Callable[[Batch], Batch] = lambda batch: batch,
        merged: Merged | None = None,
        together: bool = False,
        after: Callable[[], None] = lambda: None,
        after_every: int = 1,
        jit: bool = True,
        comm: mpi.Communicator | None = None,
    ) -> None:
        if together and any(phase.every > 1 for phase in phases):
            raise ValueError("phases that are taken together are all taken in every step")
        self._phases, self._prepare, self._merged = phases, prepare, merged
        # Phases whose gradients are taken with the same weights.
        places = list(range(len(phases)))
        self._groups = [places] if together else [[place] for place in places]
        self._after, self._after_every = after, after_every
        self._exchange = Exchange(comm, jit)
        # Of each phase, by the shapes of a batch; known once the losses are traced with it.
        self._columns: dict[tuple, dict[int, list[Column]]] = {}
        self.step = 0
        for phase in phases:
            phase.optimizer.build(phase.variables)

        # All steps of a block in one call.
        self._fused: PackedCalls | None = None
        self._compiled_prepare = compiled(prepare, jit)

    def __call__(self, block: dict[str, Any], **coefficients: float) -> dict[str, np.ndarray]:
        """Run one gradient step per batch.

        Args:
            block: arrays [K, B, ...], or dictionaries of them.
            coefficients: learning rates, and what losses ask for, by name; they are part of every batch.

        Returns:
            The phases' statistics by name, [K] or [K, B], for each step in which the phase was due.
        """
        arrays = tf.nest.flatten(block)
        shapes, (count, batch_size) = tuple(array.shape[1:] for array in arrays), arrays[0].shape[:2]
        if self._fused is None:
            self._exchange.choose(self.variables, batch_size, block)
            self._fused = PackedCalls(self._exchange)
        key = shapes, count, tuple(block), tuple(coefficients), *(array.dtype for array in arrays)
        steps = np.arange(self.step, self.step + count, dtype=np.int32)
        scalars = {name: np.full(count, value, np.float32) for name, value in coefficients.items()}
        rows = self._fused(key, (block, scalars, steps), partial(self._run_all, shapes, count))
        found, begin = {}, 0
        columns = self._columns[shapes]
        for column in itertools.chain(*(columns[place] for place in sorted(columns))):
            part = rows[:, begin : begin + column.width].reshape(count, *column.shape)
            # Of the steps in which its phase was due.
            found[column.name] = part[-self.step % column.every :: column.every]
            begin += column.width
        self.step += count
        return found

    @property
    def variables(self) -> list[keras.Variable]:
        """Everything that the phases change."""
        return [variable for phase in self._phases for variable in phase.variables]

    def prepared(self, batch: dict[str, Any]) -> Batch:
        """What `prepare` makes of one batch."""
        return self._compiled_prepare(tf.nest.map_structure(tf.convert_to_tensor, batch))

    def state(self) -> dict[str, Any]:
        """The number of steps and the optimisers' slots."""
        return {"step": self.step, "slots": {str(i): slots(phase.optimizer) for i, phase in enumerate(self._phases)}}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `state` gave; ValueError when it was of other gradient steps."""
        if len(state["slots"]) != len(self._phases):
            raise UsageError(f"it was trained by {len(state['slots'])} optimisers, here there are {len(self._phases)}")
        self.step = state["step"]
        for i, phase in enumerate(self._phases):
            restore_slots(phase.optimizer, state["slots"][str(i)])

    def _run_all(self, shapes: tuple, count: int, blocks: list[Row]) -> tf.Tensor:
        """The statistics [count, width] of all steps of a block."""

        def batch_of(block: Row, k: Any) -> tuple[Batch, Batch, tf.Tensor]:
            batch, scalars, step = block(k)
            return batch | scalars, scalars, step

        exchange, columns = self._exchange, self._columns.setdefault(shapes, {})

        def row(k: tf.Tensor) -> tf.Tensor:
            # Coefficients are those of every rank.
            _, scalars, step = batch_of(blocks[0], k)
            batches = [self._prepare(batch_of(block, k)[0]) for block in blocks]
            if self._merged:
                (vector,), _ = exchange.mean(lambda batch: ([self._merged.vector(batch)], ()))(batches)
                self._merged.take(vector)
            taken = [self._take(group, batches, scalars, step, columns) for group in self._groups]
            self._end_step(step)
            return tf.concat(taken, 0)

        return rows_of(count, row)

    def _end_step(self, step: tf.Tensor) -> None:
        def end() -> None:
            self._after()

        if self._after_every == 1:
            end()
        else:
            tf.cond(step % self._after_every == 0, end, lambda: None)

    def _take(
        self, group: list[int], batches: list[Batch], scalars: Batch, step: tf.Tensor, columns: dict[int, list[Column]]
    ) -> tf.Tensor:
        """Take the step of a group of phases, if due; its statistics end to end, whose places go to `columns`."""
        phases = [self._phases[place] for place in group]

        def gradients(batch: Batch) -> tuple[list[tf.Tensor], tf.Tensor]:
            found = [phase.gradients(batch) for phase in phases]
            for place, phase, (_, statistics) in zip(group, phases, found, strict=True):
                columns[place] = phase.columns(statistics)
            return [g for own, _ in found for g in own], joined([x for _, own in found for x in own.values()])

        def taken() -> tf.Tensor:
            averaged, statistics = self._exchange.mean(gradients)(batches)
            for phase in phases:
                phase.apply(averaged[: len(phase.variables)], scalars[phase.lr])
                averaged = averaged[len(phase.variables) :]
            return statistics

        if phases[0].every == 1:
            return taken()
        # Alone in its group. Its statistics have their places in the steps in which it is not due, too.
        (place,), (phase,) = group, phases
        if place not in columns:
            columns[place] = phase.columns(_outline(phase.loss, batches[0]))
        width = sum(column.width for column in columns[place])
        return tf.cond(step % phase.every == 0, taken, lambda: tf.zeros(width))


def _clipped(gradient: tf.Tensor, bound: float) -> tf.Tensor:
    """Scaled to the norm `bound` where it is longer: tf.clip_by_norm with half as many passes over a large gradient."""
    norm = tf.sqrt(2.0 * tf.nn.l2_loss(gradient))
    return gradient * (bound / tf.maximum(norm, bound))


def _outline(loss: Callable[[Batch], tuple[tf.Tensor, Statistics]], batch: Batch) -> Statistics:
    """A loss's statistics of such batches, as symbolic tensors of a graph of their own: names and shapes alone."""
    # What an algorithm goes without is None.
    specs = tf.nest.map_structure(lambda x: None if x is None else tf.TensorSpec(x.shape, x.dtype), batch)
    with tf.init_scope():
        return compiled(loss).get_concrete_function(specs).structured_outputs[1]
