"""Observations of several parts that training joined to one vector: exports take the parts by name."""

import math
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from tfbaselines.envs.vec.observations import named_parts, named_parts_of
from tfbaselines.envs.vec.packed import opened
from tfbaselines.policy.encoding import encode_numpy


class Joined(NamedTuple):
    """A vector of several parts.

    Attributes:
        raw: the environment's Dict or Tuple space.
        whole: space of the vector: a MultiDiscrete of discrete parts, otherwise a Box, as gymnasium flattens them.
        parts: spaces of the parts by name, in their order in the vector.
    """

    raw: spaces.Space
    whole: spaces.Space
    parts: dict[str, spaces.Space]

    @property
    def discrete(self) -> bool:
        """True if the vector has the discrete values themselves, not rows of a one and zeros."""
        return isinstance(self.whole, spaces.MultiDiscrete)

    def join(self, parts: dict[str, np.ndarray]) -> np.ndarray:
        """Join a batch of parts to vectors [N, D]."""
        rows = []
        for name, space in self.parts.items():
            part = np.asarray(parts[name])
            part = part.reshape(len(part), -1) if isinstance(space, spaces.MultiDiscrete) else part
            encoded = part if self.discrete else encode_numpy(part, space)
            rows.append(encoded.reshape(len(part), -1))
        return np.concatenate(rows, axis=1)

    def split(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return the parts of vectors [N, D]."""
        if self.discrete:
            sizes = [math.prod(space.shape) for space in self.parts.values()]
            columns = np.split(rows, np.cumsum(sizes)[:-1], axis=1)
            pairs = zip(self.parts.items(), columns, strict=True)
            return {name: column.reshape(-1, *space.shape) for (name, space), column in pairs}
        found = [named_parts(spaces.unflatten(self.raw, row)) for row in rows]
        return {name: np.stack([np.asarray(one[name]) for one in found]) for name in self.parts}


def joined_of(model: Any) -> Joined | None:
    """Return the parts of a model's observations if training joined them; None otherwise."""
    raw, whole = model.observations.raw_space, model.policy.observation_space
    if raw is None or isinstance(opened(whole), spaces.Dict):
        return None
    return Joined(raw, whole, dict(named_parts_of(raw).spaces))
