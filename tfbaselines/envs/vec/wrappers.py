"""Wrappers of vector environments: frame stacks, one entry of Dict observations, a monitor, pictures and videos."""

import math
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.envs.monitor import ResultsWriter
from tfbaselines.envs.vec.base import LAST, StepResult, VecEnv, VecEnvObservationWrapper, VecEnvWrapper
from tfbaselines.errors import UsageError, renamed, unknown, warn


class VecFrameStack(VecEnvWrapper):
    """Stack the latest nstack frames along the last axis; frames before the episode are zero.

    The stack moves by one channel a step, also if a frame has several channels, as in the original.
    """

    @renamed(n_stack="nstack", channels_order="the last axis")
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
        # Moving four bytes a pixel as one number takes an eighth of the time of single bytes.
        packs = low.shape[-1] == 4 and self._channels == 1 and space.dtype == np.uint8 and np.little_endian
        self._packed = self.stackedobs.view(np.uint32) if packs else None

    def reset(self) -> np.ndarray:
        self.stackedobs.fill(0)
        self.stackedobs[..., -self._channels :] = self.venv.reset()
        return self.stackedobs.copy()

    def step_wait(self) -> StepResult:
        frames, rewards, dones, infos = self.venv.step_wait()
        if self._packed is not None:
            self._packed >>= 8
        else:
            self.stackedobs[..., :-1] = self.stackedobs[..., 1:]
        self.stackedobs[..., -self._channels :] = frames
        if np.count_nonzero(dones):
            for i in np.flatnonzero(dones):
                self._end_episode(i, infos[i], frames[i])
        return self.stackedobs.copy(), rewards, dones, infos

    def state(self) -> dict[str, Any]:
        return self.venv.state() | {"frames": self.stackedobs.copy()}

    def restore(self, state: dict[str, Any]) -> None:
        self.venv.restore(state)
        if self.restored:
            self.stackedobs[...] = state["frames"]

    def _end_episode(self, i: int, info: dict[str, Any], first_frame: np.ndarray) -> None:
        last = self.stackedobs[i].copy()
        if LAST in info:
            last[..., -self._channels :] = info[LAST]
            info[LAST] = last
        self.stackedobs[i] = 0
        self.stackedobs[i, ..., -self._channels :] = first_frame


def shared_frames(env: VecEnv) -> int:
    """Return the number of frames in an observation; 1 if it is no stack of frames.

    The outermost wrappers must pass a VecFrameStack's observations on. A stack of frames of several channels moves by
    one channel, so that it cannot be split into frames.
    """
    while isinstance(env, VecEnvWrapper) and vars(type(env)).get("keeps_observations"):
        env = env.venv
    return env.nstack if type(env) is VecFrameStack and env.observation_space.shape[-1] == env.nstack else 1


class VecExtractDictObs(VecEnvObservationWrapper):
    """Select the entry `key` of Dict observations."""

    def __init__(self, venv: VecEnv, key: str) -> None:
        space = venv.observation_space
        if not isinstance(space, spaces.Dict):
            raise UsageError(f"VecExtractDictObs needs Dict observations, not {space}")
        if key not in space.spaces:
            raise unknown("key", key, space.spaces)
        super().__init__(venv, observation_space=space.spaces[key])
        self.key = key

    def process(self, obs: Any) -> np.ndarray:
        return obs[self.key]


class VecMonitor(VecEnvWrapper):
    """Add 'episode' = {'r', 'l', 't'} to the info of each step that ends an episode.

    Args:
        venv: the environments.
        filename: path of a monitor file; None writes no file.
        keep_buf: number of the latest episodes in epret_buf and eplen_buf.
        info_keywords: keys of the last info that are written with the episode.
    """

    keeps_observations = True

    def __init__(
        self, venv: VecEnv, filename: str | None = None, keep_buf: int = 0, info_keywords: Sequence[str] = ()
    ) -> None:
        super().__init__(venv)
        self.tstart = time.time()
        self.info_keywords = tuple(info_keywords)
        header = {"t_start": self.tstart}
        self.results_writer = ResultsWriter(filename, header, extra_keys=self.info_keywords) if filename else None
        self.keep_buf = keep_buf
        self.epret_buf: deque[float] = deque(maxlen=keep_buf)
        self.eplen_buf: deque[int] = deque(maxlen=keep_buf)
        self.epcount = 0
        self._begin()

    def reset(self) -> np.ndarray:
        obs = self.venv.reset()
        self._begin()
        return obs

    def step_wait(self) -> StepResult:
        obs, rewards, dones, infos = self.venv.step_wait()
        self._returns += rewards
        self._lengths += 1
        for i in np.flatnonzero(dones):
            self._end_episode(i, infos[i])
        return obs, rewards, dones, infos

    def state(self) -> dict[str, Any]:
        counts = {"returns": self._returns.copy(), "lengths": self._lengths.copy(), "episodes": self.epcount}
        return self.venv.state() | {"vec_monitor": counts}

    def restore(self, state: dict[str, Any]) -> None:
        self.venv.restore(state)
        saved = state.get("vec_monitor")
        if saved is not None:
            self.epcount = saved["episodes"]
            if self.restored:
                self._returns = saved["returns"].copy()
                self._lengths = saved["lengths"].copy()

    def close(self) -> None:
        super().close()
        if self.results_writer is not None:
            self.results_writer.close()

    def _begin(self) -> None:
        self._returns = np.zeros(self.num_envs)
        self._lengths = np.zeros(self.num_envs, np.int64)

    def _end_episode(self, i: int, info: dict[str, Any]) -> None:
        total, seconds = round(float(self._returns[i]), 6), round(time.time() - self.tstart, 6)
        episode = {"r": total, "l": int(self._lengths[i]), "t": seconds}
        episode |= {key: info[key] for key in self.info_keywords}
        info["episode"] = episode
        self.epret_buf.append(episode["r"])
        self.eplen_buf.append(episode["l"])
        self.epcount += 1
        if self.results_writer is not None:
            self.results_writer.write_row(episode)
        self._returns[i], self._lengths[i] = 0.0, 0


