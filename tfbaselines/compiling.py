"""Compiled functions of tensors, and shortcuts around the work that TensorFlow does for each call.

The shortcuts have no public names. If a version of TensorFlow lacks one, the public way gives the same numbers, later.
"""

import functools
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import tensorflow as tf

try:
    from tensorflow.python.eager import context, execute
except ImportError:
    context = execute = None
try:
    from tensorflow.python.framework.ops import gradient_registry

    registry: dict[str, Any] = gradient_registry._registry
except (ImportError, AttributeError):
    registry = {}


def compiled(function: Callable, jit: bool = False, signature: Sequence[Any] | None = None) -> Any:
    """Compile a function of tensors.

    AutoGraph does not rewrite its source, which would take seconds at the start of every process: conditions and loops
    on tensors are tf.cond, tf.while_loop and `rows_of`.

    Args:
        function: the function; each call with arguments of new shapes compiles it.
        jit: compile with XLA.
        signature: specifications of the arguments, if one compiled function serves for several shapes.
    """
    # TensorFlow counts the traces of a piece of code, and would warn of the second run in a program as a mistake. For a
    # partial function it counts the traces of that object alone.
    traced = partial(_traced_once, function)
    return tf.function(traced, jit_compile=jit, autograph=False, input_signature=signature)


class _Traces:
    """Removes the custom gradients of finished traces, which would keep their graphs alive until the process ends.

    `tf.custom_gradient`, which Keras's optimizers use too, registers a function for every use and never removes it.
    When no trace is active, in any thread, all gradients have been computed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._active = 0
        self._older: set[str] = set()

    def __enter__(self) -> None:
        with self._lock:
            if self._active == 0:
                self._older = set(registry)
            self._active += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._active -= 1
            if self._active == 0:
                for name in registry.keys() - self._older:
                    if name.startswith("CustomGradient"):
                        registry.pop(name)


_traces = _Traces()

# Functions that XLA has compiled, by their fingerprints; the latest are kept.
MOST_PROGRAMS = 16
_programs: OrderedDict[str, Any] = OrderedDict()


def _traced_once(function: Callable, *arguments: Any, **named: Any) -> Any:
    with _traces:
        return function(*arguments, **named)


def prompt(function: Any) -> Callable:
    """Skip the checks of arguments in the calls of a compiled function, which halves the time of small functions.

    The first call traces the function. All later calls must have arguments of the same structure and types, and of
    shapes that its signature allows; without a signature, of the same shapes.

    Args:
        function: the function that `compiled` returned.

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
    """Return the function that is compiled for such arguments."""
    if tf.config.functions_run_eagerly():
        return function
    found = function.get_concrete_function(*arguments)
    if not hasattr(found, "_call_flat"):
        return function
    captured, types = found.captured_inputs, [tensor.dtype for tensor in found.inputs]
    program = _program(found)

    def call(*arguments: Any) -> Any:
        if not all(isinstance(x, tf.Tensor) for x in arguments):
            flat = zip(tf.nest.flatten(arguments), types, strict=False)
            arguments = [tf.convert_to_tensor(x, dtype) for x, dtype in flat]
        return program._call_flat(list(arguments), captured)

    return call


def _program(found: Any) -> Any:
    """Return an equal function that was compiled before, if XLA compiles it; it serves with other captured variables.

    XLA keeps the program of each function, some 10 MB, until the process ends. Runs of equal settings share one, and
    need not wait for the compiler.
    """
    if not found.function_def.attr["_XlaMustCompile"].b:
        return found
    key = fingerprint(found)
    program = _programs.setdefault(key, found)
    _programs.move_to_end(key)
    if len(_programs) > MOST_PROGRAMS:
        _programs.popitem(last=False)
    return program


def fingerprint(found: Any) -> str:
    """Compute a hash of what a concrete function computes, whatever its nodes and captured variables are called."""
    graph = found.graph.as_graph_def()
    library = {function.signature.name: function for function in graph.library.function}

    @functools.cache
    def content_of(name: str) -> str:
        function = library[name]
        arguments = [argument.name for argument in function.signature.input_arg]
        names = _numbered([*arguments, *(node.name for node in function.node_def)])
        results = [_renamed(function.ret[result.name], names) for result in function.signature.output_arg]
        types = [argument.type for argument in function.signature.input_arg]
        return _hash(repr((types, results)), *_described(function.node_def, names, content_of))

    results = tf.nest.map_structure(lambda x: getattr(x, "dtype", x), found.structured_outputs)
    captured = sorted(f"{variable.shape} {variable.dtype}" for variable in found.variables)
    names = _numbered(node.name for node in graph.node)
    ends = [(_renamed(x.name, names), x.shape, x.dtype) for x in (*found.inputs, *found.outputs)]
    return _hash(repr((results, captured, ends)), *_described(graph.node, names, content_of))


def _described(nodes: Sequence[Any], names: dict[str, int], content_of: Callable[[str], str]) -> Iterator[str]:
    """Describe nodes by the numbers of the nodes before them, and functions by their content."""
    for node in nodes:
        inputs = [_renamed(name, names) for name in node.input]
        # The order of control inputs is that of a set.
        controls = sorted(name for name in inputs if name.startswith("^"))
        yield f"{node.op} {node.device} {[name for name in inputs if not name.startswith('^')]} {controls}"
        for key, value in sorted(node.attr.items()):
            functions = [content_of(one.name) for one in (value.func, *value.list.func) if one.name]
            if key not in ("_gradient_op_type", "_class"):
                yield f"{key} {functions or value.SerializeToString(deterministic=True).hex()}"


def _hash(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def _numbered(names: Iterable[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(names)}


def _renamed(name: str, names: dict[str, int]) -> str:
    """Replace the node in the name of one of its outputs, or of a control input, by its number."""
    node, *output = name.removeprefix("^").split(":")
    return ":".join(["^" * name.startswith("^") + str(names[node]), *output])


class Reading:
    """Reads many variables with one operation, if TensorFlow has it, in a fifth of the time.

    Attributes:
        at_once: one operation reads all variables.

    Args:
        variables: float32 variables.
    """

    def __init__(self, variables: Sequence[tf.Variable]) -> None:
        self._handles = [variable.handle for variable in variables]
        count = len(self._handles)
        self._attributes = ("N", count, "dtypes", [tf.float32.as_datatype_enum] * count)
        self.at_once = execute is not None

    def __call__(self) -> list[tf.Tensor]:
        """Return the variables' numbers."""
        if self.at_once and self._handles:
            try:
                return execute.quick_execute(
                    "_ReadVariablesOp", len(self._handles), self._handles, self._attributes, context.context()
                )
            except (AttributeError, TypeError, tf.errors.OpError):
                self.at_once = False
        return [tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32) for handle in self._handles]


def rows_of(count: int, row: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
    """Compute the vectors row(0), row(1), ... in a compiled loop, and stack them to [count, n].

    Args:
        count: number of rows.
        row: function of k that computes the row, with any side effects of step k.
    """

    def step(k: tf.Tensor, rows: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
        return k + 1, rows.write(k, row(k))

    if count == 1:
        # Without a loop, compiling is at least a fifth faster, and short rows are computed faster.
        return row(tf.constant(0))[None]
    first = tf.constant(0), tf.TensorArray(tf.float32, count)
    _, rows = tf.while_loop(lambda k, _: k < count, step, first, maximum_iterations=count)
    return rows.stack()
