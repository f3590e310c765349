"""Blocks of batches in few arrays: each array that a compiled call takes costs it some 50 us, whatever its size."""

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from tfbaselines.compiling import prompt
from tfbaselines.learn.exchange import Exchange

# Bytes of a word.
WORD = 4


class Packing:
    """Where the arrays of a structure lie in rows of 32-bit words.

    Numbers of four and of eight bytes are packed; arrays of others, such as pixels, stay as they are.

    Attributes:
        count: of the arrays that `pack` gives.

    Args:
        structure: arrays [K, ...] in dictionaries and tuples.
    """

    def __init__(self, structure: Any) -> None:
        arrays = tf.nest.flatten(structure)
        self._structure = tf.nest.map_structure(lambda array: None, structure)
        self._specs = [(array.shape[1:], array.dtype) for array in arrays]
        self.count = 1 + sum(not _fits(array.dtype) for array in arrays)

    def pack(self, structure: Any) -> list[np.ndarray]:
        """A structure's words [K, n], then its other arrays."""
        arrays = tf.nest.flatten(structure)
        packed = [
            np.ascontiguousarray(array).reshape(len(array), -1).view(np.int32) for array in arrays if _fits(array.dtype)
        ]
        return [np.concatenate(packed, axis=1), *(array for array in arrays if not _fits(array.dtype))]

    def row(self, k: Any, words: tf.Tensor, *others: tf.Tensor) -> Any:
        """Row k of every array, in the structure, from what `pack` gave as tensors."""
        # One slice by k, which varies, then others that do not: XLA gets both in one wrong.
        row, parts, begin, rest = words[k], [], 0, list(others)
        for shape, dtype in self._specs:
            if not _fits(dtype):
                parts.append(rest.pop(0)[k])
                continue
            wide = () if dtype.itemsize == WORD else (dtype.itemsize // WORD,)
            count = int(np.prod((*shape, *wide)))
            part = tf.reshape(row[begin : begin + count], (*shape, *wide))
            parts.append(part if dtype == np.int32 else tf.bitcast(part, tf.as_dtype(dtype)))
            begin += count
        return tf.nest.pack_sequence_as(self._structure, parts)


def _fits(dtype: np.dtype) -> bool:
    """Whether numbers of a type are whole words."""
    return dtype.itemsize in (WORD, 2 * WORD)


# Row k of a rank's structure.
Row = Callable[[Any], Any]


class PackedCalls:
    """Functions of structures of arrays, compiled once for each key, which take the arrays packed.

    Args:
        exchange: compiles them, and gathers the arrays of other ranks.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        # By key: the packing, the function, and how it is called.
        self._calls: dict[Hashable, tuple[Packing, Callable, Callable]] = {}

    def __call__(self, key: Hashable, structure: Any, function: Callable[[list[Row]], tf.Tensor]) -> np.ndarray:
        """What a function computes from the arrays of every rank whose gradients are taken here.

        Args:
            key: the arrays' names, shapes and types, and whatever else another function is compiled for.
            structure: this rank's arrays [K, ...] in dictionaries and tuples.
            function: given for each rank the function of k that takes row k of its structure.
        """
        packing, compiled, call = self._calls.get(key) or (Packing(structure), None, None)
        tensors = [tf.constant(array) for one in self._exchange.arrays(packing.pack(structure)) for array in one]
        if compiled is None:
            compiled = self._exchange.compile(partial(_of_rows, function, packing))
            call = prompt(compiled)
            self._calls[key] = packing, compiled, call
        return call(*tensors).numpy()

    def traces(self) -> int:
        """How many times functions were traced: once for each key."""
        return sum(compiled.experimental_get_tracing_count() for _, compiled, _ in self._calls.values())


def _of_rows(function: Callable[[list[Row]], tf.Tensor], packing: Packing, *tensors: tf.Tensor) -> tf.Tensor:
    blocks = [tensors[i : i + packing.count] for i in range(0, len(tensors), packing.count)]
    return function([lambda k, block=block: packing.row(k, *block) for block in blocks])
