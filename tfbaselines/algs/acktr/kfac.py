"""K-FAC: natural gradient steps with Kronecker factors of the Fisher matrix (Martens & Grosse 2015), as in ACKTR.

The first steps are of gradient descent, while the factors S are averaged; then, with new ones from every batch,

    S <- decay S + (1 - decay) new;   u = (F + damping)^-1 g;   w <- w - lr (1 - momentum) sum_k momentum^k (c u)_k

where c <= 1 bounds lr^2 (c u)'g, twice the step's KL divergence to second order, by clip_kl.

Eigendecompositions of symmetric matrices, in threads.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.algs.acktr.kronecker import Eigen, KroneckerFactors, preconditioned
from tfbaselines.arrays import require_memory
from tfbaselines.compiling import compiled
from tfbaselines.learn.exchange import Exchange, joined, numbers_in, taken_apart
from tfbaselines.learn.update import Batch, Statistics, with_scalars
from tfbaselines.parallel import mpi

# Smaller ones are rounding: nothing is known of these directions.
LEAST_EIGENVALUE = 1e-6


class Decomposer:
    """Decomposes a fixed number of matrices at a time.

    They are handed in and out end to end, in one vector: [n, n] each, then n eigenvalues and [n, n] eigenvectors (as
    columns) each.

    Args:
        sizes: n of each matrix.
        threads: how many matrices are decomposed side by side.
    """

    def __init__(self, sizes: Sequence[int], threads: int) -> None:
        self._ends = np.cumsum([size * size for size in sizes])
        self._sizes = list(sizes)
        self._pool = ThreadPoolExecutor(min(threads, len(self._sizes)), thread_name_prefix="eigen")
        self._jobs: list[Future] = []

    def close(self) -> None:
        """End the threads, after the matrices that they are at."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    @property
    def busy(self) -> bool:
        """Whether there are matrices whose decomposition was not taken yet."""
        return bool(self._jobs)

    @property
    def done(self) -> bool:
        """Whether `result` has nothing to wait for."""
        return all(job.done() for job in self._jobs)

    def begin(self, matrices: np.ndarray) -> None:
        """Start with finite ones; the vector is read until the result is there."""
        parts = np.split(matrices, self._ends[:-1])
        shaped = [part.reshape(size, size) for part, size in zip(parts, self._sizes, strict=True)]
        self._jobs = [self._pool.submit(decomposed, matrix) for matrix in shaped]

    def result(self) -> np.ndarray:
        """Wait for the decompositions, end to end."""
        jobs, self._jobs = self._jobs, []
        return np.concatenate([part.ravel() for job in jobs for part in job.result()])


