"""Blocks of batches in few arrays: each array that a compiled call takes costs it some 50 us, whatever its size."""

from typing import Any

import numpy as np
import tensorflow as tf

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
