"""Pictures of vector environments: as tiles, in a window, and in videos (VecVideoRecorder)."""

import math
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tfbaselines.envs.vec.base import StepResult, VecEnv, VecEnvWrapper
from tfbaselines.errors import UsageError, warn


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
        """Replace the picture in the window."""
        if self._image is None:
            self._image = self._axes.imshow(picture)
        else:
            self._image.set_data(picture)
        self._plt.pause(1e-3)

    def close(self) -> None:
        """Close the window."""
        self._plt.close(self._figure)


# Frame rate of environments without render_fps.
FRAMES_PER_SECOND = 30


class VecVideoRecorder(VecEnvWrapper):
    """Record all environments as tiles: `vecenv.video.NUMBER.stepSTEP.mp4`, or .gif where there is no ffmpeg.

    The frame rate is metadata['render_fps'] of environments in this process, and FRAMES_PER_SECOND otherwise. The first
    video that cannot be written prints a warning.

    Args:
        venv: environments made with render_mode='rgb_array'.
        directory: directory of the videos.
        record_video_trigger: decides from the number of steps whether a video begins.
        video_length: steps in a video.
    """

    def __init__(
        self,
        venv: VecEnv,
        directory: str,
        record_video_trigger: Callable[[int], bool],
        video_length: int = 200,
    ) -> None:
        super().__init__(venv)
        if video_length < 1:
            raise UsageError(f"video_length={video_length!r} is not valid: at least 1")
        self._directory = os.path.abspath(directory)
        self._trigger = record_video_trigger
        self._length = video_length
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
                self._write()
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
        # A video that is not full is written too.
        if not self.closed:
            self._write()
        super().close()

    def end_video(self) -> None:
        """Write the current video before it is full."""
        self._write()

    def _begin_when_due(self) -> None:
        if self._frames is None and self._trigger(self._steps):
            self._frames = [self._picture()]

    def _picture(self) -> np.ndarray:
        return tile_images(self.venv.get_images()).astype(np.uint8, copy=False)

    def _write(self) -> None:
        if not self._frames:
            return
        start = self._steps - len(self._frames) + 1
        path = os.path.join(self._directory, f"vecenv.video.{self._number}.step{start}.mp4")
        frames = self._frames
        self._frames = None
        self._number += 1
        try:
            os.makedirs(self._directory, exist_ok=True)
            _save(path, frames, _frames_per_second(self))
        except OSError as error:
            # Training continues without videos.
            if not self._warned:
                self._warned = True
                warn(f"{path} cannot be written ({error})")


def _frames_per_second(env: VecEnv) -> float:
    # Making an example of environments in other processes could cost more than the right rate is worth.
    for one in getattr(env.unwrapped, "envs", ()):
        rate = one.metadata.get("render_fps")
        if isinstance(rate, int | float) and rate > 0:
            return rate
    return FRAMES_PER_SECOND


def _save(path: str, frames: list[np.ndarray], frames_per_second: float) -> None:
    import imageio

    try:
        # The usual codec needs even sides: block size 2 stretches odd pictures by a pixel.
        imageio.mimsave(path, frames, fps=frames_per_second, macro_block_size=2)
    except (ImportError, ValueError, RuntimeError, OSError):
        # Without ffmpeg: a gif only needs pillow.
        gif = os.path.splitext(path)[0] + ".gif"
        imageio.mimsave(gif, frames, duration=1000 / frames_per_second)
