"""The parts of images that a convolution multiplies with its kernel."""

import math

import numpy as np


def patches_of(images: np.ndarray, size: tuple[int, int], strides: tuple[int, int], padded: bool) -> np.ndarray:
    """A view [B, rows, columns, size[0], size[1] * channels] of images [B, height, width, channels].

    Args:
        images: what is convolved.
        size: height and width of a patch.
        strides: from one patch to the next, down and across.
        padded: whether zeros are put around the images, so that there is a patch for every stride ('same'); otherwise
            patches lie inside of them ('valid').
    """
    if padded:
        margins = [_margins(*axis) for axis in zip(images.shape[1:3], size, strides, strict=True)]
        images = np.pad(images, [(0, 0), *margins, (0, 0)])
    images = np.ascontiguousarray(images)
    batch, height, width, channels = images.shape
    rows, columns = (height - size[0]) // strides[0] + 1, (width - size[1]) // strides[1] + 1
    next_image, next_row, next_column, next_number = images.strides
    return np.lib.stride_tricks.as_strided(
        images,
        (batch, rows, columns, size[0], size[1] * channels),
        (next_image, strides[0] * next_row, strides[1] * next_column, next_row, next_number),
        writeable=False,
    )


def _margins(length: int, size: int, stride: int) -> tuple[int, int]:
    """Zeros before and after an axis; the odd one comes after."""
    total = max(0, (math.ceil(length / stride) - 1) * stride + size - length)
    return total // 2, total - total // 2
