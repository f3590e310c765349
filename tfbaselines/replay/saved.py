"""Files of a saved replay: a directory of .npy files and replay.json, written whole or not at all.

A saved replay may be damaged, or from a stranger: everything is checked before any of it is used.
"""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from tfbaselines.errors import UsageError
from tfbaselines.files import ArrayError, check_array, map_array, put_back, read_document, replace_directory

FORMAT = "tfbaselines-replay-1"

# File names of arrays that the format calls by another name.
FILE_NAMES = {"terminated": "ended", "truncated": "cut", "episode_start": "first"}

# Largest accepted size of replay.json in bytes.
LARGEST_ABOUT = 2**20

Arrays = dict[str, np.ndarray]
# The last observations of episodes, by step (or slot) and environment.
LastObservations = dict[tuple[int, int], Arrays]


class SavedReplay(NamedTuple):
    """The content of a saved replay.

    Attributes:
        arrays: rows [steps + 1, N, ...] by name, mapped into memory; the last row has an observation only.
        last: last observations of episodes, by step and environment.
        about: replay.json.
    """

    arrays: Arrays
    last: LastObservations
    about: dict[str, Any]


def write_replay(
    directory: str | os.PathLike, arrays: Arrays, rows: np.ndarray, last: LastObservations, about: dict[str, Any]
) -> None:
    """Write a replay.

    Args:
        directory: directory to write, replaced if it exists.
        arrays: arrays by name.
        rows: rows of the arrays that are written, oldest first.
        last: last observations of episodes, by step and environment.
        about: what replay.json contains in addition to the format.
    """
    target = Path(directory)
    scratch = target.with_name(target.name + ".writing")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    for name, array in arrays.items():
        np.save(scratch / _file(name), array[rows])
    np.save(scratch / "last.npy", np.array(list(last), np.int64).reshape(-1, 2))
    for name in (name.removeprefix("obs/") for name in arrays if name.startswith("obs/")):
        np.save(scratch / _file(f"last/{name}"), np.array([obs[name] for obs in last.values()]))
    (scratch / "replay.json").write_text(json.dumps({"format": FORMAT} | about), encoding="utf-8")
    replace_directory(target, scratch)


def read_replay(
    directory: str | os.PathLike,
    wanted: Arrays,
    parts: dict[str, spaces.Space],
    needs_last: Callable[[Arrays], np.ndarray],
) -> SavedReplay:
    """Read and check a saved replay; UsageError if it is damaged or of other environments.

    Args:
        directory: directory that `write_replay` wrote.
        wanted: arrays by name; the saved ones must have the same types and shapes but for the number of rows.
        parts: spaces of the parts of an observation.
        needs_last: returns which steps [steps + 1, N] of the arrays need a last observation.
    """
    source = Path(directory)
    put_back(source)
    try:
        about = read_document(source / "replay.json", LARGEST_ABOUT)
        arrays = {name: map_array(source / _file(name)) for name in wanted}
        keys = map_array(source / "last.npy")
        last = {name: map_array(source / _file(f"last/{name}")) for name in parts}
        steps = about.get("steps") if isinstance(about, dict) else None
        if type(steps) is not int or steps < 0:
            raise UsageError("replay.json does not have the number of steps")
    except (OSError, ValueError) as error:
        raise UsageError(f"'{source}' is not a saved replay: {error}") from None
    what = f"the replay in '{source}'"
    check_arrays(what, steps + 1, arrays, wanted)
    ends = needs_last(arrays)
    ends[-1] = False
    check_last(what, ends, keys, last, parts)
    observations = {
        (int(t), int(i)): {name: np.array(part[k]) for name, part in last.items()} for k, (t, i) in enumerate(keys)
    }
    return SavedReplay(arrays, observations, about)


def check_arrays(what: str, rows: int, saved: Arrays, wanted: Arrays) -> None:
    """Raise UsageError unless saved arrays [rows, ...] have the names, shapes and types that are wanted."""
    if saved.keys() != wanted.keys():
        raise UsageError(f"{what} is damaged or of other environments: it has {sorted(saved)!s:.100}")
    for name, array in saved.items():
        dtype = wanted[name].dtype
        try:
            check_array(name, array, (rows, *wanted[name].shape[1:]))
        except ArrayError as error:
            raise UsageError(f"{what} is damaged or of other environments: {error}") from None
        if not np.can_cast(array.dtype, dtype, "same_kind"):
            raise UsageError(f"{what} is damaged: {name} has the type {array.dtype}, not {dtype}")


def check_last(what: str, ends: np.ndarray, keys: np.ndarray, last: Arrays, parts: dict[str, spaces.Space]) -> None:
    """Raise UsageError unless `keys` are steps of `ends` [T, N], all that are True, each with its last observation."""
    damaged = UsageError(f"{what} is damaged: last observations do not fit the ends of its episodes")
    if keys.ndim != 2 or keys.shape[1] != 2 or not np.issubdtype(keys.dtype, np.integer):
        raise damaged
    if len(keys) and not np.all((keys >= 0) & (keys < ends.shape)):
        raise damaged
    if last.keys() != parts.keys():
        raise damaged
    if any(len(keys) and last[name].shape != (len(keys), *space.shape) for name, space in parts.items()):
        raise damaged
    missing = np.array(ends)
    missing[tuple(keys.T)] = False
    if missing.any():
        raise damaged


def _file(name: str) -> str:
    return f"{FILE_NAMES.get(name, name).replace('/', '.')}.npy"
