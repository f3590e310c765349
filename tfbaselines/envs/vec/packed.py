"""Observations of several parts as one row of bytes, so that rollouts, replays and batches hold a single array.

Policies take the parts out again, in their compiled functions.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from tfbaselines.envs.vec.action_mask import with_action_masks
from tfbaselines.envs.vec.base import VecEnv, VecEnvObservationWrapper
from tfbaselines.errors import UsageError


class Place(NamedTuple):
    """Where a part is in a row: its first byte, the byte after it, its type and its shape."""

    start: int
    end: int
    dtype: np.dtype
    shape: tuple[int, ...]


class PackedSpace(spaces.Box):
    """Rows of bytes that hold Dict observations.

    Args:
        parts: the observations; of Box, Discrete, MultiDiscrete and MultiBinary parts.
    """

    def __init__(self, parts: spaces.Dict) -> None:
        self.parts, self.places, start = parts, {}, 0
        for name, part in parts.spaces.items():
            dtype, shape = _dtype(name, part), tuple(part.shape or ())
            end = start + math.prod(shape) * dtype.itemsize
            self.places[name] = Place(start, end, dtype, shape)
            start = end
        super().__init__(0, 255, (start,), np.uint8)

    def pack(self, obs: Mapping[str, Any]) -> np.ndarray:
        """Rows [B, bytes] of a batch of observations."""
        return np.concatenate([_bytes(obs[name], place) for name, place in self.places.items()], axis=1)

    def unpack(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """The observations in rows [B, bytes]."""
        return {
            name: np.ascontiguousarray(rows[:, place.start : place.end]).view(place.dtype).reshape(-1, *place.shape)
            for name, place in self.places.items()
        }


def _dtype(name: str, space: spaces.Space) -> np.dtype:
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return np.dtype(np.int32)
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        return np.dtype(np.uint8 if space.dtype in (np.uint8, np.int8) else np.float32)
    raise UsageError(
        f"observation part '{name}', {space}, is not supported: Box, Discrete, MultiDiscrete and MultiBinary are"
    )


def _bytes(values: Any, place: Place) -> np.ndarray:
    values = np.ascontiguousarray(values, place.dtype)
    return values.reshape(len(values), -1).view(np.uint8)


def opened(space: spaces.Space) -> spaces.Space:
    """The Dict in a PackedSpace; any other space as it is."""
    return space.parts if isinstance(space, PackedSpace) else space


def unpacked(obs: Any, space: spaces.Space) -> Any:
    """A batch of observations of a space, taken out of rows of bytes if it is a PackedSpace."""
    return space.unpack(obs) if isinstance(space, PackedSpace) and not isinstance(obs, Mapping) else obs


class VecPacked(VecEnvObservationWrapper):
    """Dict observations as rows of bytes.

    Args:
        venv: environments with Dict observations.
    """

    def __init__(self, venv: VecEnv) -> None:
        super().__init__(venv, PackedSpace(venv.observation_space))

    def process(self, obs: Mapping[str, np.ndarray]) -> np.ndarray:
        """See VecEnvObservationWrapper."""
        return self.observation_space.pack(obs)


def with_packed_observations(env: VecEnv) -> VecEnv:
    """The environments with action masks beside their observations, and observations of several parts in one row."""
    if isinstance(env.observation_space, PackedSpace):
        return env
    env = with_action_masks(env)
    return VecPacked(env) if isinstance(env.observation_space, spaces.Dict) else env
