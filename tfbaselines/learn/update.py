"""The update: many minibatches of gradient steps as one compiled call, or averaged over MPI ranks.

An algorithm brings a loss, ``loss(batch, coefficients) -> (scalar, statistics)``, and gets one call that runs every
minibatch of an optimisation phase. The whole phase is one ``tf.function``, averages over ranks included: a call per
minibatch would spend most of its time between Python and TensorFlow.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.compiling import compiled, rows_of
from tfbaselines.learn.exchange import Exchange, clipped, joined, taken_apart
from tfbaselines.learn.optimizers import Optimizer, descend
from tfbaselines.learn.packing import PackedCalls, Row
from tfbaselines.parallel import mpi

Batch = dict[str, tf.Tensor]
Statistics = dict[str, tf.Tensor]
Loss = Callable[[Batch, dict[str, tf.Tensor]], tuple[tf.Tensor, Statistics]]
Gradients = Callable[[Batch, dict[str, tf.Tensor]], tuple[list[tf.Tensor], Statistics]]


def gradients_of(
    loss: Callable[[], tuple[tf.Tensor, Statistics]], variables: Sequence[keras.Variable]
) -> tuple[list[tf.Tensor], Statistics]:
    """One gradient per variable of the scalar that `loss` returns, and the statistics that it returns."""
    values = [variable.value for variable in variables]
    with tf.GradientTape() as tape:
        scalar, statistics = loss()
    return tape.gradient(scalar, values, unconnected_gradients="zero"), statistics


def with_scalars(batches: list[Batch], coefficients: dict[str, float]) -> list[Batch]:
    """Batches with the same further numbers, as tensors, in each."""
    scalars = {name: tf.constant(value, tf.float32) for name, value in coefficients.items()}
    return [batch | scalars for batch in batches]


def _one_row(data: Any) -> Any:
    """Arrays, or dictionaries of them, with a first axis of length one; tf.nest would take 30 us a dictionary."""
    if isinstance(data, dict):
        return {name: _one_row(part) for name, part in data.items()}
    return np.asarray(data)[None]


class Update:
    """Gradient steps on one loss.

    Args:
        loss: function of a batch (tensors whose first axis is the minibatch) and of scalar coefficients (tensors by
            name) that returns the scalar to minimise and its statistics, scalars by name.
        variables: the Keras variables to change, in the order of the flat gradient.
        optimizer: its learning rate is the coefficient 'lr'.
        max_grad_norm: bound of the global norm of the (averaged) gradient; None for none.
        jit: compile with XLA; see policy/precision.py.
        comm: communicator over which gradients are averaged.
        rank_weight: this rank's weight in that average.
        gradients: in place of `loss`, for gradients that are not those of a scalar: function of a batch and
            coefficients that returns one gradient per variable and the statistics.
        after_step: called after each gradient step, in the same compiled function.
    """

    def __init__(
        self,
        loss: Loss | None,
        variables: Sequence[keras.Variable],
        optimizer: Optimizer,
        *,
        max_grad_norm: float | None = None,
        jit: bool = True,
        comm: mpi.Communicator | None = None,
        rank_weight: float = 1.0,
        gradients: Gradients | None = None,
        after_step: Callable[[], None] | None = None,
    ) -> None:
        self._gradients_of = gradients or self._gradients_of_loss
        self._after_step = after_step
        self._loss = loss
        self._variables = list(variables)
        self._optimizer = optimizer
        self._max_grad_norm = max_grad_norm
        self._comm, self._rank_weight = mpi.wrap(comm), rank_weight
        self._exchange = Exchange(comm, jit, rank_weight)
        # Names of the statistics, in the order of their vector: known once the loss is traced.
        self._names: tuple[str, ...] = ()
        optimizer.build(self._variables)
        self._fused: PackedCalls | None = None
        self._flat_gradient = compiled(self._gradient_of_one, jit)
        self._apply_flat = compiled(self._apply_flat_gradient, jit)

    def __call__(self, data: dict[str, np.ndarray], indices: np.ndarray, **coefficients: float) -> dict[str, float]:
        """Run one gradient step per row of `indices`.

        Args:
            data: arrays, or dictionaries of them, that share their first axis.
            indices: [K, B] int32, the rows of `data` that make each of the K minibatches.
            coefficients: numbers for the loss, and 'lr'.

        Returns:
            The means over the K steps of the loss's statistics, each taken before its step.
        """
        indices = np.asarray(indices, np.int32)
        if self._fused is None:
            self._exchange.choose(self._variables, indices.shape[1], data)
            self._fused = PackedCalls(self._exchange)
        # As the one row of a block, which is packed for the call.
        scalars = {name: np.full(1, value, np.float32) for name, value in coefficients.items()}
        block = _one_row(data), indices[None], scalars
        key = tuple(data), tuple(scalars), *((array.shape, array.dtype) for array in tf.nest.flatten(block))
        means = self._fused(key, block, self._run_all)
        return dict(zip(self._names, means.tolist(), strict=True))

    def in_parts(self, parts: Iterable[tuple[dict[str, np.ndarray], float]], **coefficients: float) -> dict[str, float]:
        """Run one gradient step on a batch that comes in parts, of which one at a time is in memory.

        The gradient is the weighted mean of the parts' own: that of the whole batch, for a loss that is a mean.

        Args:
            parts: the arrays of each, which share their first axis, and its weight: how much its mean was taken over.
            coefficients: numbers for the loss, and 'lr'.

        Returns:
            The weighted means of the loss's statistics, taken before the step.
        """
        scalars = {name: tf.constant(value, tf.float32) for name, value in coefficients.items()}
        gradient, statistics, total = 0.0, 0.0, 0.0
        for data, weight in parts:
            tensors = {name: tf.convert_to_tensor(array) for name, array in data.items()}
            rows = tf.range(len(next(iter(data.values()))))
            flat, values = self._flat_gradient(tensors, rows, scalars)
            gradient, statistics = gradient + weight * flat.numpy(), statistics + weight * values.numpy()
            total += weight
        self.descend(self._comm.average(gradient / total, weight=self._rank_weight), coefficients["lr"])
        return dict(zip(self._names, (statistics / total).tolist(), strict=True))

    def descend(self, gradient: np.ndarray, lr: float) -> None:
        """Take one step down a gradient that was computed elsewhere, equal on every rank.

        Args:
            gradient: [P] of all variables.
            lr: the learning rate.
        """
        self._apply_flat(tf.constant(gradient, tf.float32), tf.constant(lr, tf.float32))

    def traces(self) -> int:
        """How many times the compiled phase was traced: once, unless shapes change from call to call."""
        return self._fused.traces()

    def _gradients(self, data: Batch, rows: tf.Tensor, scalars: dict[str, tf.Tensor]) -> tuple[list, tf.Tensor]:
        batch = tf.nest.map_structure(lambda array: tf.gather(array, rows), data)
        gradients, statistics = self._gradients_of(batch, scalars)
        self._names = tuple(statistics)
        return gradients, tf.stack([tf.cast(value, tf.float32) for value in statistics.values()])

    def _gradients_of_loss(self, batch: Batch, scalars: dict[str, tf.Tensor]) -> tuple[list, Statistics]:
        return gradients_of(lambda: self._loss(batch, scalars), self._variables)

    def _apply(self, gradients: list[tf.Tensor], lr: tf.Tensor) -> None:
        if self._max_grad_norm is not None:
            gradients = clipped(gradients, self._variables, self._max_grad_norm)
        descend(self._optimizer, gradients, self._variables, lr)
        if self._after_step is not None:
            self._after_step()

    def _run_all(self, blocks: list[Row]) -> tf.Tensor:
        """All steps on the data and indices of each rank that are here; the means of this rank's statistics."""
        rows = [block(0) for block in blocks]
        batches, scalars = [row[:2] for row in rows], rows[0][2]
        mean = self._exchange.mean(lambda batch, k: self._gradients(batch[0], batch[1][k], scalars))

        def step(k: tf.Tensor) -> tf.Tensor:
            gradients, statistics = mean(batches, k)
            self._apply(gradients, scalars["lr"])
            return statistics

        return tf.reduce_mean(rows_of(batches[0][1].shape[0], step), 0)

    def _gradient_of_one(
        self, data: Batch, rows: tf.Tensor, scalars: dict[str, tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        gradients, statistics = self._gradients(data, rows, scalars)
        return joined(gradients), statistics

    def _apply_flat_gradient(self, flat: tf.Tensor, lr: tf.Tensor) -> None:
        self._apply(taken_apart(flat, self._variables), lr)
