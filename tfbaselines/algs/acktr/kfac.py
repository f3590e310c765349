"""K-FAC: natural gradient steps with Kronecker factors of the Fisher matrix (Martens & Grosse 2015), as in ACKTR.

The first steps are gradient descent, while the factors S are averaged. Then, with new factors from every batch,

    S <- decay S + (1 - decay) new;   u = (F + damping)^-1 g;   w <- w - lr (1 - momentum) sum_k momentum^k (c u)_k

where c <= 1 bounds lr^2 (c u)'g, twice the step's KL divergence to second order, by clip_kl.

A step decomposes matrices in Python threads between its gradient and its variables, so that it is no rule of
learn/engine.py; it shares the engine's calls (learn/exchange.py) and exchange.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.algs.acktr.kronecker import Eigen, KroneckerFactors, preconditioned
from tfbaselines.files import require_memory
from tfbaselines.learn.engine import Batch, Statistics
from tfbaselines.learn.exchange import Calls, Row, joined, numbers_in, one_row, plain, scalars_of, taken_apart
from tfbaselines.parallel import mpi

# Smaller eigenvalues are rounding errors.
LEAST_EIGENVALUE = 1e-6


class Decomposer:
    """Decomposes a fixed number of matrices of given sizes n at a time, in threads.

    One vector holds all matrices [n, n] end to end. Another one holds n eigenvalues, then [n, n] eigenvectors (as
    columns), of each matrix.
    """

    def __init__(self, sizes: Sequence[int], threads: int) -> None:
        self._ends = np.cumsum([size * size for size in sizes])
        self._sizes = list(sizes)
        self._pool = ThreadPoolExecutor(min(threads, len(self._sizes)), thread_name_prefix="eigen")
        self._jobs: list[Future] = []

    def close(self) -> None:
        """End the threads after their present matrices."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    @property
    def busy(self) -> bool:
        """True between `begin` and `result`."""
        return bool(self._jobs)

    @property
    def done(self) -> bool:
        """True if `result` need not wait."""
        return all(job.done() for job in self._jobs)

    def begin(self, matrices: np.ndarray) -> None:
        """Start to decompose finite matrices; the vector must not change until the result is there."""
        parts = np.split(matrices, self._ends[:-1])
        shaped = [part.reshape(size, size) for part, size in zip(parts, self._sizes, strict=True)]
        self._jobs = [self._pool.submit(decomposed, matrix) for matrix in shaped]

    def result(self) -> np.ndarray:
        """Wait for the decompositions, end to end."""
        parts = [part.ravel() for job in self._jobs for part in job.result()]
        self._jobs = []
        return np.concatenate(parts)


