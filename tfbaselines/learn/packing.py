"""Compiled calls that take few arrays: each array that a compiled call takes costs 50 us, whatever its size."""

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.compiling import prompt, rows_of
from tfbaselines.learn.exchange import Exchange, joined
from tfbaselines.parallel import mpi

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
        self._structure = tf.nest.map_structure(lambda array: None, structure)
        self._specs = [(array.shape[1:], array.dtype) for array in arrays]
        self.count = 1 + sum(not _fits(array.dtype) for array in arrays)

    def pack(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the words [K, n] of a structure's arrays, then the arrays of other types."""
        packed = [
            np.ascontiguousarray(array).reshape(len(array), -1).view(np.int32) for array in arrays if _fits(array.dtype)
        ]
        return [np.concatenate(packed, axis=1), *(array for array in arrays if not _fits(array.dtype))]

    def row(self, k: Any, words: tf.Tensor, *others: tf.Tensor) -> Any:
        """Return row k of every array, in the structure, from the tensors of what `pack` returned."""
        # First one slice that depends on k, then slices that do not: XLA computes both in one wrong.
        row = words[k]
        rest = list(others)
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
        self._structure = tf.nest.map_structure(lambda tensor: None, structure)
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
    """Run step(0), step(1), ... in a compiled loop; return their structures of tensors as one, stacked to [count, ...].

    Args:
        count: number of steps.
        step: function of k.
    """
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
        jit: compile with XLA; see policy/layers.py.
        comm: communicator of the ranks over which `exchange` averages.
        weight: this rank's weight in the averages.

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
            compiled = self.exchange.compile(partial(_unpacked, function, packing, outline))
            self._calls[key] = packing, outline, compiled, prompt(compiled)
        packing, outline, _, call = self._calls[key]
        tensors = [tf.constant(array) for one in self.exchange.arrays(packing.pack(arrays)) for array in one]
        return outline.filled(call(*tensors).numpy())

    def traces(self) -> int:
        """Count the traces of all functions: one for each kind of arguments."""
        return sum(compiled.experimental_get_tracing_count() for _, _, compiled, _ in self._calls.values())


def _unpacked(
    function: Callable[[list[Row]], Any], packing: Packing, outline: Outline, *tensors: tf.Tensor
) -> tf.Tensor:
    blocks = [tensors[i : i + packing.count] for i in range(0, len(tensors), packing.count)]
    return outline.join(function([partial(_row, packing, block) for block in blocks]))


def _row(packing: Packing, block: Sequence[tf.Tensor], k: Any) -> Any:
    return packing.row(k, *block)
