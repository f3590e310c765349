"""Replayed sequences as few arrays for a file, and back; a file may be damaged or come from a stranger."""

from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.arrays import check_array, check_size
from tfbaselines.errors import UsageError

Trajectory = dict[str, np.ndarray]

# Arrays with one entry more than the sequence has steps.
FENCES = ("obs", "episode_start")

NAMES = {"obs", "episode_start", "actions", "rewards", "terminated", "truncated", "mus"}

# Memory of one sequence's Python objects, in bytes, in addition to its numbers.
BYTES_PER_SEQUENCE = 2000

DAMAGED = "the saved replay is damaged"


def check_layout(state: dict[str, Any], wanted: str) -> None:
    """Raise UsageError unless a saved replay has the layout wanted."""
    if state.get("layout") != wanted:
        raise UsageError(f"the saved replay holds {state.get('layout')!s:.80}, this run needs {wanted}")


def flatten(sequences: list[Trajectory]) -> dict[str, Any]:
    """Concatenate the arrays of all sequences by name, and keep their lengths."""
    names = sorted(sequences[0]) if sequences else []
    return {
        "arrays": {name: np.concatenate([sequence[name] for sequence in sequences]) for name in names},
        "lengths": {name: np.array([len(sequence[name]) for sequence in sequences]) for name in names},
    }


def unflatten(state: dict[str, Any], observation: spaces.Space, action: spaces.Space, packed: bool) -> list[Trajectory]:
    """Restore the sequences that `flatten` was given.

    Args:
        state: the result of `flatten`.
        observation: space of the observations.
        action: space of the actions.
        packed: observations are bytes.

    Returns:
        The sequences. UsageError when they do not fit together or come from other spaces.
    """
    arrays, lengths = _arrays(state, "arrays"), _arrays(state, "lengths")
    if not arrays and not lengths:
        return []
    if arrays.keys() != lengths.keys() or arrays.keys() - {"states"} != NAMES:
        raise UsageError(f"{DAMAGED}: it has the arrays {', '.join(sorted(arrays))[:200]}")
    _check_lengths(arrays, lengths, packed)
    _check_shapes(arrays, observation, action, packed)
    count = len(lengths["rewards"])
    check_size(BYTES_PER_SEQUENCE * count)
    parts = {name: np.split(array, np.cumsum(lengths[name])[:-1]) for name, array in arrays.items()}
    return [{name: pieces[i].copy() for name, pieces in parts.items()} for i in range(count)]


def counts_of(state: dict[str, Any], total: int) -> tuple[list[int], list[int]]:
    """Return the number of pieces of each finished episode, and of the unfinished one of each environment.

    UsageError unless there are `total` pieces in all.
    """
    finished, unfinished = state.get("pieces"), state.get("open")
    fits = all(
        _is_vector(counts) and not np.any((counts < least) | (counts > total))
        for counts, least in ((finished, 1), (unfinished, 0))
    )
    if not fits or finished.sum() + unfinished.sum() != total:
        raise UsageError(f"{DAMAGED}: its episodes do not consist of its {total} pieces")
    return finished.tolist(), unfinished.tolist()


def _arrays(state: dict[str, Any], key: str) -> dict[str, Any]:
    part = state.get(key)
    if not isinstance(part, dict) or not all(isinstance(array, np.ndarray) and array.ndim for array in part.values()):
        raise UsageError(f"{DAMAGED}: its {key} are missing")
    return part


def _is_vector(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.ndim == 1 and np.issubdtype(array.dtype, np.integer)


def _check_lengths(arrays: Trajectory, lengths: Trajectory, packed: bool) -> None:
    steps = lengths["rewards"]
    for name, own in lengths.items():
        fits = _is_vector(own) and own.shape == steps.shape and not np.any((own < 1) | (own > len(arrays[name])))
        if fits and name == "states":
            fits = bool(np.all((own == 1) | (own == steps)))
        elif fits and not (name == "obs" and packed):
            fits = np.array_equal(own, steps + (name in FENCES))
        if not fits or own.sum() != len(arrays[name]):
            raise UsageError(f"{DAMAGED}: the lengths of {name} do not fit")


def _check_shapes(arrays: Trajectory, observation: spaces.Space, action: spaces.Space, packed: bool) -> None:
    wanted = dict.fromkeys(("episode_start", "rewards", "terminated", "truncated"), ())
    wanted |= {"obs": () if packed else observation.shape, "actions": action.shape}
    try:
        for name, array in arrays.items():
            check_array(name, array, ("T", *wanted.get(name, ("width",))))
    except ValueError as error:
        raise UsageError(f"{DAMAGED}, or of other environments: {error}") from None
    if packed and arrays["obs"].dtype != np.uint8:
        raise UsageError(f"{DAMAGED}: packed observations are {arrays['obs'].dtype}")
    if isinstance(action, spaces.Discrete):
        numbers = arrays["actions"] - action.start
        if numbers.dtype.kind == "f" or np.any((numbers < 0) | (numbers >= action.n)):
            raise UsageError(f"{DAMAGED}, or of other environments: it has actions that {action} has not")