def decomposed(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues [n], those that are not clearly positive as 0, and eigenvectors [n, n] of a matrix."""
    # LAPACK, behind numpy, is 1.5 times as fast as TensorFlow's Eigen and a hundred times as exact. In a run it
    # keeps to one thread (parallel/threads.py), so that matrices are decomposed side by side.
    values, vectors = np.linalg.eigh(matrix)
    return np.where(values > LEAST_EIGENVALUE, values, np.float32(0.0)), vectors


# The statistic that is finite where the factors are.
FACTORS = "fisher_factors"

# float32: the averages, the eigenvectors, those of a batch, and what passes between Python and TensorFlow.
BYTES_PER_NUMBER = 4 * 5


class Objective(NamedTuple):
    """What a batch is measured by.

    Attributes:
        loss: what is minimised.
        likelihood: the mean over rows of the log-likelihood of samples from the model, whose Fisher matrix it is.
        statistics: scalars by name.
        rows: what the factors' vectors were added to, or became [B, n].
    """

    loss: tf.Tensor
    likelihood: tf.Tensor
    statistics: Statistics
    rows: Sequence[tf.Tensor] = ()


class Kfac:
    """Gradient steps preconditioned by the Fisher matrix, one for each batch. Leaving its context ends its threads.

    Gradient descent takes the first cold_steps + 1 steps, with a momentum of its own; K-FAC takes those from number
    cold_steps on, so that two are taken by both, as in the original. A step is one compiled call, or two with the
    decompositions between them.

    Over several ranks gradients and new factors are averaged. Rank 0 alone decomposes them, and all ranks take its
    decompositions over in the same step, be they made in line or in the background: parameters stay bit-equal.

    Args:
        objective: measures a batch.
        factors: of everything that changes.
        variables: what changes.
        clip_kl: bound of a step's divergence; see above.
        max_grad_norm: bound of the gradient's global norm in gradient descent; None for none.
        momentum: of both kinds of steps.
        damping: added to the eigenvalues of the Fisher matrix.
        decay: of the factors' averages.
        cold_steps: batches that the factors are averaged over before they are used.
        factors_every: steps between batches from which factors are computed, after these.
        decompose_every: steps between decompositions.
        is_async: decompose in the background, and go on with the last decompositions until there are new ones; the
            first ones are waited for.
        threads: which decompose factors side by side.
        jit: compile with XLA; see policy/precision.py.
        comm: the ranks that train together.
    """

    def __init__(
        self,
        objective: Callable[[Batch], Objective],
        factors: KroneckerFactors,
        variables: Sequence[keras.Variable],
        *,
        clip_kl: float,
        max_grad_norm: float | None = None,
        momentum: float = 0.9,
        damping: float = 0.01,
        decay: float = 0.99,
        cold_steps: int = 10,
        factors_every: int = 1,
        decompose_every: int = 1,
        is_async: bool = False,
        threads: int = 1,
        jit: bool = True,
        comm: mpi.Communicator | None = None,
    ) -> None:
        self._objective, self._factors, self._weights = objective, factors, list(variables)
        self._numbers = [factors.numbers_of(variable) for variable in self._weights]
        self._clip_kl, self._max_grad_norm, self._momentum = clip_kl, max_grad_norm, momentum
        self._damping, self._decay, self._cold_steps = damping, decay, cold_steps
        self._factors_every, self._decompose_every, self._is_async = factors_every, decompose_every, is_async
        self._comm, self._exchange, self._jit = mpi.wrap(comm), Exchange(comm, jit), jit
        self._decomposer = Decomposer(factors.sizes, threads)
        count = numbers_in(self._weights)
        squares, rows = sum(size * size for size in factors.sizes), sum(factors.sizes)
        require_memory(squares * BYTES_PER_NUMBER, "the width of the network's layers", "Kronecker factors")
        self.step = tf.Variable(0, trainable=False, dtype=tf.int64, name="step")
        self.averages = _zeros(squares, "averages")
        self.eigen = _zeros(squares + rows, "eigen")
        self.velocity, self.cold_velocity = _zeros(count, "velocity"), _zeros(count, "cold_velocity")
        # Names of the statistics: known once the objective is traced.
        self._names: tuple[str, ...] = ()
        self._whole = self._begun = self._ended = None

    def __enter__(self) -> "Kfac":
        return self

    def __exit__(self, *_: Any) -> None:
        self._decomposer.close()

    @property
    def variables(self) -> list[tf.Variable]:
        """What is saved: the counter of steps, factors, decompositions, and both momenta."""
        return [self.step, self.averages, self.eigen, self.velocity, self.cold_velocity]

    def __call__(self, data: dict[str, np.ndarray], lr: float, **coefficients: float) -> dict[str, float]:
        """Take a step, and return the statistics from before it.

        Args:
            data: arrays that share their first axis.
            lr: learning rate.
            coefficients: further numbers for the objective, which become part of its batch.
        """
        if self._whole is None:
            self._compile(data)
        rate, number = tf.constant(lr, tf.float32), int(self.step.numpy()) + 1
        batches = with_scalars(self._exchange.batches(data), coefficients)
        fresh, since = number <= self._cold_steps or number % self._factors_every == 0, number - self._cold_steps
        due = since == 0 or (since > 0 and number % self._decompose_every == 0)
        if self._is_async:
            self._take_over(wait=since == 1)
            statistics = self._whole(batches, rate, fresh)
            if due:
                self._begin()
        else:
            gradient, statistics = self._begun(batches, fresh)
            if due:
                self._take_over(wait=True)
            self._ended(gradient, rate)
        return dict(zip(self._names, statistics.numpy().tolist(), strict=True))

    def measure(self, batch: Batch, fresh: bool = True) -> tuple[list[tf.Tensor], tf.Tensor]:
        """The gradient of the loss [P], followed by the batch's factors end to end; and the statistics.

        Args:
            batch: tensors that share their first axis.
            fresh: compute the factors; their sum is a statistic.
        """
        values = [variable.value for variable in self._weights]
        with tf.GradientTape(persistent=True) as tape, self._factors.observed():
            measured = self._objective(batch)
        found = [joined(tape.gradient(measured.loss, values, unconnected_gradients="zero"))]
        if fresh:
            by = partial(tape.gradient, measured.likelihood, unconnected_gradients="zero")
            found.append(joined(self._factors.new(by, measured.rows)))
        statistics = measured.statistics | {FACTORS: tf.reduce_sum(found[1]) if fresh else tf.constant(0.0)}
        self._names = tuple(statistics)
        return found, tf.stack(list(statistics.values()))

    def natural(self, gradient: tf.Tensor, lr: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The clipped c (F + damping)^-1 g [P], and lr^2 u'g before clipping.

        Args:
            gradient: g [P].
            lr: learning rate.
        """
        eigen = self._decompositions()
        gradients = taken_apart(gradient, self._weights)
        parts = [
            preconditioned(part, [eigen[number] for number in numbers], self._damping)
            for part, numbers in zip(gradients, self._numbers, strict=True)
        ]
        direction = joined(parts)
        divergence = tf.square(lr) * tf.reduce_sum(direction * gradient)
        return direction * tf.minimum(1.0, tf.sqrt(self._clip_kl / divergence)), divergence

    def _decompositions(self) -> list[Eigen]:
        sizes = self._factors.sizes
        parts = tf.split(self.eigen, [length for size in sizes for length in (size, size * size)])
        return [
            (values, tf.reshape(vectors, (size, size)))
            for size, values, vectors in zip(sizes, parts[::2], parts[1::2], strict=True)
        ]

    def _compile(self, data: dict[str, np.ndarray]) -> None:
        """Of what is compiled here, only what is called is traced."""
        self._exchange.choose(self._weights, len(next(iter(data.values()))), data)
        self._whole = self._exchange.compile(self._measure_and_step)
        self._begun = self._exchange.compile(self._measure_and_average)
        self._ended = compiled(self._step, self._jit)

    def _measure_and_average(self, batches: list[Batch], fresh: bool) -> tuple[tf.Tensor, tf.Tensor]:
        """The gradient [P] over all ranks, and this rank's statistics."""
        (gradient, *factors), statistics = self._exchange.mean(partial(self.measure, fresh=fresh))(batches)
        if factors:
            self._average(*factors)
        return gradient, statistics

    def _measure_and_step(self, batches: list[Batch], lr: tf.Tensor, fresh: bool) -> tf.Tensor:
        gradient, statistics = self._measure_and_average(batches, fresh)
        self._step(gradient, lr)
        return statistics

    def _average(self, factors: tf.Tensor) -> None:
        """Take new factors into the averages: the plain mean of the first ones, then with decay."""
        first = self.step < self._cold_steps
        keep, share = tf.where(first, 1.0, self._decay), tf.where(first, 1.0 / self._cold_steps, 1.0 - self._decay)
        self.averages.assign(keep * self.averages + share * factors)

    def _step(self, gradient: tf.Tensor, lr: tf.Tensor) -> None:
        """Change the weights by gradient descent, by K-FAC, or by both."""
        number = self.step.assign_add(1)
        natural = tf.where(number >= self._cold_steps, lr * (1.0 - self._momentum), 0.0)
        direction, _ = self.natural(gradient, lr)
        if self._max_grad_norm is not None:
            gradient = tf.clip_by_norm(gradient, self._max_grad_norm)
        cold = number <= self._cold_steps + 1
        self.velocity.assign(self._momentum * self.velocity + direction)
        self.cold_velocity.assign(tf.where(cold, self._momentum * self.cold_velocity + gradient, self.cold_velocity))
        change = natural * self.velocity + tf.where(cold, lr, 0.0) * self.cold_velocity
        for variable, part in zip(self._weights, taken_apart(change, self._weights), strict=True):
            variable.assign_sub(part)

    def _begin(self) -> None:
        """Start to decompose the averages, on rank 0, unless it still is at the last ones."""
        if self._comm.rank == 0 and not self._decomposer.busy:
            averages = self.averages.numpy()
            # Of a batch that is not finite the statistics tell; the last decompositions stay.
            if np.isfinite(averages).all():
                self._decomposer.begin(averages)

    def _take_over(self, wait: bool) -> None:
        """Use the decompositions that are done.

        Args:
            wait: until they are done; decompose the averages where there are none under way.
        """
        if wait:
            self._begin()
        ready = self._comm.broadcast_object(self._decomposer.busy and (wait or self._decomposer.done))
        if ready:
            root = self._comm.rank == 0
            found = self._decomposer.result() if root else np.empty(self.eigen.shape, np.float32)
            self.eigen.assign(self._comm.broadcast(found))


def _zeros(count: int, name: str) -> tf.Variable:
    return tf.Variable(tf.zeros(count), trainable=False, name=name)
