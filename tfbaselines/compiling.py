"""Compiled functions of tensors."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf


def compiled(function: Callable, jit: bool = False, signature: Sequence[Any] | None = None) -> Any:
    """A function of tensors as a compiled one.

    Its source is not rewritten by AutoGraph, which takes seconds at the start of every process: conditions and loops
    that hang on tensors are tf.cond, tf.while_loop and `rows_of`.

    Args:
        function: to compile, when it is called with arguments of new shapes.
        jit: whether XLA compiles it.
        signature: specifications of its arguments, where one function is to serve for various shapes.
    """
    return tf.function(function, jit_compile=jit, autograph=False, input_signature=signature)


def rows_of(count: int, row: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
    """The vectors row(0), row(1), ... as rows [count, n], computed one after the other in a loop that is compiled.

    Args:
        count: of rows.
        row: given k, computes the row, and does what else belongs to step k.
    """

    def step(k: tf.Tensor, rows: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
        return k + 1, rows.write(k, row(k))

    if count == 1:
        # Without a loop it is compiled a fifth faster or more, and short rows are computed faster.
        return row(tf.constant(0))[None]
    first = tf.constant(0), tf.TensorArray(tf.float32, count)
    _, rows = tf.while_loop(lambda k, _: k < count, step, first, maximum_iterations=count)
    return rows.stack()
