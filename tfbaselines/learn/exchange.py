"""Average gradients over MPI ranks inside compiled code, in one of two ways that give the same step.

'gradients': each rank computes the gradient of its own batch, and each step sends one message. This pays where a
gradient costs more than a message: convolutions, wide layers, many ranks.

'batches': the ranks send each other their batches once, and each rank computes the gradients of all batches. No message
interrupts the steps, so that XLA compiles the whole phase. This pays for small networks and few ranks.

Gradients of many shapes travel, and are clipped, as one vector: XLA runs a kernel for each small array, and a dozen
kernels cost more than the arithmetic in them.

Each array that a compiled call takes costs 50 us, whatever its size: calls pack theirs.
"""

import math
import socket
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.compiling import compiled, prompt, rows_of
from tfbaselines.parallel import mpi

# Up to this many numbers one vector is faster than many arrays. XLA divides the work on a vector of 2^16 numbers among
# threads, and then computes the join again for each of its parts: twenty times as much work.
FEW = 60_000

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
    """Scale gradients, one for each variable, down together to a global norm of at most `most`."""
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
        """Choose the kind of exchange, before anything is compiled, by the sizes of one step and of a call's data."""
        comm = self._comm
        if comm.size == 1:
            return
        nbytes = sum(array.nbytes for array in leaves_of(data))
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
        """Pick this rank's result among the results of all batches here, each a structure of float32 tensors."""
        first = leaves_of(of_batches[0])
        if len(of_batches) == 1 or not first:
            return of_batches[0]
        vectors = tf.stack([joined(leaves_of(one)) for one in of_batches])
        # A gather at run time: XLA would compile a constant slice differently on each rank, and the ranks would round
        # differently.
        flat = tf.gather(vectors, self._place.value)
        return rebuilt(of_batches[0], iter(taken_apart(flat, first)))

    def compile(self, function: Callable) -> Any:
        """Compile a function that contains averages; XLA compiles it unless they send messages."""
        return compiled(function, self._jit and not self._messages)

    def mean(self, function: Function) -> Callable[..., tuple[Arrays, Any]]:
        """Make a function of the ranks' batches and further arguments, which are equal on all ranks.

        It returns the averages of a function's arrays over the batches, and this rank's own results.
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


# Bytes of a word.
WORD = 4

# Returns row k of a rank's structure.
Row = Callable[[Any], Any]


def leaves_of(structure: Any) -> list[Any]:
    """Flatten dictionaries, tuples and lists as tf.nest does, which would take 30 us a dictionary."""
    if isinstance(structure, dict):
        return [leaf for name in sorted(structure) for leaf in leaves_of(structure[name])]
    if isinstance(structure, tuple | list):
        return [leaf for part in structure for leaf in leaves_of(part)]
    return [structure]


def rebuilt(structure: Any, leaves: Iterator[Any]) -> Any:
    """Put leaves into a structure, in the order of `leaves_of`."""
    if isinstance(structure, dict):
        parts = {name: rebuilt(structure[name], leaves) for name in sorted(structure)}
        return {name: parts[name] for name in structure}
    if isinstance(structure, tuple | list):
        return type(structure)([rebuilt(part, leaves) for part in structure])
    return next(leaves)


def mapped(function: Callable[..., Any], *structures: Any) -> Any:
    """Apply a function to the leaves of equal structures, and return a structure of its results."""
    return rebuilt(structures[0], map(function, *map(leaves_of, structures)))


class Packing:
    """Places of a structure's arrays in rows of 32-bit words.

    Numbers of four and of eight bytes are packed; arrays of other types, such as pixels, stay as they are.

    Attributes:
        count: number of arrays that `pack` returns.

    Args:
        structure: arrays [K, ...] in dictionaries and tuples.
    """

    def __init__(self, structure: Any) -> None:
        arrays = leaves_of(structure)
        self._structure = mapped(lambda array: None, structure)
        self._specs = [(array.shape[1:], array.dtype) for array in arrays]
        self.count = 1 + sum(not _fits(array.dtype) for array in arrays)

    def pack(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the words [K, n] of a structure's arrays, then the arrays of other types."""
        packed = [
            np.ascontiguousarray(array).reshape(len(array), -1).view(np.int32) for array in arrays if _fits(array.dtype)
        ]
        return [np.concatenate(packed, axis=1), *(array for array in arrays if not _fits(array.dtype))]

    def rows(self, tensors: Sequence[tf.Tensor]) -> list[Row]:
        """Return for each rank a function of k that returns row k of its structure, from what every rank packed."""
        starts = range(0, len(tensors), self.count)
        return [partial(self._row, tensors[start : start + self.count]) for start in starts]

    def _row(self, packed: Sequence[tf.Tensor], k: Any) -> Any:
        words, *rest = packed
        # First one slice that depends on k, then slices that do not: XLA computes both in one wrong.
        row = words[k]
        parts = []
        begin = 0
        for shape, dtype in self._specs:
            if not _fits(dtype):
                parts.append(rest.pop(0)[k])
                continue
            wide = () if dtype.itemsize == WORD else (dtype.itemsize // WORD,)
            count = int(np.prod((*shape, *wide)))
            part = tf.reshape(row[begin : begin + count], (*shape, *wide))
            parts.append(part if dtype == np.int32 else tf.bitcast(part, tf.as_dtype(dtype)))
            begin += count
        return rebuilt(self._structure, iter(parts))


def _fits(dtype: np.dtype) -> bool:
    return dtype.itemsize in (WORD, 2 * WORD)


class Outline:
    """Names and shapes of the tensors in a structure; a trace fills it in."""

    def __init__(self) -> None:
        self._structure: Any = None
        self._shapes: list[tuple[int, ...]] = []

    def join(self, structure: Any) -> tf.Tensor:
        """Join a structure of tensors to one float32 vector, and remember the outline."""
        tensors = [tf.cast(tensor, tf.float32) for tensor in leaves_of(structure)]
        self._structure = mapped(lambda tensor: None, structure)
        self._shapes = [tuple(tensor.shape) for tensor in tensors]
        return joined(tensors)

    def filled(self, array: Any) -> Any:
        """Return the structure of parts [..., shape] that an array or a tensor [..., n] of joined vectors holds."""
        lead = tuple(array.shape[:-1])
        # tf.is_tensor would take 20 us.
        reshape = np.reshape if isinstance(array, np.ndarray) else tf.reshape
        parts = []
        begin = 0
        for shape in self._shapes:
            end = begin + math.prod(shape)
            parts.append(reshape(array[..., begin:end], lead + shape))
            begin = end
        return rebuilt(self._structure, iter(parts))


def stacked(count: int, step: Callable[[tf.Tensor], Any]) -> Any:
    """Run step(0), step(1), ... in a compiled loop; return their structures as one of tensors [count, ...]."""
    outline = Outline()
    return outline.filled(rows_of(count, lambda k: outline.join(step(k))))


def one_row(data: Any) -> Any:
    """Give arrays, in dictionaries and tuples, a first axis of length one."""
    if isinstance(data, dict):
        return {name: one_row(part) for name, part in data.items()}
    if isinstance(data, tuple):
        return tuple(map(one_row, data))
    return np.asarray(data)[None]


def scalars_of(coefficients: dict[str, float]) -> dict[str, np.float32]:
    """Return numbers by name as float32."""
    return {name: np.float32(value) for name, value in coefficients.items()}


def plain(statistics: dict[str, Any]) -> dict[str, float]:
    """Return arrays of one number, by name, as Python's floats."""
    return {name: value.item() for name, value in statistics.items()}


class Calls:
    """The compiled calls of one engine: each takes a structure of arrays and returns a structure of results.

    The first call chooses the exchange between ranks. A function is compiled once for each kind of arguments.

    Args:
        variables: the variables that the functions change.
        jit: see Exchange, as for comm and weight.

    Attributes:
        exchange: averages over the ranks, for use in the functions.
    """

    def __init__(
        self,
        variables: Sequence[keras.Variable],
        jit: bool = True,
        comm: mpi.Communicator | None = None,
        weight: float = 1.0,
    ) -> None:
        self.exchange = Exchange(comm, jit, weight)
        self._variables = variables
        self._calls: dict[Hashable, tuple[Packing, Outline, Any, Callable]] = {}

    def __call__(self, name: Hashable, function: Callable[[list[Row]], Any], structure: Any, rows: int = 0) -> Any:
        """Compute a function of the arrays of every rank that this rank computes gradients for.

        Args:
            name: of the function, and everything beside the arrays that it depends on.
            function: takes for each rank a function of k that returns row k of its structure; returns a structure of
                tensors.
            structure: a tuple of this rank's arrays [K, ...], or of dictionaries of arrays.
            rows: rows in the batch of one step, by which the first call chooses the exchange.

        Returns:
            The structure of the function's results, as float32 arrays.
        """
        if not self._calls:
            self.exchange.choose(self._variables, rows, structure)
        names = tuple(tuple(part) for part in structure if isinstance(part, dict))
        arrays = leaves_of(structure)
        key = name, names, *((array.shape, array.dtype) for array in arrays)
        if key not in self._calls:
            packing, outline = Packing(structure), Outline()
            compiled = self.exchange.compile(lambda *tensors: outline.join(function(packing.rows(tensors))))
            self._calls[key] = packing, outline, compiled, prompt(compiled)
        packing, outline, _, call = self._calls[key]
        tensors = [tf.constant(array) for one in self.exchange.arrays(packing.pack(arrays)) for array in one]
        return outline.filled(call(*tensors).numpy())

    def traces(self) -> int:
        """Count the traces of all functions: one for each kind of arguments."""
        return sum(compiled.experimental_get_tracing_count() for _, _, compiled, _ in self._calls.values())
