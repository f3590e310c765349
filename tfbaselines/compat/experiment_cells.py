"""Spinning Up's experiments as cells of a study: DATA_DIR is the study, and `study work` continues it.

A cell has the experiment's arguments as words: Python literals, or module:name for functions that can be imported.
"""

import ast
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import PurePath, PurePosixPath
from types import BuiltinFunctionType as Builtin
from typing import Any, NamedTuple
from urllib.parse import quote

from tfbaselines.compat import PortedModule, spinup
from tfbaselines.compat.spinup import SPINNING_UP
from tfbaselines.errors import UsageError
from tfbaselines.loading import import_named, load_tensorflow
from tfbaselines.study.cells import EXPERIMENT, Cell, cell_of
from tfbaselines.study.store import DONE, STATES, Study

# Words of the experiment itself, which no argument may have.
TAKEN = ("alg", "env", "seed", "num_cpu", "log_path", "logger_kwargs", "run", EXPERIMENT)
# Letters of a cell's name; a file's name has 255, with the worker's and a writer's endings.
LONGEST_NAME = 160
# Modules with activations, which have a name of Keras's.
OF_ACTIVATIONS = frozenset(("tensorflow", "torch", "keras"))


class NotData(Exception):
    """A cell cannot describe the experiment."""


class Experiment(NamedTuple):
    """A call: function(seed=..., logger_kwargs=..., **arguments).

    Attributes:
        name: name of the experiment, with its variant.
        function: function to run, or its name module:function.
        arguments: arguments by name, with `seed` and `env_name` if any.
    """

    name: str
    function: Callable[..., Any] | str
    arguments: Mapping[str, Any]

    @property
    def seed(self) -> Any:
        """Seed of the run."""
        return self.arguments.get("seed", 0)


def words_of(one: Experiment, num_cpu: int | str = 1) -> dict[str, str]:
    """Write an experiment as words; NotData if it is more than data."""
    given = dict(one.arguments)
    seed, env = given.pop("seed", 0), given.pop("env_name", None)
    words = {"alg": _named_function(one.function), EXPERIMENT: one.name, "seed": _text("seed", seed)}
    if not re.fullmatch(r"-?\d+", words["seed"]):
        raise NotData(f"seed={seed!r} is not a whole number")
    if env is not None:
        if not isinstance(env, str):
            raise NotData(f"env_name={env!r:.80} is not a text")
        words["env"] = env
    if num_cpu != 1:
        words["num_cpu"] = str(num_cpu)
    for name, value in _leaves(given):
        if name in TAKEN or "=" in name:
            raise NotData(f"the argument '{name:.80}' has another meaning for a cell")
        words[name] = _text(name, value)
    return words