def decomposed(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute eigenvalues [n], at least LEAST_EIGENVALUE or 0, and eigenvectors [n, n] of a matrix."""
    # LAPACK, behind numpy, is 1.5 times as fast as TensorFlow's Eigen and a hundred times as exact. In a run it uses
    # one thread (parallel/mpi.py), so that matrices are decomposed in parallel.
    values, vectors = np.linalg.eigh(matrix)
    return np.where(values > LEAST_EIGENVALUE, values, np.float32(0.0)), vectors


# Statistic that is finite if the factors are.
FACTORS = "fisher_factors"

# float32: averages, eigenvectors, a batch's factors, and copies of both between Python and TensorFlow.
BYTES_PER_NUMBER = 4 * 5


class Objective(NamedTuple):
    """Loss, log-likelihood and statistics of a batch."""

    loss: tf.Tensor
    # The mean over rows of the log-likelihood of samples from the model; it defines the Fisher matrix.
    likelihood: tf.Tensor
    statistics: Statistics
    # For each vector in the factors, the tensor [B, n] that the vector was added to or became.
    rows: Sequence[tf.Tensor] = ()


class Kfac:
    """Gradient steps preconditioned by the Fisher matrix, one for each batch. Leaving the context ends the threads.

    The first cold_steps + 1 steps are gradient descent with separate momentum. K-FAC starts with step cold_steps, so
    that two steps are both, as in the original. A step is one compiled call, or two with the decompositions between
    them.

    Over several ranks gradients and new factors are averaged. Rank 0 alone decomposes them, and all ranks take its
    decompositions in the same step, with and without is_async: parameters stay bit-equal.

    Attributes:
        step: number of steps so far.
        averages: averages of the factors, end to end.
        eigen: the latest decompositions, as Decomposer returns them.
        velocity: momentum of K-FAC.
        cold_velocity: momentum of gradient descent.

    Args:
        objective: function of a batch that runs copies of the layers that `factors` observes.
        factors: Kronecker factors of all variables.
        variables: the variables to change.
        clip_kl: bound of a step's divergence; see above.
        max_grad_norm: bound of the gradient's global norm in gradient descent; None for no bound.
        momentum: momentum of both kinds of steps.
        damping: number to add to the eigenvalues of the Fisher matrix.
        decay: decay of the factors' averages.
        cold_steps: number of batches in the factors' averages before the first decomposition.
        factors_every: later steps from one computation of factors to the next.
        decompose_every: steps from one decomposition to the next.
        is_async: decompose in the background, and use the last decompositions until new ones are there. A step waits
            for the first decompositions only.
        threads: number of factors to decompose in parallel.
        jit: compile with XLA; see policy/layers.py.
        comm: communicator of the ranks that train together.
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
        self._objective = objective
        self._factors = factors
        self._weights = list(variables)
        self._numbers = [factors.numbers_of(variable) for variable in self._weights]
        self._clip_kl = clip_kl
        self._max_grad_norm = max_grad_norm
        self._momentum = momentum
        self._damping = damping
        self._decay = decay
        self._cold_steps = cold_steps
        self._factors_every = factors_every
        self._decompose_every = decompose_every
        self._is_async = is_async
        self._comm = mpi.wrap(comm)
        self._calls = Calls(self._weights, jit, comm)
        self._local = Calls(self._weights, jit)
        self._decomposer = Decomposer(factors.sizes, threads)
        count = numbers_in(self._weights)
        squares = sum(size * size for size in factors.sizes)
        rows = sum(factors.sizes)
        require_memory(squares * BYTES_PER_NUMBER, "the width of the network's layers", "Kronecker factors")
        self.step = tf.Variable(0, trainable=False, dtype=tf.int64, name="step")
        self.averages = _zeros(squares, "averages")
        self.eigen = _zeros(squares + rows, "eigen")
        self.velocity = _zeros(count, "velocity")
        self.cold_velocity = _zeros(count, "cold_velocity")
        # The gradient between the two calls of a step.
        self._gradient = None if is_async else _zeros(count, "gradient")

    def __enter__(self) -> "Kfac":
        return self

    def __exit__(self, *_: Any) -> None:
        self._decomposer.close()

    @property
    def variables(self) -> list[tf.Variable]:
        """Slots for a checkpoint: the number of steps, factors, decompositions, and both momenta."""
        return [self.step, self.averages, self.eigen, self.velocity, self.cold_velocity]

    def __call__(self, data: dict[str, np.ndarray], lr: float, **coefficients: float) -> dict[str, float]:
        """Take a step, and return the statistics of before it; the coefficients become part of the batch."""
        number = int(self.step.numpy()) + 1
        fresh = number <= self._cold_steps or number % self._factors_every == 0
        since = number - self._cold_steps
        due = since == 0 or (since > 0 and number % self._decompose_every == 0)
        rows = len(next(iter(data.values())))
        structure = one_row((data, scalars_of({"lr": lr} | coefficients)))
        if self._is_async:
            self._take_over(wait=since == 1)
        statistics = self._calls(fresh, partial(self._first_call, fresh), structure, rows)
        if due and self._is_async:
            self._begin()
        elif due:
            self._take_over(wait=True)
        if not self._is_async:
            self._local("step", self._second_call, one_row((np.float32(lr),)))
        return plain(statistics)

    def traces(self) -> int:
        """Count the traces of a step's compiled calls."""
        return self._calls.traces() + self._local.traces()

    def measure(self, batch: Batch, fresh: bool = True) -> tuple[list[tf.Tensor], Statistics]:
        """Compute the gradient of the loss [P], if `fresh` the batch's factors end to end, and the statistics."""
        values = [variable.value for variable in self._weights]
        self._factors.begin()
        with tf.GradientTape(persistent=True) as tape:
            measured = self._objective(batch)
        found = [joined(tape.gradient(measured.loss, values, unconnected_gradients="zero"))]
        if fresh:
            by = partial(tape.gradient, measured.likelihood, unconnected_gradients="zero")
            found.append(joined(self._factors.new(by, measured.rows)))
        return found, measured.statistics | {FACTORS: tf.reduce_sum(found[1]) if fresh else tf.constant(0.0)}

    def natural(self, gradient: tf.Tensor, lr: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Compute the clipped c (F + damping)^-1 g [P] of a gradient g [P], and lr^2 u'g before clipping."""
        eigen = self._decompositions()
        parts = [
            preconditioned(part, [eigen[number] for number in numbers], self._damping)
            for part, numbers in zip(taken_apart(gradient, self._weights), self._numbers, strict=True)
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

    def _first_call(self, fresh: bool, ranks: list[Row]) -> Statistics:
        """Average the factors, and step unless the decompositions come first; return this rank's statistics."""
        batches = [data | coefficients for data, coefficients in (row(0) for row in ranks)]
        mean = self._calls.exchange.mean(partial(self.measure, fresh=fresh))
        (gradient, *factors), statistics = mean(batches)
        if factors:
            # The plain mean of the first factors, then with decay.
            first = self.step < self._cold_steps
            keep = tf.where(first, 1.0, self._decay)
            share = tf.where(first, 1.0 / self._cold_steps, 1.0 - self._decay)
            self.averages.assign(keep * self.averages + share * factors[0])
        if self._is_async:
            self._step(gradient, ranks[0](0)[1]["lr"])
        else:
            self._gradient.assign(gradient)
        return statistics

    def _second_call(self, ranks: list[Row]) -> tf.Tensor:
        (lr,) = ranks[0](0)
        self._step(self._gradient.value(), lr)
        return lr

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
        """Start to decompose the averages on rank 0, unless a decomposition is under way."""
        if self._comm.rank == 0 and not self._decomposer.busy:
            averages = self.averages.numpy()
            # After a batch with infinite factors the last decompositions stay; FACTORS, in the statistics, is infinite.
            if np.isfinite(averages).all():
                self._decomposer.begin(averages)

    def _take_over(self, wait: bool) -> None:
        """Use finished decompositions; if `wait`, wait for them, after starting them if none are under way."""
        if wait:
            self._begin()
        ready = self._comm.broadcast_object(self._decomposer.busy and (wait or self._decomposer.done))
        if ready:
            root = self._comm.rank == 0
            found = self._decomposer.result() if root else np.empty(self.eigen.shape, np.float32)
            self.eigen.assign(self._comm.broadcast(found))


def _zeros(count: int, name: str) -> tf.Variable:
    return tf.Variable(tf.zeros(count), trainable=False, name=name)
