"""Compiled functions of tensors, and TensorFlow's short ways around what it does for each call.

The short ways have no public names. Where a TensorFlow lacks one, the public way is taken: the same numbers, later.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import tensorflow as tf

try:
    from tensorflow.python.eager import context, execute
except ImportError:
    context = execute = None


def compiled(function: Callable, jit: bool = False, signature: Sequence[Any] | None = None) -> Any:
    """A function of tensors as a compiled one.

    Its source is not rewritten by AutoGraph, which takes seconds at the start of every process: conditions and loops
    that hang on tensors are tf.cond, tf.while_loop and `rows_of`.

    Args:
        function: to compile, when it is called with arguments of new shapes.
        jit: whether XLA compiles it.
        signature: specifications of its arguments, where one function is to serve for various shapes.
    """
    # TensorFlow counts how often one piece of code is traced, by which a second run in a program would be warned of as
    # a mistake; of a partial function it counts the traces of that object alone.
    return tf.function(partial(function), jit_compile=jit, autograph=False, input_signature=signature)


def prompt(function: Any) -> Callable:
    """A compiled function that does not look at its arguments again.

    The first call traces it. All others have arguments of the same structure and types, and shapes that its signature
    allows; without a signature the same shapes. Small functions then take half the time.

    Args:
        function: what `compiled` gave.

    Returns:
        Function of arrays or tensors, or dictionaries of them.
    """
    traced: list[Callable] = []

    def call(*arguments: Any) -> Any:
        if not traced:
            traced.append(_traced(function, arguments))
        return traced[0](*arguments)

    return call


def _traced(function: Any, arguments: Sequence[Any]) -> Callable:
    """A function of arguments such as these."""
    if tf.config.functions_run_eagerly():
        return function
    found = function.get_concrete_function(*arguments)
    if not hasattr(found, "_call_flat"):
        return function
    captured, types = found.captured_inputs, [tensor.dtype for tensor in found.inputs]

    def call(*arguments: Any) -> Any:
        if not all(isinstance(x, tf.Tensor) for x in arguments):
            flat = zip(tf.nest.flatten(arguments), types, strict=False)
            arguments = [tf.convert_to_tensor(x, dtype) for x, dtype in flat]
        return found._call_flat(list(arguments), captured)

    return call


class Reading:
    """The present numbers of many variables, read by one operation where TensorFlow has it: a fifth of the time.

    Attributes:
        at_once: one operation reads them.

    Args:
        variables: of float32.
    """

    def __init__(self, variables: Sequence[tf.Variable]) -> None:
        self._handles = [variable.handle for variable in variables]
        count = len(self._handles)
        self._attributes = ("N", count, "dtypes", [tf.float32.as_datatype_enum] * count)
        self.at_once = execute is not None

    def __call__(self) -> list[tf.Tensor]:
        """Read."""
        if self.at_once and self._handles:
            try:
                return execute.quick_execute(
                    "_ReadVariablesOp", len(self._handles), self._handles, self._attributes, context.context()
                )
            except (AttributeError, TypeError, tf.errors.OpError):
                self.at_once = False
        return [tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32) for handle in self._handles]


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
