"""Batches of observations of any space: an array, or a dictionary of arrays."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

# The part of Dict observations, and the entry of infos, that says which actions are allowed.
MASK = "action_mask"
# The name of an observation that is not a Dict.
ONLY = "all"


# Spaces of observations, or of the parts of a Dict.
ARRAYS = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


def unsupported(space: spaces.Space) -> ValueError:
    """The error for observations that are no arrays."""
    names = ", ".join(kind.__name__ for kind in ARRAYS)
    return ValueError(f"observation space {space!s:.100} is not supported: {names}, or a Dict or Tuple with such parts")


def parts_of(space: spaces.Space) -> dict[str, spaces.Space]:
    """The spaces of a Dict by name; any other space under the name ONLY."""
    return dict(space.spaces) if isinstance(space, spaces.Dict) else {ONLY: space}


def is_image(space: spaces.Space) -> bool:
    """Whether observations are pixels: uint8 of rank 3, which the convolutional networks scale themselves."""
    return isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) == 3


def parts_of_obs(obs: Any) -> Mapping[str, Any]:
    """An observation's (or a batch's) parts, under the names that `parts_of` gives their spaces."""
    return obs if isinstance(obs, Mapping) else {ONLY: obs}


def in_a_row(mask: Any) -> np.ndarray:
    """The entries of an action mask one after the other; one of MultiDiscrete may come as a list or tuple of parts."""
    parts = mask if isinstance(mask, list | tuple) else [mask]
    return np.concatenate([np.ravel(part) for part in parts] or [[]])


class Observations:
    """Room for one observation of each environment.

    Args:
        num_envs: how many environments.
        space: of one observation; a Dict gives a dictionary of arrays.
        allocate: makes an array from shape and dtype; zeros by default.
    """

    def __init__(self, num_envs: int, space: spaces.Space, allocate: Any = np.zeros) -> None:
        self._dict = isinstance(space, spaces.Dict)
        named = parts_of(space)
        if not named or not all(isinstance(part, ARRAYS) for part in named.values()):
            raise unsupported(space)
        parts = space.spaces if self._dict else {None: space}
        self._arrays = {key: allocate((num_envs, *part.shape), part.dtype) for key, part in parts.items()}
        self._only = None if self._dict else self._arrays[None]
        self._floats = [(array, array.reshape(-1)) for array in self._arrays.values() if array.dtype.kind == "f"]

    def put(self, i: int, obs: Any) -> None:
        """Take in environment i's observation."""
        if self._only is not None:
            self._only[i] = obs
        else:
            for key, array in self._arrays.items():
                array[i] = obs[key]

    def copy(self) -> Any:
        """The batch, in memory of its own."""
        if self._only is not None:
            return self._only.copy()
        return {key: array.copy() for key, array in self._arrays.items()}

    def finite(self) -> bool:
        """Whether every number is finite. A sum of squares is not when one of them is not: the cheapest check."""
        for array, flat in self._floats:
            # Squares of finite numbers overflow too.
            if not math.isfinite(flat.dot(flat)) and not np.isfinite(array).all():
                return False
        return True

    def first_not_finite(self) -> int | None:
        """The first environment with a number that is not finite."""
        rows = [~np.isfinite(array).reshape(len(array), -1).all(axis=1) for array, _ in self._floats]
        bad = np.flatnonzero(np.any(rows, axis=0)) if rows else []
        return int(bad[0]) if len(bad) else None
