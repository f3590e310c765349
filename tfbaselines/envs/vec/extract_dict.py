"""VecExtractDictObs: one entry of dictionary observations."""

from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.envs.vec.base import VecEnv, VecEnvObservationWrapper
from tfbaselines.errors import unknown


class VecExtractDictObs(VecEnvObservationWrapper):
    """Show one entry of Dict observations.

    Args:
        venv: environments with Dict observations.
        key: the entry's.
    """

    def __init__(self, venv: VecEnv, key: str) -> None:
        space = venv.observation_space
        if not isinstance(space, spaces.Dict):
            raise ValueError(f"VecExtractDictObs needs Dict observations, not {space}")
        if key not in space.spaces:
            raise unknown("key", key, space.spaces)
        super().__init__(venv, observation_space=space.spaces[key])
        self.key = key

    def process(self, obs: Any) -> np.ndarray:
        """The entry."""
        return obs[self.key]
