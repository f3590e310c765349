"""Average gradients over MPI ranks inside compiled code, in one of two ways that give the same step.

'gradients': each rank computes the gradient of its own batch, and each step sends one message. This pays where a
gradient costs more than a message: convolutions, wide layers, many ranks.

'batches': the ranks send each other their batches once, and each rank computes the gradients of all batches. No message
interrupts the steps, so that XLA compiles the whole phase. This pays for small networks and few ranks.

Gradients of many shapes travel, and are clipped, as one vector: XLA runs a kernel for each small array, and a dozen
kernels cost more than the arithmetic in them.
"""

import math
import socket
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.compiling import compiled
from tfbaselines.parallel import mpi

# Up to this many numbers one vector is faster than many arrays: copying a longer one takes longer than the kernels.
FEW = 100_000

# Parameters x rows of the batch x other ranks. Above this, computing the other ranks' gradients takes longer than
# sending a message.
MOST_WORK = 4e6
# The batches that all ranks exchange take at most this much memory.
MOST_BYTES = 2**28

Arrays = list[tf.Tensor]
# Returns the arrays to average over ranks, and a structure of float32 tensors that stay this rank's own.
Function = Callable[..., tuple[Arrays, Any]]

_kind = "auto"
# Decisions for the logs.
_news: list[str] = []


def joined(arrays: Sequence[tf.Tensor]) -> tf.Tensor:
    """Join arrays end to end into one float32 vector: one message between ranks, one copy out of a compiled call."""
    return tf.concat([tf.reshape(array, [-1]) for array in arrays], 0)


def taken_apart(flat: tf.Tensor, like: Sequence[keras.Variable | tf.Tensor]) -> Arrays:
    """Split a vector that `joined` made into the shapes of variables or arrays."""
    parts = tf.split(flat, [math.prod(one.shape) for one in like])
    return [tf.reshape(part, one.shape) for part, one in zip(parts, like, strict=True)]


def numbers_in(variables: Sequence[keras.Variable]) -> int:
    """Count the numbers in all variables."""
    return sum(math.prod(variable.shape) for variable in variables)


def few(variables: Sequence[keras.Variable]) -> bool:
    """Decide whether one vector of all variables is faster than the separate variables."""
    return numbers_in(variables) <= FEW


def clipped(gradients: Sequence[tf.Tensor], variables: Sequence[keras.Variable], most: float) -> Arrays:
    """Scale gradients down together to a global norm of at most `most`.

    Args:
        gradients: one for each variable.
        variables: the variables, for their shapes.
        most: the largest norm.
    """
    if not few(variables):
        return tf.clip_by_global_norm(gradients, most)[0]
    (flat,), _ = tf.clip_by_global_norm([joined(gradients)], most)
    return taken_apart(flat, variables)


def set_exchange(kind: str) -> None:
    """Set how all later engines exchange: 'batches', 'gradients', or 'auto' to choose by size."""
    global _kind
    _kind = kind


def news() -> list[str]:
    """Return the decisions since the last call, a line each."""
    lines = list(_news)
    _news.clear()
    return lines


class Exchange:
    """Averages over ranks, for one engine.

    Args:
        comm: communicator of the ranks.
        jit: compile with XLA; see policy/layers.py.
        weight: this rank's weight in the averages.
    """

    def __init__(self, comm: mpi.Communicator | None = None, jit: bool = True, weight: float = 1.0) -> None:
        self._comm = mpi.wrap(comm)
        self._jit = jit
        self._weight = weight
        self._kind = _kind
        # Each rank's share in the averages.
        self._parts = np.ones(1)
        # Place of this rank's batch among the batches that are here.
        self._place = keras.Variable(0, dtype="int32", trainable=False, name="place")

    @property
    def _messages(self) -> bool:
        return self._comm.size > 1 and self._kind != "batches"

    def choose(self, variables: Sequence[keras.Variable], rows: int, data: Any) -> None:
        """Choose the kind of exchange, before anything is compiled.

        Args:
            variables: the variables that change.
            rows: rows in the batch of one step.
            data: this rank's arrays of a call.
        """
        comm = self._comm
        if comm.size == 1:
            return
        nbytes = sum(array.nbytes for array in tf.nest.flatten(data))
        ranks = comm.gather((socket.gethostname(), nbytes, self._weight))
        hosts, sizes, weights = zip(*ranks, strict=True)
        parameters = numbers_in(variables)
        work = parameters * rows * (comm.size - 1)
        if self._kind == "auto":
            small = self._jit and work <= MOST_WORK and sum(sizes) <= MOST_BYTES
            # Different processors round differently: their ranks would drift apart.
            self._kind = "batches" if small and len(set(hosts)) == 1 else "gradients"
        self._parts = np.array(weights) / np.sum(weights)
        self._place.assign(0 if self._messages else comm.rank)
        _news.append(f"ranks exchange {self._kind}: {parameters:,} parameters, {rows:,} rows a step")

    def arrays(self, data: Any) -> list[Any]:
        """Return the arrays of every rank that this rank computes gradients for."""
        return self._comm.gather(data) if self._comm.size > 1 and not self._messages else [data]

    def own(self, of_batches: Sequence[Any]) -> Any:
        """Pick this rank's result among the results of all batches here.

        Args:
            of_batches: for each batch a structure of float32 tensors.
        """
        if len(of_batches) == 1 or not tf.nest.flatten(of_batches[0]):
            return of_batches[0]
        vectors = tf.stack([joined(tf.nest.flatten(one)) for one in of_batches])
        # A gather at run time: XLA would compile a constant slice differently on each rank, and the ranks would round
        # differently.
        flat = tf.gather(vectors, self._place.value)
        return tf.nest.pack_sequence_as(of_batches[0], taken_apart(flat, tf.nest.flatten(of_batches[0])))

    def compile(self, function: Callable) -> Any:
        """Compile a function that contains averages; XLA compiles it unless they send messages."""
        return compiled(function, self._jit and not self._messages)

    def mean(self, function: Function) -> Callable[..., tuple[Arrays, Any]]:
        """Make the averages over ranks of a function's results.

        Args:
            function: takes a rank's batch and further arguments, which are equal on all ranks.

        Returns:
            Function of the batches and the further arguments that returns the averages, and this rank's own results.
        """
        return self._over_messages(function) if self._messages else self._over_batches(function)

    def _over_batches(self, function: Function) -> Callable[..., tuple[Arrays, Any]]:
        def averaged(batches: Sequence[Any], *further: Any) -> tuple[Arrays, Any]:
            found = [function(batch, *further) for batch in batches]
            if len(found) == 1:
                return found[0]
            weighted = [[part * x for x in arrays] for part, (arrays, _) in zip(self._parts, found, strict=True)]
            return [tf.add_n(parts) for parts in zip(*weighted, strict=True)], self.own([own for _, own in found])

        return averaged

    def _over_messages(self, function: Function) -> Callable[..., tuple[Arrays, Any]]:
        def averaged(batches: Sequence[Any], *further: Any) -> tuple[Arrays, Any]:
            arrays, own = function(batches[0], *further)
            vector = tf.constant(self._parts[self._comm.rank], tf.float32) * joined(arrays)
            total = tf.numpy_function(self._comm.sum, [vector], tf.float32)
            total.set_shape(vector.shape)
            return taken_apart(total, arrays), own

        return averaged
