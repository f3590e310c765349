"""Demonstrated parts of observations and action masks: packed rows in memory, an array of each part in the file."""

from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.envs.vec.observations import MASK
from tfbaselines.envs.vec.packed import PackedSpace, check_masks
from tfbaselines.errors import UsageError
from tfbaselines.files import as_declared


def packed_space(space: spaces.Space) -> PackedSpace | None:
    """Return the space of packed rows of a Dict; None for a space of one array."""
    if isinstance(space, PackedSpace):
        return space
    return PackedSpace(space) if isinstance(space, spaces.Dict) else None


def as_policy_takes(rows: np.ndarray, space: spaces.Space) -> Any:
    """Unpack rows [..., bytes] to the parts of a Dict; a policy of any other space takes the array as it is."""
    if not isinstance(space, spaces.Dict):
        return rows
    parts = PackedSpace(space).unpack(rows.reshape(-1, rows.shape[-1]))
    return {name: part.reshape(*rows.shape[:-1], *part.shape[1:]) for name, part in parts.items()}


def array_names(name: str, packed: PackedSpace) -> dict[str, str]:
    """Return the names of a file's arrays, such as obs/image, by the names of the parts."""
    return {part: f"{name}/{part}" for part in packed.places}


def in_parts(name: str, rows: np.ndarray, packed: PackedSpace) -> dict[str, np.ndarray]:
    """Return the arrays of a file that hold packed rows [N, bytes]."""
    parts = packed.unpack(rows)
    return {full: parts[part] for part, full in array_names(name, packed).items()}


def from_parts(name: str, arrays: dict[str, np.ndarray], packed: PackedSpace, count: int) -> np.ndarray | None:
    """Pack the arrays of a file to rows [count, bytes], or refuse them; None if it has none of them."""
    names = array_names(name, packed)
    if not any(full in arrays for full in names.values()):
        return None
    parts = {}
    for part, full in names.items():
        place = packed.places[part]
        parts[part] = as_declared(full, arrays.get(full), (count, *place.shape), place.dtype)
    return packed.pack(parts)


def check_allowed(rows: np.ndarray, actions: np.ndarray, packed: PackedSpace, action_space: spaces.Space) -> None:
    """Raise a UsageError for a mask that is none, and for a demonstrated action that its mask forbids."""
    if MASK not in packed.places:
        return
    masks = packed.unpack(rows)[MASK]
    check_masks(masks, action_space)
    chosen = np.asarray(actions, np.int64).reshape(len(rows), -1) - np.ravel(action_space.start)
    if not isinstance(action_space, spaces.Discrete):
        # Each part's choices follow those of the part before it.
        chosen = chosen + np.concatenate([[0], np.cumsum(np.ravel(action_space.nvec))[:-1]])
    forbidden = np.take_along_axis(masks, chosen, axis=1) == 0
    if forbidden.any():
        step = int(np.flatnonzero(forbidden.any(axis=1))[0])
        raise UsageError(f"the action {actions[step]} of step {step} is forbidden by its '{MASK}'")
