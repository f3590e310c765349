"""Gradient steps of several optimisers in turn over a block of batches: one compiled call, or averaged over MPI ranks.

One gradient step of an off-policy algorithm is made of phases: the critics', the actor's, the temperature's. What the
phases share is prepared first, with the weights as they were before the step; target networks follow at its end.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.optim.optimizers import restore_slots, slots
from tfbaselines.optim.update import gradients_of, joined, taken_apart
from tfbaselines.parallel import mpi

Batch = dict[str, tf.Tensor]


class Phase(NamedTuple):
    """One optimiser's part of a gradient step.

    Attributes:
        loss: function of a prepared batch that returns the scalar to minimise and its statistics, a vector.
        statistics: their names.
        variables: what changes.
        optimizer: how; its learning rate is the coefficient `lr`.
        lr: name of that coefficient.
        every: taken in steps 0, every, 2 * every, ...
        clip: bound of the norm of each variable's gradient; None for none.
    """

    loss: Callable[[Batch], tuple[tf.Tensor, tf.Tensor]]
    statistics: tuple[str, ...]
    variables: list[keras.Variable]
    optimizer: keras.Optimizer
    lr: str = "lr"
    every: int = 1
    clip: float | None = None


class Merged(NamedTuple):
    """Something about each batch that is averaged over ranks before the phases, such as sums of what was seen.

    Attributes:
        vector: function of a prepared batch.
        take: is called with its average; runs in compiled code.
    """

    vector: Callable[[Batch], tf.Tensor]
    take: Callable[[tf.Tensor], None]


class BlockUpdate:
    """Gradient steps, one for each batch of a block.

    Args:
        phases: taken in their order in every step.
        prepare: adds to a batch what all phases share; it is not part of any gradient.
        merged: see Merged; comes after `prepare`.
        together: every phase's gradient is taken before any of them changes its variables.
        after: called at the end of a step, inside of compiled code.
        after_every: called in steps 0, after_every, ...
        jit: compile with XLA; see Update.
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
        self._phases, self._prepare, self._merged, self._together = phases, prepare, merged, together
        self._after, self._after_every = after, after_every
        self._comm = mpi.wrap(comm)
        self.step = 0
        for phase in phases:
            phase.optimizer.build(phase.variables)

        def compiled(function: Callable) -> Callable:
            return tf.function(function, jit_compile=jit)

        self._fused = compiled(self._run_all)
        self._compiled_prepare, self._compiled_after = compiled(prepare), compiled(after)
        if merged:
            self._compiled_merged = Merged(compiled(merged.vector), compiled(merged.take))
        self._flat_gradients = [compiled(self._flat_gradient(phase)) for phase in phases]
        self._applies = [compiled(self._apply_flat(phase)) for phase in phases]

    def __call__(self, block: dict[str, Any], **coefficients: float) -> dict[str, np.ndarray]:
        """Run one gradient step per batch.

        Args:
            block: arrays [K, B, ...], or dictionaries of them.
            coefficients: learning rates, and what losses ask for, by name; they are part of every batch.

        Returns:
            The phases' statistics by name, for each step in which the phase was due.
        """
        tensors = tf.nest.map_structure(tf.convert_to_tensor, block)
        scalars = {name: tf.constant(value, tf.float32) for name, value in coefficients.items()}
        count = tf.nest.flatten(tensors)[0].shape[0]
        if self._comm.size == 1:
            rows = self._fused(tensors, scalars, tf.constant(self.step, tf.int32)).numpy()
        else:
            rows = np.stack([self._step_over_ranks(tensors, scalars, k) for k in range(count)])
        steps = self.step + np.arange(count)
        self.step += count
        names = [(name, phase.every) for phase in self._phases for name in phase.statistics]
        return {name: column[steps % every == 0] for (name, every), column in zip(names, rows.T, strict=True)}

    def prepared(self, batch: dict[str, Any]) -> Batch:
        """What `prepare` makes of one batch."""
        return self._compiled_prepare(tf.nest.map_structure(tf.convert_to_tensor, batch))

    def state(self) -> dict[str, Any]:
        """The number of steps and the optimisers' slots."""
        return {"step": self.step, "slots": {str(i): slots(phase.optimizer) for i, phase in enumerate(self._phases)}}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `state` gave; ValueError when it was of other gradient steps."""
        if len(state["slots"]) != len(self._phases):
            raise ValueError(f"it was trained by {len(state['slots'])} optimisers, here there are {len(self._phases)}")
        self.step = state["step"]
        for i, phase in enumerate(self._phases):
            restore_slots(phase.optimizer, state["slots"][str(i)])

    def _run_all(self, block: Any, scalars: Batch, first: tf.Tensor) -> tf.Tensor:
        count = tf.nest.flatten(block)[0].shape[0]
        width = sum(len(phase.statistics) for phase in self._phases)
        rows = tf.TensorArray(tf.float32, count, element_shape=(width,))
        for k in tf.range(count):
            batch = self._prepare(tf.nest.map_structure(lambda array, k=k: array[k], block) | scalars)
            if self._merged:
                self._merged.take(self._merged.vector(batch))
            rows = rows.write(k, tf.concat(self._phases_of_step(batch, scalars, first + k), 0))
            if self._after_every == 1 or (first + k) % self._after_every == 0:
                self._after()
        return rows.stack()

    def _phases_of_step(self, batch: Batch, scalars: Batch, step: tf.Tensor) -> list[tf.Tensor]:
        """Take every phase that is due; their statistics."""
        if not self._together:
            return [self._take(phase, batch, scalars, step) for phase in self._phases]
        taken = [gradients_of(lambda phase=phase: phase.loss(batch), phase.variables) for phase in self._phases]
        for phase, (gradients, _) in zip(self._phases, taken, strict=True):
            _apply(phase, gradients, scalars[phase.lr])
        return [statistics for _, statistics in taken]

    def _take(self, phase: Phase, batch: Batch, scalars: Batch, step: tf.Tensor) -> tf.Tensor:
        def taken() -> tf.Tensor:
            gradients, statistics = gradients_of(lambda: phase.loss(batch), phase.variables)
            _apply(phase, gradients, scalars[phase.lr])
            return statistics

        if phase.every == 1:
            return taken()
        return tf.cond(step % phase.every == 0, taken, lambda: tf.zeros(len(phase.statistics)))

    def _step_over_ranks(self, block: Any, scalars: Batch, k: int) -> np.ndarray:
        batch = self._compiled_prepare(tf.nest.map_structure(lambda array: array[k], block) | scalars)
        if self._merged:
            vector = self._compiled_merged.vector(batch).numpy()
            self._compiled_merged.take(tf.constant(self._comm.average(vector)))
        rows, waiting = [], []
        for phase, gradient, apply in zip(self._phases, self._flat_gradients, self._applies, strict=True):
            if (self.step + k) % phase.every:
                rows.append(np.zeros(len(phase.statistics)))
                continue
            flat, statistics = gradient(batch)
            rows.append(statistics.numpy())
            waiting.append((apply, tf.constant(self._comm.average(flat.numpy())), scalars[phase.lr]))
            if not self._together:
                _apply_all(waiting)
        _apply_all(waiting)
        if (self.step + k) % self._after_every == 0:
            self._compiled_after()
        return np.concatenate(rows)

    def _flat_gradient(self, phase: Phase) -> Callable[[Batch], tuple[tf.Tensor, tf.Tensor]]:
        def flat_gradient(batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
            gradients, statistics = gradients_of(lambda: phase.loss(batch), phase.variables)
            return joined(gradients), statistics

        return flat_gradient

    def _apply_flat(self, phase: Phase) -> Callable[[tf.Tensor, tf.Tensor], None]:
        def apply_flat(flat: tf.Tensor, lr: tf.Tensor) -> None:
            _apply(phase, taken_apart(flat, phase.variables), lr)

        return apply_flat


def _apply(phase: Phase, gradients: list[tf.Tensor], lr: tf.Tensor) -> None:
    if phase.clip is not None:
        gradients = [tf.clip_by_norm(gradient, phase.clip) for gradient in gradients]
    phase.optimizer.learning_rate.assign(lr)
    phase.optimizer.apply(gradients, phase.variables)


def _apply_all(waiting: list[tuple[Callable, tf.Tensor, tf.Tensor]]) -> None:
    while waiting:
        apply, flat, lr = waiting.pop(0)
        apply(flat, lr)
