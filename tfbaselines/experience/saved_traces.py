"""Sequences as few arrays for a file, and back; what is read may be damaged or come from a stranger."""

from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.arrays import check_size

Sequence = dict[str, np.ndarray]

# Arrays with an entry more than the sequence has steps.
FENCES = ("obs", "episode_start")

NAMES = {"obs", "episode_start", "actions", "rewards", "terminated", "truncated", "mus"}

# Names of arrays in replays saved by older versions.
OLD_NAMES = {"masks": "episode_start", "ended": "terminated", "cut": "truncated"}

# Bytes that the objects of one sequence take beside its numbers.
BYTES_PER_SEQUENCE = 2000

DAMAGED = "the saved replay is damaged"


def check_layout(state: dict[str, Any], wanted: str) -> None:
    """ValueError unless a saved replay has the layout wanted."""
    if state.get("layout") != wanted:
        raise ValueError(f"the saved replay is of {state.get('layout')!s:.80}, this one of {wanted}")


def flatten(sequences: list[Sequence]) -> dict[str, Any]:
    """Sequences as few arrays: for each name the concatenated pieces, and their lengths."""
    names = sorted(sequences[0]) if sequences else []
    return {
        "arrays": {name: np.concatenate([sequence[name] for sequence in sequences]) for name in names},
        "lengths": {name: np.array([len(sequence[name]) for sequence in sequences]) for name in names},
    }


def unflatten(state: dict[str, Any], observation: spaces.Space, action: spaces.Space, packed: bool) -> list[Sequence]:
    """The sequences that `flatten` was given; arrays of older versions get their present names.

    Args:
        state: what `flatten` returned.
        observation: space of the observations.
        action: space of the actions.
        packed: observations are bytes.

    Returns:
        The sequences; ValueError when they do not fit together, or are of other spaces.
    """
    arrays, lengths = (
        {OLD_NAMES.get(name, name): part for name, part in _named(state, key).items()} for key in ("arrays", "lengths")
    )
    if not arrays and not lengths:
        return []
    if arrays.keys() != lengths.keys() or arrays.keys() - {"states"} != NAMES:
        raise ValueError(f"{DAMAGED}: it has the arrays {', '.join(sorted(arrays))[:200]}")
    _check_lengths(arrays, lengths, packed)
    _check_shapes(arrays, observation, action, packed)
    count = len(lengths["rewards"])
    check_size(BYTES_PER_SEQUENCE * count)
    parts = {name: np.split(array, np.cumsum(lengths[name])[:-1]) for name, array in arrays.items()}
    return [{name: pieces[i].copy() for name, pieces in parts.items()} for i in range(count)]


def counts_of(state: dict[str, Any], total: int) -> tuple[list[int], list[int]]:
    """How many pieces each whole episode has, and each that has not ended, by environment.

    Older versions did not save those that have not ended. ValueError unless there are `total` pieces in all.
    """
    whole, going_on = state.get("pieces"), state.get("open", np.zeros(0, np.int64))
    fits = all(
        _is_vector(counts) and not np.any((counts < least) | (counts > total))
        for counts, least in ((whole, 1), (going_on, 0))
    )
    if not fits or whole.sum() + going_on.sum() != total:
        raise ValueError(f"{DAMAGED}: its episodes do not have the {total} pieces that there are")
    return whole.tolist(), going_on.tolist()


def _named(state: dict[str, Any], key: str) -> dict[str, Any]:
    part = state.get(key)
    if not isinstance(part, dict) or not all(isinstance(array, np.ndarray) and array.ndim for array in part.values()):
        raise ValueError(f"{DAMAGED}: its {key} are missing")
    return part


def _is_vector(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.ndim == 1 and np.issubdtype(array.dtype, np.integer)


def _check_lengths(arrays: Sequence, lengths: Sequence, packed: bool) -> None:
    steps = lengths["rewards"]
    for name, own in lengths.items():
        fits = _is_vector(own) and own.shape == steps.shape and not np.any((own < 1) | (own > len(arrays[name])))
        if fits and name == "states":
            fits = bool(np.all((own == 1) | (own == steps)))
        elif fits and not (name == "obs" and packed):
            fits = np.array_equal(own, steps + (name in FENCES))
        if not fits or own.sum() != len(arrays[name]):
            raise ValueError(f"{DAMAGED}: the lengths of {name} do not fit")


def _check_shapes(arrays: Sequence, observation: spaces.Space, action: spaces.Space, packed: bool) -> None:
    wanted = dict.fromkeys(("episode_start", "rewards", "terminated", "truncated"), ())
    wanted |= {"obs": () if packed else observation.shape, "actions": action.shape}
    for name, array in arrays.items():
        tail = array.shape[1:]
        if array.dtype.kind not in "biuf" or (tail != wanted[name] if name in wanted else len(tail) != 1):
            raise ValueError(f"{DAMAGED}, or of other environments: {name} has shape {array.shape}, {array.dtype}")
    if packed and arrays["obs"].dtype != np.uint8:
        raise ValueError(f"{DAMAGED}: packed observations are {arrays['obs'].dtype}")
    if isinstance(action, spaces.Discrete):
        numbers = arrays["actions"] - action.start
        if numbers.dtype.kind == "f" or np.any((numbers < 0) | (numbers >= action.n)):
            raise ValueError(f"{DAMAGED}, or of other environments: it has actions that {action} has not")
