"""VecMonitor: the account of episodes around a whole vector environment."""

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfbaselines.envs.monitor import ResultsWriter
from tfbaselines.envs.vec.base import StepResult, VecEnv, VecEnvWrapper


class VecMonitor(VecEnvWrapper):
    """Add 'episode' = {'r', 'l', 't'} to the info of each step that ends an episode.

    Args:
        venv: the environments.
        filename: a monitor file to write; None for none.
        keep_buf: how many of the latest episodes to keep in epret_buf and eplen_buf; 0 for none.
        info_keywords: names of the last info that are written with the episode.
    """

    def __init__(
        self, venv: VecEnv, filename: str | None = None, keep_buf: int = 0, info_keywords: Sequence[str] = ()
    ) -> None:
        super().__init__(venv)
        self.tstart = time.time()
        self.info_keywords = tuple(info_keywords)
        self.results_writer = (
            ResultsWriter(filename, header={"t_start": self.tstart}, extra_keys=self.info_keywords)
            if filename
            else None
        )
        self.keep_buf = keep_buf
        self.epret_buf: deque[float] = deque(maxlen=keep_buf)
        self.eplen_buf: deque[int] = deque(maxlen=keep_buf)
        self.epcount = 0
        self._begin()

    def reset(self) -> np.ndarray:
        """See VecEnv."""
        obs = self.venv.reset()
        self._begin()
        return obs

    def step_wait(self) -> StepResult:
        """See VecEnv."""
        obs, rewards, dones, infos = self.venv.step_wait()
        self._returns += rewards
        self._lengths += 1
        for i in np.flatnonzero(dones):
            self._end_episode(i, infos[i])
        return obs, rewards, dones, infos

    def state(self) -> dict[str, Any]:
        """See VecEnv."""
        own = {"returns": self._returns.copy(), "lengths": self._lengths.copy(), "episodes": self.epcount}
        return self.venv.state() | {"vec_monitor": own}

    def restore(self, state: dict[str, Any]) -> None:
        """See VecEnv."""
        self.venv.restore(state)
        own = state.get("vec_monitor")
        if own is not None:
            self.epcount = own["episodes"]
            if self.restored:
                self._returns, self._lengths = own["returns"].copy(), own["lengths"].copy()

    def close(self) -> None:
        """See VecEnv."""
        super().close()
        if self.results_writer is not None:
            self.results_writer.close()

    def _begin(self) -> None:
        self._returns, self._lengths = np.zeros(self.num_envs), np.zeros(self.num_envs, np.int64)

    def _end_episode(self, i: int, info: dict[str, Any]) -> None:
        episode = {
            "r": round(float(self._returns[i]), 6),
            "l": int(self._lengths[i]),
            "t": round(time.time() - self.tstart, 6),
        }
        episode |= {key: info[key] for key in self.info_keywords}
        info["episode"] = episode
        self.epret_buf.append(episode["r"])
        self.eplen_buf.append(episode["l"])
        self.epcount += 1
        if self.results_writer is not None:
            self.results_writer.write_row(episode)
        self._returns[i], self._lengths[i] = 0.0, 0
