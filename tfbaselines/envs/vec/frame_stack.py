"""VecFrameStack: the latest frames side by side along the last axis."""

from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.envs.vec.base import StepResult, VecEnv, VecEnvWrapper, change_last


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
            raise ValueError(f"VecFrameStack needs Box observations with an axis to stack on, not {space}")
        if nstack < 1:
            raise ValueError(f"nstack={nstack!r} is not valid: at least 1")
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
