"""Checks of a saved replay before it is taken over: it may be damaged, or from a stranger."""

from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

Arrays = dict[str, np.ndarray]

# Bytes of replay.json.
LARGEST_ABOUT = 2**20


def steps_of(about: Any) -> int:
    """The number of steps of each environment that replay.json states; ValueError when it states none."""
    steps = about.get("steps") if isinstance(about, dict) else None
    if type(steps) is not int or steps < 0:
        raise ValueError("replay.json does not have the number of steps")
    return steps


def check_arrays(source: Path, steps: int, saved: Arrays, own: Arrays) -> None:
    """ValueError unless saved arrays have a row for each step and one more, and else the shapes and types of `own`."""
    shapes = {name: array.shape[1:] for name, array in saved.items()}
    wanted = {name: array.shape[1:] for name, array in own.items()}
    if shapes != wanted:
        raise ValueError(f"the replay in '{source}' is of other environments: {shapes}, here {wanted}")
    for name, array in saved.items():
        dtype = own[name].dtype
        if not array.ndim or len(array) != steps + 1 or not np.can_cast(array.dtype, dtype, "same_kind"):
            raise ValueError(
                f"the replay in '{source}' is damaged: {name} has shape {array.shape} and type {array.dtype}, "
                f"not {(steps + 1, *wanted[name])} and {dtype}"
            )


def check_last(source: Path, ends: np.ndarray, keys: np.ndarray, last: Arrays, parts: dict[str, spaces.Space]) -> None:
    """ValueError unless there is a last observation for every end of an episode that needs one.

    Args:
        source: where they are from, for the error.
        ends: [steps + 1, N] the steps that need one; the last row has no step.
        keys: [K, 2] the steps and environments of the last observations.
        last: the observations [K, ...] by their part's name.
        parts: the parts' spaces.
    """
    damaged = ValueError(f"the replay in '{source}' is damaged: last observations do not fit the ends of its episodes")
    if keys.ndim != 2 or keys.shape[1] != 2 or not np.issubdtype(keys.dtype, np.integer):
        raise damaged
    if len(keys) and not np.all((keys >= 0) & (keys < ends.shape)):
        raise damaged
    if any(len(keys) and last[name].shape != (len(keys), *space.shape) for name, space in parts.items()):
        raise damaged
    missing = np.array(ends)
    missing[tuple(keys.T)] = False
    if missing[:-1].any():
        raise damaged
