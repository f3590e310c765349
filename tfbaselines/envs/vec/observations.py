"""Batches of observations of any space: an array, or a dictionary of arrays."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

# The name of an observation that is not a Dict.
ONLY = "all"


def parts_of(space: spaces.Space) -> dict[str, spaces.Space]:
    """The spaces of a Dict by name; any other space under the name ONLY."""
    return dict(space.spaces) if isinstance(space, spaces.Dict) else {ONLY: space}


def parts_of_obs(obs: Any) -> Mapping[str, Any]:
    """An observation's (or a batch's) parts, under the names that `parts_of` gives their spaces."""
    return obs if isinstance(obs, Mapping) else {ONLY: obs}


class Observations:
    """Room for one observation of each environment.

    Args:
        num_envs: how many environments.
        space: of one observation; a Dict gives a dictionary of arrays.
        allocate: makes an array from shape and dtype; zeros by default.
    """

    def __init__(self, num_envs: int, space: spaces.Space, allocate: Any = np.zeros) -> None:
        self._dict = isinstance(space, spaces.Dict)
        parts = space.spaces if self._dict else {None: space}
        self._arrays = {key: allocate((num_envs, *part.shape), part.dtype) for key, part in parts.items()}
        self._only = None if self._dict else self._arrays[None]
        self._floats = [array for array in self._arrays.values() if array.dtype.kind == "f"]

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

    def finite(self, rewards: np.ndarray) -> bool:
        """Whether every number is finite; a sum of them is not when one is not, which is the cheapest question."""
        total = np.add.reduce(rewards)
        for array in self._floats:
            total += np.add.reduce(array, axis=None)
        # An overflow of finite numbers also ends here, and is looked into.
        return total - total == 0 or self.first_not_finite(rewards) is None

    def first_not_finite(self, rewards: np.ndarray) -> int | None:
        """The first environment with a number that is not finite."""
        for i in range(len(rewards)):
            if not all(np.isfinite(array[i]).all() for array in (rewards, *self._floats)):
                return i
        return None
