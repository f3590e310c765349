"""Files of models and checkpoints: arrays and JSON in one npz, without pickle, written whole or not at all.

kept_replay.py saves each rank's replay beside the checkpoints.
"""

import contextlib
import json
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tfbaselines.errors import UsageError
from tfbaselines.files import parse_document, read_archive, replacing
from tfbaselines.logs import logger

# Entry of the archive with the tree; references replace its arrays.
TREE_ENTRY = "tree.json"
ARRAY_KEY = "__array__"

Tree = dict[str, Any]


class DamagedError(UsageError):
    """A saved file holds other values than it should."""


def save_tree(path: str | os.PathLike, tree: Tree) -> None:
    """Write nested dicts of arrays and JSON values to one file.

    The file is written beside its destination, flushed to the disk and renamed: a crash leaves the old file or the
    new one, never a part of one.

    Args:
        path: path of the file; missing directories are made.
        tree: dicts with string keys; leaves are numpy arrays and scalars, None, bool, int, float, str and lists.
    """
    path = Path(path)
    arrays: list[np.ndarray] = []
    document = json.dumps(_take_out_arrays(tree, arrays))
    with contextlib.ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context(replacing(path, "b"))
        except OSError as error:
            raise UsageError(f"cannot save to '{path}': {error.strerror or error}") from None
        text = np.frombuffer(document.encode(), np.uint8)
        np.savez(file, **{TREE_ENTRY: text}, **{f"array_{k}": array for k, array in enumerate(arrays)})
    _sync_directory(path.parent)


def load_tree(path: str | os.PathLike) -> Tree:
    """Read a file of `save_tree`; raise ValueError if it is missing, cut short or another file.

    The file may come from a stranger: sizes are checked before anything is read, and nothing in it is executed.
    """
    path = Path(path)
    if not path.exists():
        raise UsageError(f"there is no file '{path}'")
    if not path.is_file():
        raise UsageError(f"'{path}' is not a file")
    try:
        arrays = read_archive(path)
        document = parse_document(arrays.pop(TREE_ENTRY).tobytes())
        tree = _put_back_arrays(document, [arrays[f"array_{k}"] for k in range(len(arrays))])
        if not isinstance(tree, dict):
            raise UsageError("its tree is not one of names")
    except Exception as error:  # A damaged archive makes zipfile, numpy and json raise almost anything.
        reason = " ".join(str(error)[:200].split()) or type(error).__name__
        raise DamagedError(
            f"'{path}' cannot be read as a saved model, it is damaged or something else ({reason})"
        ) from None
    return tree


def saved_file(path: str | os.PathLike) -> Path:
    """Return the file of a saved model: `path`, or the last checkpoint if `path` is a run's log directory."""
    path = Path(path).expanduser()
    if not path.is_dir():
        return path
    for directory in (path / "checkpoints", path):
        found = Checkpoints(directory).latest()
        if found is not None:
            return found
    raise UsageError(
        f"directory '{path}' has no readable checkpoint (checkpoints/00001, ...): give a run's log directory, or a file"
    )


class Checkpoints:
    """Write and read the numbered checkpoints of one run.

    Args:
        directory: directory of the files 00001, 00002, ... and 'best'.
        keep: number of latest checkpoints to keep.
    """

    def __init__(self, directory: str | os.PathLike, keep: int = 5) -> None:
        self.directory = Path(directory)
        self.keep = keep

    def remove_leftovers(self) -> None:
        """Remove files that a killed run left half written; no other run may write here meanwhile."""
        for pattern in (".*.tmp", ".best.*"):
            for path in self.directory.glob(pattern):
                path.unlink(missing_ok=True)

    def save(self, number: int, tree: Tree) -> Path:
        """Write checkpoint `number`; remove the oldest ones, and any with a larger number from an earlier run."""
        path = self.directory / f"{number:05d}"
        save_tree(path, tree)
        kept = [old for old in self._numbered() if int(old.name) <= number][-self.keep :]
        for old in self._numbered():
            if old not in kept:
                old.unlink(missing_ok=True)
        return path

    def mark_best(self, path: Path) -> None:
        """Keep a copy of `path` as the best checkpoint, also after the numbered one is removed."""
        scratch = self.directory / f".best.{secrets.token_hex(8)}"
        try:
            os.link(path, scratch)
            os.replace(scratch, self.best_path)
        except OSError:
            # The file system has no links.
            with replacing(self.best_path, "b") as file:
                file.write(path.read_bytes())

    @property
    def best_path(self) -> Path:
        """Path of the best checkpoint, which may not exist."""
        return self.directory / "best"

    def newest(self, take: Callable[[Path, Tree], None] = lambda path, tree: None) -> tuple[Path | None, Tree, str]:
        """Return the newest readable checkpoint or None, its content, and a warning if newer ones are damaged.

        Args:
            take: takes over a checkpoint, or raises DamagedError; then the one before is tried.
        """
        damaged: list[str] = []
        reason = ""
        for path in reversed(self._numbered()):
            try:
                tree = load_tree(path)
                take(path, tree)
            except DamagedError as error:
                reason = reason or f" ({error})"
                damaged.append(path.name)
                continue
            warning = f"'{path}' is used: checkpoint {', '.join(damaged)} is damaged{reason}" if damaged else ""
            return path, tree, warning
        return None, {}, reason

    def latest(self) -> Path | None:
        """Return the newest readable checkpoint or None; warn if newer ones are damaged."""
        path, _, warning = self.newest()
        if path is not None and warning:
            logger.warn(warning)
        return path

    def describe(self) -> str:
        """Describe the checkpoints, for errors."""
        numbers = self.numbers
        if not numbers:
            return f"there is no checkpoint in '{self.directory}'"
        return f"no checkpoint in '{self.directory}' can be read: {', '.join(numbers)} are damaged"

    def named(self, name: str) -> Path:
        """Return the checkpoint 'last', 'best' or of a number; if it is missing, the error lists the existing ones."""
        numbers = self.numbers
        if name == "last":
            path = self.latest()
            if path is None:
                raise UsageError(self.describe())
        elif name == "best":
            path = self.best_path
        else:
            path = next((path for path in self._numbered() if name.isdigit() and int(path.name) == int(name)), None)
        if path is None or not path.exists():
            there = f"last, best, {', '.join(numbers)}" if numbers else "there are none"
            raise UsageError(f"'{self.directory}' has no checkpoint '{name}': {there}")
        return path

    @property
    def numbers(self) -> list[str]:
        """Names of the numbered checkpoints, the oldest first."""
        return [path.name for path in self._numbered()]

    def _numbered(self) -> list[Path]:
        if not self.directory.is_dir():
            return []
        return sorted((path for path in self.directory.iterdir() if path.name.isdigit()), key=lambda p: int(p.name))


