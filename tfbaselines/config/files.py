"""Conversion of any value to JSON, and the config.json that describes a run."""

import functools
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tfbaselines.files import write_whole

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
    if isinstance(obj, np.generic):
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
    if isinstance(obj, np.ndarray):
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
    write_whole(Path(directory) / FILE_NAME, json.dumps(config, indent=2) + "\n")
