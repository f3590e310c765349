"""A replay that holds a data set from its beginning: for learning without an environment."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from tfbaselines.envs.vec.observations import ONLY
from tfbaselines.experience.demonstrations import Demonstrations
from tfbaselines.experience.replay.uniform import Replay


class DataSetReplay(Replay):
    """The transitions of a data set, one episode after the other; nothing is added.

    A recurrent policy's memory is not part of a data set: sequences begin with an empty one.

    Args:
        data: the episodes.
        env: has the spaces.
        gamma: see Storage.
        n_step: see Storage.
        state_size: see Storage.
    """

    def __init__(
        self, data: Demonstrations, env: Any, gamma: float = 0.99, n_step: int = 1, state_size: int = 0
    ) -> None:
        data = data.with_next_obs()
        steps, last = len(data), data.ends - 1
        place = SimpleNamespace(num_envs=1, observation_space=env.observation_space, action_space=env.action_space)
        super().__init__(place, steps, gamma, n_step, state_size)
        arrays = {name: array[:, 0] for name, array in self._arrays.items()}
        arrays[f"obs/{ONLY}"][:steps] = data.obs
        for name in ("actions", "rewards", "episode_start"):
            arrays[name][:steps] = getattr(data, name)
        arrays["terminated"][last], arrays["truncated"][last] = data.terminated, ~data.terminated
        for episode in np.flatnonzero(~data.terminated):
            self._last[int(last[episode]), 0] = {ONLY: data.last_obs[episode]}
        self.steps = self._filled = steps

    @property
    def observations(self) -> np.ndarray:
        """[T, ...] observations before every step."""
        return self._arrays[f"obs/{ONLY}"][: self.steps, 0]
