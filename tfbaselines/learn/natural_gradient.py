"""Natural gradient steps within a trust region: conjugate gradient, Fisher-vector products and a line search.

    x = F^-1 g,   step = x sqrt(2 max_kl / x.F x),   F = Hessian of the divergence + damping

F is never built: its products with vectors are second derivatives. A step is one compiled call. Over several ranks
every gradient, product and measurement is averaged, and all ranks compute the same step from these averages.

The step computes products and measurements between gradient and variables, so that it is no rule of learn/engine.py; it
shares the engine's calls (learn/exchange.py) and exchange.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.learn.engine import Batch, Statistics, gradients_of
from tfbaselines.learn.exchange import Calls, Row, joined, one_row, plain, scalars_of, taken_apart
from tfbaselines.parallel import mpi

Product = Callable[[tf.Tensor], tf.Tensor]
# Returns scalars by name: first the gain to maximize, second the divergence from the policy that collected the batch.
Measure = Callable[[Batch], dict[str, tf.Tensor]]

# A gradient without a component above this has no direction: nothing changes.
LEAST_GRADIENT = 1e-8


def conjugate_gradient(
    product: Product, b: tf.Tensor, iterations: int, tolerance: float = 1e-10, epsilon: float = 0.0
) -> tf.Tensor:
    """Solve A x = b from x = 0, for a symmetric positive definite A, until the squared residual is below `tolerance`.

    `product` returns A p for a vector p; epsilon is added to denominators.
    """

    def unsolved(residual: tf.Tensor, *_: tf.Tensor) -> tf.Tensor:
        return residual >= tolerance

    def iterate(residual: tf.Tensor, x: tf.Tensor, r: tf.Tensor, p: tf.Tensor) -> tuple[tf.Tensor, ...]:
        z = product(p)
        size = residual / (_dot(p, z) + epsilon)
        x, r = x + size * p, r - size * z
        new_residual = _dot(r, r)
        return new_residual, x, r, r + new_residual / residual * p

    tolerance = max(tolerance, float(np.finfo(b.dtype.as_numpy_dtype).tiny))
    first = _dot(b, b), tf.zeros_like(b), b, b
    return tf.while_loop(unsolved, iterate, first, maximum_iterations=iterations)[1]


def hessian_product(
    scalar: Callable[[], tf.Tensor], variables: Sequence[keras.Variable], vector: tf.Tensor
) -> tf.Tensor:
    """Multiply the Hessian of a scalar with respect to variables by a vector [P]."""
    values = [variable.value for variable in variables]
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            result = scalar()
        slope = joined(inner.gradient(result, values, unconnected_gradients="zero"))
        along = _dot(slope, tf.stop_gradient(vector))
    return joined(outer.gradient(along, values, unconnected_gradients="zero"))


@dataclass(frozen=True, kw_only=True)
class LineSearch:
    """Takes the first accepted part of a step among 1, shrink, shrink^2, ..., or nothing.

    Attributes:
        tries: largest number of parts to try.
        shrink: factor between one part and the next.
        margin: largest accepted divergence in units of max_kl.
    """

    tries: int
    shrink: float
    margin: float = 1.0

    def accepts(self, before: tf.Tensor, now: tf.Tensor, max_kl: tf.Tensor) -> tf.Tensor:
        """Check that a measure [K] is finite, its divergence within the bound, and its gain no smaller than before."""
        return tf.reduce_all(tf.math.is_finite(now)) & (now[1] <= self.margin * max_kl) & (now[0] >= before[0])

    def run(
        self,
        measure: Callable[[tf.Tensor], tf.Tensor],
        theta: tf.Tensor,
        step: tf.Tensor,
        before: tf.Tensor,
        max_kl: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        """Try parts of a step [P] from parameters theta [P], where the measure is `before` [K], under the bound max_kl.

        Returns:
            The parameters [P], the measure at the last parameters tried [K], the part taken, and the number of tries.
        """

        def undecided(accepted: tf.Tensor, *_: tf.Tensor) -> tf.Tensor:
            return ~accepted

        def attempt(_: tf.Tensor, part: tf.Tensor, tried: tf.Tensor, __: tf.Tensor) -> tuple[tf.Tensor, ...]:
            part = tf.where(tried == 0.0, 1.0, part * self.shrink)
            now = measure(theta + part * step)
            return self.accepts(before, now, max_kl), part, tried + 1.0, now

        first = tf.constant(False), tf.constant(0.0), tf.constant(0.0), before
        accepted, part, tried, last = tf.while_loop(undecided, attempt, first, maximum_iterations=self.tries)
        part = tf.where(accepted, part, 0.0)
        return tf.where(accepted, theta + part * step, theta), last, part, tried


class StepTaken(NamedTuple):
    """A natural gradient step.

    Attributes:
        before: the measure before the step, by name.
        last: the measure at the last parameters tried.
        part: the part of the step that was taken; 0 if none was accepted.
        tried: number of parts tried.
    """

    before: dict[str, float]
    last: dict[str, float]
    part: float
    tried: int


class NaturalGradient:
    """Steps of a policy's parameters that raise a gain and hold a divergence near a bound.

    Args:
        measure: see Measure.
        variables: the variables to change.
        cg_iters: iterations of the conjugate gradient.
        damping: added to the diagonal of F.
        search: shortens the step; None takes all of it.
        prepare: called once with the batch of each step; its result is measured.
        every: F is estimated from rows 0, every, 2 * every, ...
        tolerance: see conjugate_gradient.
        epsilon: added to the denominators of the conjugate gradient and of the step's size.
        jit: compile with XLA; see policy/layers.py.
    """

    def __init__(
        self,
        measure: Measure,
        variables: Sequence[keras.Variable],
        *,
        cg_iters: int,
        damping: float,
        search: LineSearch | None,
        prepare: Callable[[Batch], Batch] = lambda batch: batch,
        every: int = 1,
        tolerance: float = 1e-10,
        epsilon: float = 0.0,
        jit: bool = True,
        comm: mpi.Communicator | None = None,
    ) -> None:
        self._measure = measure
        self._variables = list(variables)
        self._cg_iters = cg_iters
        self._damping = damping
        self.search = search
        self._prepare = prepare
        self._every = every
        self._tolerance = tolerance
        self._epsilon = epsilon
        # Names in the measure; tracing fills them in.
        self._names: tuple[str, ...] = ()
        self._calls = Calls(self._variables, jit, comm)

    def __call__(self, data: dict[str, np.ndarray], max_kl: float, **coefficients: float) -> StepTaken:
        """Take a step.

        Args:
            data: arrays with the same first axis.
            max_kl: divergence of a whole step, to second order.
            coefficients: become part of the batch, as max_kl does.
        """
        rows = len(next(iter(data.values())))
        scalars = scalars_of({"max_kl": max_kl} | coefficients)
        before, last, part, tried = self._calls("step", self._step, one_row((data, scalars)), rows)
        return StepTaken(plain(before), plain(last), float(part), int(tried))

    def gradient(self, batch: Batch) -> tf.Tensor:
        """Return the measure [K] and the gradient of the gain [P], end to end."""

        def gain() -> tuple[tf.Tensor, tf.Tensor]:
            measured = self._measured(batch)
            return measured[0], measured

        gradients, measured = gradients_of(gain, self._variables)
        return tf.concat([measured, joined(gradients)], 0)

    def product(self, batch: Batch, vector: tf.Tensor) -> tf.Tensor:
        """Multiply F without damping by a vector [P]."""
        rows = {name: array[:: self._every] if array.shape.rank else array for name, array in batch.items()}
        return hessian_product(lambda: self._measured(rows)[1], self._variables, vector)

    def measure(self, batch: Batch, theta: tf.Tensor) -> tf.Tensor:
        """Set the variables to parameters [P], and return the measure [K]."""
        self._assign(theta)
        return self._measured(batch)

    def _step(self, ranks: list[Row]) -> tuple[Statistics, Statistics, tf.Tensor, tf.Tensor]:
        theta = joined([variable.value for variable in self._variables])
        batches = [self._prepare(data | coefficients) for data, coefficients in (row(0) for row in ranks)]
        max_kl = batches[0]["max_kl"]

        def averaged(function: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
            mean = self._calls.exchange.mean(lambda *arguments: ([function(*arguments)], ()))
            return lambda *arguments: mean(batches, *arguments)[0][0]

        fisher_product, measure = averaged(self.product), averaged(self.measure)
        before, gradient = tf.split(averaged(self.gradient)(), [-1, theta.shape[0]])
        gradient = tf.where(tf.reduce_max(tf.abs(gradient)) > LEAST_GRADIENT, gradient, 0.0)

        def product(vector: tf.Tensor) -> tf.Tensor:
            return fisher_product(vector) + self._damping * vector

        direction = conjugate_gradient(product, gradient, self._cg_iters, self._tolerance, self._epsilon)
        length = _dot(direction, product(direction)) + self._epsilon
        step = direction * tf.where(length > 0.0, tf.sqrt(2.0 * max_kl / length), 0.0)
        if self.search is None:
            part = tried = tf.constant(1.0)
            last = measure(theta + step)
        else:
            theta, last, part, tried = self.search.run(measure, theta, step, before, max_kl)
            self._assign(theta)
        return self._named(before), self._named(last), part, tried

    def _measured(self, batch: Batch) -> tf.Tensor:
        measured = self._measure(batch)
        self._names = tuple(measured)
        return tf.stack([tf.cast(value, tf.float32) for value in measured.values()])

    def _named(self, measured: tf.Tensor) -> Statistics:
        return dict(zip(self._names, tf.unstack(measured, len(self._names)), strict=True))

    def _assign(self, theta: tf.Tensor) -> None:
        for variable, value in zip(self._variables, taken_apart(theta, self._variables), strict=True):
            variable.assign(value)


def _dot(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(a * b)
