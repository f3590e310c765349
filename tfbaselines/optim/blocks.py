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


class BlockUpdate:
    """Gradient steps, one for each batch of a block.

    Args:
        phases: taken in their order in every step.
        prepare: adds to a batch what all phases share; it is not part of any gradient.
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
        after: Callable[[], None] = lambda: None,
        after_every: int = 1,
        jit: bool = True,
        comm: mpi.Communicator | None = None,
    ) -> None:
        self._phases, self._prepare, self._after, self._after_every = phases, prepare, after, after_every
        self._comm = mpi.wrap(comm)
        self.step = 0
        for phase in phases:
            phase.optimizer.build(phase.variables)
        self._fused = tf.function(self._run_all, jit_compile=jit)
        self._compiled_prepare = tf.function(prepare, jit_compile=jit)
        self._flat_gradients = [tf.function(self._flat_gradient(phase), jit_compile=jit) for phase in phases]
        self._applies = [tf.function(self._apply_flat(phase), jit_compile=jit) for phase in phases]
        self._compiled_after = tf.function(after, jit_compile=jit)

    def __call__(self, block: dict[str, Any], **coefficients: float) -> dict[str, float]:
        """Run one gradient step per batch.

        Args:
            block: arrays [K, B, ...], or dictionaries of them.
            coefficients: learning rates, and what losses ask for, by name; they are part of every batch.

        Returns:
            Means over the steps of the phases' statistics by name, nan for a phase that was not due in any of them.
        """
        tensors = tf.nest.map_structure(tf.convert_to_tensor, block)
        scalars = {name: tf.constant(value, tf.float32) for name, value in coefficients.items()}
        count = tf.nest.flatten(tensors)[0].shape[0]
        if self._comm.size == 1:
            sums = self._fused(tensors, scalars, tf.constant(self.step, tf.int32)).numpy()
        else:
            sums = sum(self._step_over_ranks(tensors, scalars, k) for k in range(count))
        due = [sum((self.step + k) % phase.every == 0 for k in range(count)) for phase in self._phases]
        self.step += count
        names = [(name, times) for phase, times in zip(self._phases, due, strict=True) for name in phase.statistics]
        return {
            name: float(total) / times if times else float("nan")
            for (name, times), total in zip(names, sums, strict=True)
        }

    def state(self) -> dict[str, Any]:
        """The number of steps and the optimisers' slots."""
        return {"step": self.step, "slots": {str(i): slots(phase.optimizer) for i, phase in enumerate(self._phases)}}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `state` gave."""
        self.step = state["step"]
        for i, phase in enumerate(self._phases):
            restore_slots(phase.optimizer, state["slots"][str(i)])

    def _run_all(self, block: Any, scalars: Batch, first: tf.Tensor) -> tf.Tensor:
        count = tf.nest.flatten(block)[0].shape[0]
        sums = tf.zeros(sum(len(phase.statistics) for phase in self._phases))
        for k in tf.range(count):
            batch = self._prepare(tf.nest.map_structure(lambda array, k=k: array[k], block) | scalars)
            sums += tf.concat([self._take(phase, batch, scalars, first + k) for phase in self._phases], 0)
            if self._after_every == 1 or (first + k) % self._after_every == 0:
                self._after()
        return sums

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
        sums = []
        for phase, gradient, apply in zip(self._phases, self._flat_gradients, self._applies, strict=True):
            if (self.step + k) % phase.every:
                sums.append(np.zeros(len(phase.statistics)))
                continue
            flat, statistics = gradient(batch)
            apply(tf.constant(self._comm.average(flat.numpy())), scalars[phase.lr])
            sums.append(statistics.numpy())
        if (self.step + k) % self._after_every == 0:
            self._compiled_after()
        return np.concatenate(sums)

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
