"""How gradients are averaged over ranks from within compiled code, in one of two ways that give the same step.

'gradients': every rank takes the gradient of its own batch, and each step sends one message. It pays where a gradient
costs more than a message: convolutions, wide layers, many ranks.

'batches': the ranks send each other their batches once, and each takes the gradients of all of them: no messages
between the steps, so that the whole phase is compiled by XLA. It pays for small networks and few ranks.

Arrays of many shapes as one vector, and back.

What is done to each of a dozen small arrays costs XLA a dozen kernels, which cost more than the arithmetic in them.
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

# Numbers up to which one vector is faster than many arrays: beyond them it is copied for longer than kernels take.
FEW = 100_000


def joined(arrays: Sequence[tf.Tensor]) -> tf.Tensor:
    """Arrays end to end as one float32 vector: one message between ranks, one copy out of a compiled call."""
    return tf.concat([tf.reshape(array, [-1]) for array in arrays], 0)


def taken_apart(flat: tf.Tensor, like: Sequence[keras.Variable | tf.Tensor]) -> list[tf.Tensor]:
    """What `joined` put together, in the shapes of variables or arrays."""
    parts = tf.split(flat, [math.prod(one.shape) for one in like])
    return [tf.reshape(part, one.shape) for part, one in zip(parts, like, strict=True)]


def numbers_in(variables: Sequence[keras.Variable]) -> int:
    """How many numbers variables have together."""
    return sum(math.prod(variable.shape) for variable in variables)


def few(variables: Sequence[keras.Variable]) -> bool:
    """Whether variables are so small that one vector is faster than all of them."""
    return numbers_in(variables) <= FEW


def clipped(gradients: Sequence[tf.Tensor], variables: Sequence[keras.Variable], most: float) -> list[tf.Tensor]:
    """Gradients, shortened together to a global norm of at most `most`.

    Args:
        gradients: one for each variable.
        variables: whose shapes they have.
        most: the bound.
    """
    if not few(variables):
        return tf.clip_by_global_norm(gradients, most)[0]
    (flat,), _ = tf.clip_by_global_norm([joined(gradients)], most)
    return taken_apart(flat, variables)


# Parameters x rows of the batch x other ranks, from which the other ranks' gradients take longer than a message.
MOST_WORK = 4e6
# Batches of all ranks together that are sent take at most this much memory.
MOST_BYTES = 2**28

Arrays = list[tf.Tensor]
# Gives the arrays to average over ranks, and what is this rank's own.
Function = Callable[..., tuple[Arrays, Any]]

_kind = "auto"
# What was chosen, for the logs.
_news: list[str] = []


def set_exchange(kind: str) -> None:
    """Of all updates that are made from now on: 'batches', 'gradients', or 'auto' to choose by their size."""
    global _kind
    _kind = kind


def news() -> list[str]:
    """What was chosen since the last call, a line each."""
    lines, _news[:] = list(_news), []
    return lines


class Exchange:
    """Averages over ranks, for one update.

    Args:
        comm: the ranks.
        jit: compile with XLA; see policy/precision.py.
        weight: this rank's in the averages.
    """

    def __init__(self, comm: mpi.Communicator | None = None, jit: bool = True, weight: float = 1.0) -> None:
        self._comm, self._jit, self._weight = mpi.wrap(comm), jit, weight
        self._kind = _kind
        # Each rank's part in the averages; and this one's place among the batches that are here.
        self._parts = np.ones(1)
        self._place = keras.Variable(0, dtype="int32", trainable=False, name="place")

    @property
    def _messages(self) -> bool:
        return self._comm.size > 1 and self._kind != "batches"

    def choose(self, variables: Sequence[keras.Variable], rows: int, data: Any) -> None:
        """Choose the way, before anything is compiled.

        Args:
            variables: that change.
            rows: of the batch of one step.
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
            # Processors of other kinds round differently, and their ranks would drift apart.
            self._kind = "batches" if small and len(set(hosts)) == 1 else "gradients"
        self._parts = np.array(weights) / np.sum(weights)
        self._place.assign(0 if self._messages else comm.rank)
        _news.append(f"ranks exchange {self._kind}: {parameters:,} parameters, {rows:,} rows a step")

    def arrays(self, data: Any) -> list[Any]:
        """The arrays of every rank whose gradients are taken here."""
        return self._comm.gather(data) if self._comm.size > 1 and not self._messages else [data]

    def batches(self, data: Any) -> list[Any]:
        """The same as tensors."""
        return [tf.nest.map_structure(tf.convert_to_tensor, one) for one in self.arrays(data)]

    def own(self, of_batches: Sequence[Any]) -> Any:
        """This rank's among what was computed from each of the batches.

        It is gathered when it runs, as XLA would compile a slice for one rank alone: what is compiled alike on every
        rank rounds alike.
        """
        if len(of_batches) == 1:
            return of_batches[0]
        return tf.nest.map_structure(lambda *every: tf.gather(tf.stack(every), self._place.value), *of_batches)

    def compile(self, function: Callable) -> Any:
        """A compiled function in which there are averages; XLA compiles it where these send no messages."""
        return compiled(function, self._jit and not self._messages)

    def mean(self, function: Function) -> Callable[..., tuple[Arrays, Any]]:
        """The average over ranks of what a function computes.

        Args:
            function: of a rank's batch and of further arguments, which all ranks have alike.

        Returns:
            Function of the batches and the further arguments that gives the averages, and what is this rank's own.
        """
        return self._over_messages(function) if self._messages else self._over_batches(function)

    def _over_batches(self, function: Function) -> Callable[..., tuple[Arrays, Any]]:
        def averaged(batches: Sequence[Any], *further: Any) -> tuple[Arrays, Any]:
            found = [function(batch, *further) for batch in batches]
            if len(found) == 1:
                return found[0]
            weighted = [[part * x for x in own] for part, (own, _) in zip(self._parts, found, strict=True)]
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