# Metadata by name: whole numbers of at least 0, numbers, arrays of numbers, and names with values.
COUNTS = ("update", "timesteps", "timesteps_of_all", "steps", "seen", "since", "rows", "bytes")
COUNTS += ("_length", "_finished_steps", "_elapsed_steps")
NUMBERS = ("elapsed", "best", "count", "_reward", "clipob", "epsilon")
ARRAYS = ("mean", "var", "latest", "returns")
NAMED = ("training", "files", "events", "env", "rng", "ranks", "callbacks", "acting", "episodes", "eval_episodes")
OPTIONAL = ("best", "files", "_elapsed_steps")
# Wrappers and callbacks of this package; others give their states any names.
OWN = ("Monitor", "TimeLimit", "OrderEnforcing", "PassiveEnvChecker")
OWN += ("EvaluateEvery", "SaveEvery", "StopWithoutGain", "Doctor")


def fault_of(value: Any, name: str = "training", path: str = "training") -> str | None:
    """Return what is wrong with the metadata of a run, by their names in COUNTS and so on; None if nothing is."""
    if value is None:
        known = name in (*COUNTS, *NUMBERS, *ARRAYS, *NAMED) and name not in OPTIONAL
        return f"{path} is None" if known else None
    present = value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value
    number = isinstance(present, int | float) and not isinstance(present, bool) and abs(present) < 2**53
    if name in COUNTS and not (number and isinstance(present, int) and present >= 0):
        return f"{path} is {value!r:.50}, not a count"
    if name in NUMBERS and not number:
        return f"{path} is {value!r:.50}, not a number"
    if name in ARRAYS and np.asarray(value).dtype.kind not in "fiu":
        return f"{path} is {value!r:.50}, not numbers"
    if name in NAMED and not isinstance(value, dict | list):
        return f"{path} is {value!r:.50}, without names"
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if name == "events":
        items = ((file, {"bytes": size}) for file, size in value.items())
    if name == "further":
        # Entries of episodes have the names of monitor_keys.
        wrong = (f"{path}.{key} is not numbers" for key, item in items if np.asarray(item).dtype.kind not in "fiu")
        return next(wrong, None)
    if name == "callbacks":
        items = ((key, item) for key, item in items if key.split()[0] in OWN)
    # The layers of an environment are pairs of a class's name and its state.
    of_another = isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and value[0] not in OWN
    if name == "acting":
        return next((f"{path}.{key} does not fit" for key, item in items if not _is_of_runner(item)), None)
    if of_another:
        return None
    faults = (fault_of(item, str(key), f"{path}.{key}") for key, item in items)
    return next((fault for fault in faults if fault is not None), None)


def _is_of_runner(state: Any) -> bool:
    """Return whether the arrays of a runner have a row for each environment; other states may be anything."""
    if not isinstance(state, dict) or "episode_start" not in state:
        return isinstance(state, dict)
    begun, *others = (state[name] for name in ("episode_start", "obs", "states") if state.get(name) is not None)
    if state.get("obs") is None or not isinstance(begun, np.ndarray) or begun.ndim != 1:
        return False
    arrays = [part for one in others for part in (one.values() if isinstance(one, dict) else [one])]
    return all(isinstance(one, np.ndarray) and one.ndim and len(one) == len(begun) for one in arrays)


def _take_out_arrays(value: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, dict):
        return {str(key): _take_out_arrays(item, arrays) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_take_out_arrays(item, arrays) for item in value]
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise TypeError("an array of objects cannot be saved")
        arrays.append(value)
        return {ARRAY_KEY: len(arrays) - 1}
    return value.item() if isinstance(value, np.generic) else value


def _put_back_arrays(value: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, dict):
        if value.keys() == {ARRAY_KEY}:
            number = value[ARRAY_KEY]
            if type(number) is not int or not 0 <= number < len(arrays):
                raise UsageError(f"it refers to array {number!r:.20}, which is missing")
            return arrays[number]
        return {key: _put_back_arrays(item, arrays) for key, item in value.items()}
    return [_put_back_arrays(item, arrays) for item in value] if isinstance(value, list) else value


def _sync_directory(directory: Path) -> None:
    """Flush a rename to the disk, if the system can sync directories."""
    try:
        handle = os.open(directory, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
