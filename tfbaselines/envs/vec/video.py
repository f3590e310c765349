"""VecVideoRecorder: films the environments now and then.

Showing environments: their pictures as tiles, in a window where there is a display.
"""

import math
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tfbaselines.envs.vec.base import StepResult, VecEnv, VecEnvWrapper
from tfbaselines.errors import UsageError, warn


def tile_images(pictures: list[np.ndarray]) -> np.ndarray:
    """Put pictures [rows, columns, C] of one size side by side in a grid that is about as high as wide."""
    count, (height, width, channels) = len(pictures), pictures[0].shape
    rows = math.ceil(math.sqrt(count))
    columns = math.ceil(count / rows)
    blank = [np.zeros_like(pictures[0])] * (rows * columns - count)
    grid = np.asarray([*pictures, *blank]).reshape(rows, columns, height, width, channels)
    return grid.transpose(0, 2, 1, 3, 4).reshape(rows * height, columns * width, channels)


def has_display() -> bool:
    """Whether a window can be opened."""
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
        self._axes, self._image = axes, None

    def show(self, picture: np.ndarray) -> None:
        """Replace what the window shows."""
        if self._image is None:
            self._image = self._axes.imshow(picture)
        else:
            self._image.set_data(picture)
        self._plt.pause(1e-3)

    def close(self) -> None:
        """Close the window."""
        self._plt.close(self._figure)


# Where the environments do not say.
FRAMES_PER_SECOND = 30


class VecVideoRecorder(VecEnvWrapper):
    """Record all environments as tiles: `vecenv.video.NUMBER.stepSTEP.mp4`, or .gif where there is no ffmpeg.

    They show as many frames a second as the environments' metadata['render_fps'] says; FRAMES_PER_SECOND where it says
    nothing, and of environments in processes of their own.

    A video that cannot be written is a warning, once.

    Args:
        venv: environments that give pictures (made with render_mode='rgb_array').
        directory: where the videos go.
        record_video_trigger: whether a video begins, from the number of steps done.
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
        self._directory, self._trigger, self._length = os.path.abspath(directory), record_video_trigger, video_length
        os.makedirs(self._directory, exist_ok=True)
        self._steps, self._number = 0, 0
        self._frames: list[np.ndarray] | None = None
        self._warned = False

    def reset(self) -> np.ndarray:
        """See VecEnv; a video begins here when it is time."""
        obs = self.venv.reset()
        self._begin_when_due()
        return obs

    def step_wait(self) -> StepResult:
        """See VecEnv."""
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
        """See VecEnv; the frames of a video that is not full are not in it."""
        return self.venv.state() | {"video": {"steps": self._steps, "number": self._number}}

    def restore(self, state: dict[str, Any]) -> None:
        """See VecEnv."""
        self.venv.restore(state)
        own = state.get("video", {})
        self._steps, self._number = own.get("steps", self._steps), own.get("number", self._number)

    def close(self) -> None:
        """See VecEnv; a video that is not full yet is kept."""
        if not self.closed:
            self._write()
        super().close()

    def end_video(self) -> None:
        """Write the video that is being recorded, before it is full."""
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
        frames, self._frames = self._frames, None
        self._number += 1
        try:
            os.makedirs(self._directory, exist_ok=True)
            _save(path, frames, _frames_per_second(self))
        except OSError as error:
            # Training is worth more than its videos.
            if not self._warned:
                self._warned = True
                warn(f"{path} cannot be written ({error})")


def _frames_per_second(env: VecEnv) -> float:
    # Environments in other processes are not asked: another one in this process could cost more than the film is worth.
    for one in getattr(env.unwrapped, "envs", ()):
        rate = one.metadata.get("render_fps")
        if isinstance(rate, int | float) and rate > 0:
            return rate
    return FRAMES_PER_SECOND


def _save(path: str, frames: list[np.ndarray], frames_per_second: float) -> None:
    import imageio

    try:
        # The usual codec needs even sides: odd pictures are stretched by a pixel.
        imageio.mimsave(path, frames, fps=frames_per_second, macro_block_size=2)
    except (ImportError, ValueError, RuntimeError, OSError):
        # No ffmpeg here: a gif needs nothing but pillow.
        gif = os.path.splitext(path)[0] + ".gif"
        imageio.mimsave(gif, frames, duration=1000 / frames_per_second)
