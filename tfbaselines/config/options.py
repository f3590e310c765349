"""Options of a run that are the same for all algorithms, and the config.json that describes a run."""

import functools
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfbaselines.errors import bad_argument, unknown

Callback = Callable[[Any], bool | None]

PRECISIONS = ("float32", "bfloat16")
ON_NAN = ("stop", "skip")
# Rows of the logs on standard output: a line with the main columns, a table of all columns, or nothing.
ROWS = ("short", "table", "none")
EXCHANGES = ("auto", "batches", "gradients")


@dataclass(frozen=True)
class RunOptions:
    """Options of a run, given as ``learn(..., run=RunOptions(...))``.

    Attributes:
        resume: log directory of an earlier run; training continues from its latest checkpoint.
        keep_checkpoints: number of latest checkpoints to keep.
        save_minutes: minutes between checkpoints, in addition to the algorithm's own interval; None for that alone.
        callback: function called with the Run after every update, or a list of functions; returning False ends the
            run. tfbaselines.callbacks has ready ones.
        progress: show progress; None shows it only for runs from the command line.
        precision: 'float32', or 'bfloat16' for convolutions and matrix products in half precision. A processor
            without such instructions uses float32, with a warning.
        on_nan: handling of losses, gradients and parameters that are not finite: 'stop' ends the run, 'skip' drops the
            update and restores a copy of the model.
        mpi_exchange: how ranks average gradients: 'batches', 'gradients', or 'auto' to choose by size; the steps are
            the same.
        timers: log the seconds of each phase in every row, and time the environments' steps.
        make_env: function from a worker's number to its environments, for algorithms with several workers.
        make_eval_env: function from a number of environments to environments for evaluation; they write no files, and
            their statistics are frozen.
        config: description of the run, stored in each saved file; None describes learn's own arguments, and the
            environments if they can be made from an id.
        network: network of the run for its description; learn sets it.
        monitor_keys: entries of episodes, written by make_vec_env's argument; the logs have a mean of each.
    """

    resume: str | None = None
    keep_checkpoints: int = 5
    save_minutes: float | None = 10.0
    callback: Callback | Sequence[Callback] | None = None
    progress: bool | None = None
    precision: str = "float32"
    on_nan: str = "stop"
    mpi_exchange: str = "auto"
    timers: bool = False
    make_env: Callable[[int], Any] | None = None
    make_eval_env: Callable[[int], Any] | None = None
    config: dict[str, Any] | None = None
    network: Any = None
    monitor_keys: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name, choices in (("precision", PRECISIONS), ("on_nan", ON_NAN), ("mpi_exchange", EXCHANGES)):
            if getattr(self, name) not in choices:
                raise unknown(name, getattr(self, name), choices)
        callbacks_of(self.callback)
        if self.keep_checkpoints < 1:
            raise bad_argument("keep_checkpoints", self.keep_checkpoints, "at least 1")
        if self.save_minutes is not None and not self.save_minutes > 0:
            raise bad_argument("save_minutes", self.save_minutes, "above 0, or None")


def callbacks_of(given: Callback | Sequence[Callback] | None) -> list[Callback]:
    """Return a list of callbacks from one, several or None."""
    if given is None:
        return []
    callbacks = list(given) if isinstance(given, Sequence) and not callable(given) else [given]
    for callback in callbacks:
        if not callable(callback):
            raise bad_argument("callback", callback, "a function of the Run, or a list of functions")
    return callbacks


FILE_NAME = "config.json"

# Longer arrays are described, not listed.
MAX_LISTED = 100


def to_jsonable(obj: Any, _parents: frozenset[int] = frozenset()) -> Any:
    """Convert a value to dicts with string keys, lists, strings, numbers, booleans and None.

    Args:
        obj: any value. NumPy scalars become Python numbers, arrays of up to 100 elements lists; functions and classes
            become their dotted name; any other object becomes its ``repr`` without memory addresses, so that two equal
            runs write equal files.
    """
    if getattr(obj, "shape", None) == () and hasattr(obj, "item"):
        # Convert a NumPy scalar; this module does not load NumPy.
        obj = obj.item()
    if obj is None or isinstance(obj, bool | int | float | str):
        return obj
    if id(obj) in _parents:
        return "<circular reference>"
    inner = functools.partial(to_jsonable, _parents=_parents | {id(obj)})
    if isinstance(obj, Mapping):
        return {str(key): inner(value) for key, value in obj.items()}
    if isinstance(obj, list | tuple):
        return [inner(value) for value in obj]
    if isinstance(obj, set | frozenset):
        return [inner(value) for value in sorted(obj, key=str)]
    if hasattr(obj, "tolist") and hasattr(obj, "dtype"):
        return inner(obj.tolist()) if obj.size <= MAX_LISTED else f"array of shape {obj.shape}, {obj.dtype}"
    return _described(obj)


def _described(obj: Any) -> str:
    """Describe a value that has no JSON form."""
    if isinstance(obj, functools.partial):
        given = [*map(repr, obj.args), *(f"{key}={value!r}" for key, value in obj.keywords.items())]
        return f"{_described(obj.func)}({_without_addresses(', '.join(given))})"
    if isinstance(obj, bytes):
        return obj.decode("utf-8", errors="replace")
    if callable(obj) and hasattr(obj, "__qualname__"):
        return f"{obj.__module__}.{obj.__qualname__}"
    return _without_addresses(str(obj) if hasattr(obj, "__fspath__") else repr(obj))


def _without_addresses(text: str) -> str:
    return re.sub(r" at 0x[0-9a-fA-F]+", "", text)


def write_config(directory: str | os.PathLike, config: dict[str, Any]) -> None:
    """Write config.json, whole or not at all."""
    from tfbaselines.files import write_whole

    write_whole(Path(directory) / FILE_NAME, json.dumps(config, indent=2) + "\n")
