"""The parts of images that convolutions multiply, beside a loop."""

import numpy as np
import pytest

from tfbaselines.policy.mirror import patches_of


@pytest.mark.parametrize("strides", [(1, 1), (2, 1), (3, 4)])
@pytest.mark.parametrize("size", [(1, 1), (3, 2), (4, 5)])
@pytest.mark.parametrize("kept", [slice(None), slice(None, None, 2)], ids=["whole", "every other column"])
def test_patches_are_cut_at_every_stride(size, strides, kept):
    images = np.arange(2 * 7 * 12 * 3).reshape(2, 7, 12, 3)[:, :, kept]
    found = patches_of(images, size, strides, padded=False)
    for image, row, column in np.ndindex(found.shape[:3]):
        top, left = row * strides[0], column * strides[1]
        part = images[image, top : top + size[0], left : left + size[1]]
        np.testing.assert_array_equal(found[image, row, column], part.reshape(size[0], -1))
    left_over = np.array(images.shape[1:3]) - size - (np.array(found.shape[1:3]) - 1) * strides
    assert (left_over >= 0).all() and (left_over < strides).all()


@pytest.mark.parametrize(
    ("length", "size", "stride", "before"), [(5, 3, 1, 1), (5, 4, 1, 1), (6, 4, 2, 1), (7, 1, 3, 0)]
)
def test_padding_makes_a_patch_for_every_stride(length, size, stride, before):
    images = 1.0 + np.arange(length**2).reshape(1, length, length, 1)
    found = patches_of(images, (size, size), (stride, stride), padded=True)
    assert found.shape[1:3] == (-(-length // stride),) * 2
    first = found[0, 0, 0]
    assert not first[:before].any() and not first[:, :before].any() and first[before, before] == images[0, 0, 0, 0]


def test_a_patch_cannot_be_written():
    images = np.zeros((1, 4, 4, 1), np.uint8)
    with pytest.raises(ValueError, match="read-only"):
        patches_of(images, (2, 2), (1, 1), padded=False)[:] = 1
