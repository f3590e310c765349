"""Showing environments: their pictures as tiles, in a window where there is a display."""

import math
import os
import sys

import numpy as np


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
            raise ValueError("there is no display to render on: record a video with --save_video_interval instead")
        try:
            import matplotlib.pyplot as plt
        except ImportError:
            raise ValueError("rendering needs matplotlib: pip install matplotlib") from None
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