def tile_images(pictures: list[np.ndarray]) -> np.ndarray:
    """Arrange pictures [rows, columns, C] of one size in a grid that is about square."""
    count, (height, width, channels) = len(pictures), pictures[0].shape
    rows = math.ceil(math.sqrt(count))
    columns = math.ceil(count / rows)
    blank = [np.zeros_like(pictures[0])] * (rows * columns - count)
    grid = np.asarray([*pictures, *blank]).reshape(rows, columns, height, width, channels)
    return grid.transpose(0, 2, 1, 3, 4).reshape(rows * height, columns * width, channels)


def has_display() -> bool:
    """Return whether a window can be opened."""
    if not sys.platform.startswith("linux"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


class Viewer:
    """A window that shows pictures."""

    def __init__(self) -> None:
        if not has_display():
            raise UsageError("there is no display to render on: record a video with --save_video_interval instead")
        try:
            import matplotlib.pyplot as plt
        except ImportError:
            raise UsageError("rendering needs matplotlib: pip install matplotlib") from None
        self._plt = plt
        plt.ion()
        self._figure, axes = plt.subplots()
        axes.axis("off")
        self._axes = axes
        self._image = None

    def show(self, picture: np.ndarray) -> None:
        if self._image is None:
            self._image = self._axes.imshow(picture)
        else:
            self._image.set_data(picture)
        self._plt.pause(1e-3)

    def close(self) -> None:
        self._plt.close(self._figure)


# Frame rate of environments without render_fps.
FRAMES_PER_SECOND = 30


class VecVideoRecorder(VecEnvWrapper):
    """Record all environments as tiles: `NAME.video.NUMBER.stepSTEP.mp4`, or .gif where there is no ffmpeg.

    The environments' metadata set the frame rate, or else FRAMES_PER_SECOND does. The first video that cannot be
    written prints a warning. No video replaces another one: NUMBER is one that is free.

    Args:
        venv: environments made with render_mode='rgb_array'.
        directory: directory of the videos.
        record_video_trigger: decides from the number of steps whether a video begins.
        video_length: steps in a video.
        name: begins the names of the files.
        announce: called with the path of each video.
    """

    keeps_observations = True

    def __init__(
        self,
        venv: VecEnv,
        directory: str,
        record_video_trigger: Callable[[int], bool],
        video_length: int = 200,
        name: str = "vecenv",
        announce: Callable[[str], None] = lambda path: None,
    ) -> None:
        super().__init__(venv)
        if video_length < 1:
            raise UsageError(f"video_length={video_length!r} is not valid: at least 1")
        self._directory = os.path.abspath(directory)
        self._trigger = record_video_trigger
        self._length = video_length
        self._name = name
        self._announce = announce
        os.makedirs(self._directory, exist_ok=True)
        self._steps = 0
        self._number = 0
        self._frames: list[np.ndarray] | None = None
        self._warned = False

    def reset(self) -> np.ndarray:
        obs = self.venv.reset()
        self._begin_when_due()
        return obs

    def step_wait(self) -> StepResult:
        result = self.venv.step_wait()
        self._steps += 1
        if self._frames is not None:
            self._frames.append(self._picture())
            if len(self._frames) > self._length:
                self.end_video()
        else:
            self._begin_when_due()
        return result

    def state(self) -> dict[str, Any]:
        # The state has no frames: a resumed run begins another video.
        return self.venv.state() | {"video": {"steps": self._steps, "number": self._number}}

    def restore(self, state: dict[str, Any]) -> None:
        self.venv.restore(state)
        saved = state.get("video", {})
        self._steps = saved.get("steps", self._steps)
        self._number = saved.get("number", self._number)

    def close(self) -> None:
        if not self.closed:
            self.end_video()
        super().close()

    def _begin_when_due(self) -> None:
        if self._frames is None and self._trigger(self._steps):
            self._frames = [self._picture()]

    def _picture(self) -> np.ndarray:
        return tile_images(self.venv.get_images()).astype(np.uint8, copy=False)

    def end_video(self) -> None:
        """Write the current video, full or not."""
        if not self._frames:
            return
        start = self._steps - len(self._frames) + 1
        frames = self._frames
        self._frames = None
        try:
            os.makedirs(self._directory, exist_ok=True)
            rate = self.unwrapped.render_fps
            usable = isinstance(rate, int | float) and rate > 0
            self._announce(_save(self._free_path(start), frames, rate if usable else FRAMES_PER_SECOND))
        except OSError as error:
            # Training continues without videos.
            if not self._warned:
                self._warned = True
                warn(f"a video in {self._directory} cannot be written ({error})")

    def _free_path(self, start: int) -> str:
        taken = {os.path.splitext(name)[0] for name in os.listdir(self._directory)}
        while True:
            name = f"{self._name}.video.{self._number}.step{start}"
            self._number += 1
            if name not in taken:
                return os.path.join(self._directory, f"{name}.mp4")


def _save(path: str, frames: list[np.ndarray], frames_per_second: float) -> str:
    import imageio

    try:
        # The usual codec needs even sides: block size 2 stretches odd pictures by a pixel.
        imageio.mimsave(path, frames, fps=frames_per_second, macro_block_size=2)
    except (ImportError, ValueError, RuntimeError, OSError):
        # Without ffmpeg: a gif only needs pillow.
        path = os.path.splitext(path)[0] + ".gif"
        imageio.mimsave(path, frames, duration=1000 / frames_per_second)
    return path
