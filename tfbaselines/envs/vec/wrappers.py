"""VecFrameStack: the latest frames side by side along the last axis.

VecExtractDictObs: one entry of dictionary observations.

VecMonitor: the account of episodes around a whole vector environment.
"""

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.envs.monitor import ResultsWriter
from tfbaselines.envs.vec.base import StepResult, VecEnv, VecEnvObservationWrapper, VecEnvWrapper, change_last
from tfbaselines.errors import UsageError, unknown


class VecFrameStack(VecEnvWrapper):
    """Show the latest nstack frames; what is older than the episode is zero.

    As in the original the stack moves by one channel a step, also when a frame has several.

    Args:
        venv: environments whose observations are frames [..., C].
        nstack: how many frames.
    """

    def __init__(self, venv: VecEnv, nstack: int) -> None:
        space = venv.observation_space
        if not isinstance(space, spaces.Box) or not space.shape:
            raise UsageError(f"VecFrameStack needs Box observations with an axis to stack on, not {space}")
        if nstack < 1:
            raise UsageError(f"nstack={nstack!r} is not valid: at least 1")
        self.nstack = nstack
        self._channels = space.shape[-1]
        low, high = np.repeat(space.low, nstack, axis=-1), np.repeat(space.high, nstack, axis=-1)
        super().__init__(venv, spaces.Box(low, high, dtype=space.dtype))
        self.stackedobs = np.zeros((venv.num_envs, *low.shape), space.dtype)
        # Four bytes a pixel are moved as one number: an eighth of the time of moving them byte by byte.
        packs = low.shape[-1] == 4 and self._channels == 1 and space.dtype == np.uint8 and np.little_endian
        self._packed = self.stackedobs.view(np.uint32) if packs else None

    def reset(self) -> np.ndarray:
        """See VecEnv."""
        self.stackedobs.fill(0)
        self.stackedobs[..., -self._channels :] = self.venv.reset()
        return self.stackedobs.copy()

    def step_wait(self) -> StepResult:
        """See VecEnv."""
        frames, rewards, dones, infos = self.venv.step_wait()
        self._move(frames)
        if dones.any():
            for i in np.flatnonzero(dones):
                self._end_episode(i, infos[i], frames[i])
        return self.stackedobs.copy(), rewards, dones, infos

    def state(self) -> dict[str, Any]:
        """See VecEnv."""
        return self.venv.state() | {"frames": self.stackedobs.copy()}

    def restore(self, state: dict[str, Any]) -> None:
        """See VecEnv."""
        self.venv.restore(state)
        if self.restored:
            self.stackedobs[...] = state["frames"]

    def _move(self, frames: np.ndarray) -> None:
        if self._packed is not None:
            self._packed >>= 8
        else:
            self.stackedobs[..., :-1] = self.stackedobs[..., 1:]
        self.stackedobs[..., -self._channels :] = frames

    def _end_episode(self, i: int, info: dict[str, Any], first_frame: np.ndarray) -> None:
        change_last(info, lambda last_frame: self._with_newest(i, last_frame))
        self.stackedobs[i] = 0
        self.stackedobs[i, ..., -self._channels :] = first_frame

    def _with_newest(self, i: int, frame: np.ndarray) -> np.ndarray:
        """Environment i's stack with another newest frame."""
        stack = self.stackedobs[i].copy()
        stack[..., -self._channels :] = frame
        return stack


class VecExtractDictObs(VecEnvObservationWrapper):
    """Show one entry of Dict observations.

    Args:
        venv: environments with Dict observations.
        key: the entry's.
    """

    def __init__(self, venv: VecEnv, key: str) -> None:
        space = venv.observation_space
        if not isinstance(space, spaces.Dict):
            raise UsageError(f"VecExtractDictObs needs Dict observations, not {space}")
        if key not in space.spaces:
            raise unknown("key", key, space.spaces)
        super().__init__(venv, observation_space=space.spaces[key])
        self.key = key

    def process(self, obs: Any) -> np.ndarray:
        """The entry."""
        return obs[self.key]


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