def _leaves(given: Mapping[Any, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """List the entries of nested dictionaries by names such as ac_kwargs:hidden_sizes."""
    for name, value in given.items():
        if isinstance(value, dict) and value and all(isinstance(key, str) and ":" not in key for key in value):
            yield from _leaves(value, f"{above}{name}:")
        else:
            yield f"{above}{name}", value


def arguments_of(words: Mapping[str, str]) -> dict[str, Any]:
    """Read the arguments of an experiment from its words; this imports the functions that they name."""
    arguments: dict[str, Any] = {}
    for name, text in words.items():
        if name not in TAKEN:
            *outer, last = name.split(":")
            inner = arguments
            for part in outer:
                inner = inner.setdefault(part, {})
            inner[last] = _value(text)
    return arguments


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return function_named(text)


def function_named(name: str) -> Any:
    """Import module:name; UsageError if there is none."""
    module, _, path = name.partition(":")
    try:
        found = import_named(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise UsageError(f"'{name:.200}' cannot be imported: {error!s:.200}") from None
    return found


def _named_function(function: Callable[..., Any] | str) -> str:
    """Name one of Spinning Up's algorithms, or a function given as module:function."""
    if isinstance(function, str):
        if not callable(function_named(function)):
            raise UsageError(f"thunk='{function:.200}' is not valid: it is not a function")
        return function
    path = function.__name__ if isinstance(function, PortedModule) else ""
    ported = re.fullmatch(r"tfbaselines\.(\w+?)(_tf1|_pytorch)?", path)
    for alg in SPINNING_UP:
        if function is getattr(spinup, alg) or (ported is not None and ported[1] == alg):
            return alg
    raise NotData(f"the function {getattr(function, '__name__', function)!s:.80} is not given as 'module:function'")


def _text(name: str, value: Any) -> str:
    if callable(value):
        value = _activation(value)
    if callable(value):
        return _path_of(name, value)
    value = _plain(value)
    text = repr(value)
    try:
        same = ast.literal_eval(text) == value
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        same = False
    if same is not True:
        raise NotData(f"{name}={text:.80} is not data")
    return text


def _plain(value: Any) -> Any:
    """Return numbers of NumPy as Python's, in lists and tuples too."""
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    return value.item() if type(value).__module__ == "numpy" and getattr(value, "shape", None) == () else value


def _activation(value: Any) -> Any:
    """Return Keras's name of an activation of TensorFlow, PyTorch or Keras; other functions stay."""
    modules = (getattr(value, "__module__", None) or "", type(value).__module__)
    if OF_ACTIVATIONS.isdisjoint(module.split(".")[0] for module in modules) and not isinstance(value, Builtin):
        return value
    load_tensorflow()
    from tfbaselines.policy.layers import named_activation

    return named_activation(value)


def _path_of(name: str, function: Any) -> str:
    """Name a function as module:name, if an import of that name finds it in another process too."""
    module, path = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    try:
        # A name of __main__ is another one in another process.
        if module != "__main__" and function_named(f"{module}:{path}") is function:
            return f"{module}:{path}"
    except UsageError:
        pass
    raise NotData(f"{name} is a function that cannot be imported by a name")


def cells_of(
    experiments: Sequence[Experiment],
    num_cpu: int | str,
    data_dir: str,
    place: Callable[[Experiment], str],
    stamped: bool,
) -> list[Cell]:
    """Make the cell of each experiment; NotData if one of them is more than data.

    Args:
        experiments: the experiments; equal ones have one cell.
        num_cpu: ranks of each.
        data_dir: directory of the study.
        place: returns the directory of a run.
        stamped: the directories have dates: if runs of an earlier call are not done, all keep their directories.
    """
    described = [words_of(one, num_cpu) for one in experiments]
    known = _unfinished(data_dir, described) if stamped else {}
    cells: dict[str, Cell] = {}
    for one, words in zip(experiments, described, strict=True):
        directory = PurePath(os.path.relpath(place(one), data_dir)).as_posix()
        cell = known.get(str(words)) or Cell(_name(directory), one.name, directory, words)
        try:
            cell_of(cell.document())
        except UsageError:
            raise NotData(f"the directory of '{one.name:.80}' is not inside of '{data_dir}'") from None
        other = cells.setdefault(str(words), cell)
        _check_apart(other, cells.values())
    return [cells[str(words)] for words in described]


def _check_apart(cell: Cell, others: Iterable[Cell]) -> None:
    """Raise a UsageError if a run with other arguments has the same directory."""
    for other in others:
        if other is not cell and other.directory == cell.directory:
            names = {**cell.words, **other.words}
            name = next(name for name in names if cell.words.get(name) != other.words.get(name))
            raise UsageError(
                f"two runs with different values of '{name}' have the directory '{cell.directory}': their names, "
                "without special characters, are equal"
            )


def _unfinished(data_dir: str, wanted: Sequence[Mapping[str, str]]) -> dict[str, Cell]:
    """Find the latest cells with these words, by the words; none if all of them are done."""
    try:
        study = Study(data_dir)
    except UsageError:
        return {}
    keys = {str(words) for words in wanted}
    found: dict[str, tuple[str, Cell]] = {}
    for state in STATES:
        for cell in study.cells(state):
            key = str(cell.words)
            if key in keys and (key not in found or found[key][1].directory < cell.directory):
                found[key] = state, cell
    over = all(state == DONE for state, _ in found.values())
    return {} if over else {key: cell for key, (_, cell) in found.items()}


def _name(directory: str) -> str:
    """Make the name of a cell from its directory; its last part says all, unless the experiment's name has a slash."""
    label = PurePosixPath(directory).name if directory.count("/") == 1 else directory
    # A claim's file has '@' in its name, and a writer's begins with a dot.
    name = re.sub("^[.]", "%2E", quote(label, safe=" +=,"))
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}-{sha256(label.encode()).hexdigest()[:16]}"
