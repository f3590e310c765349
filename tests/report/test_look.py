"""Colors that color-blind readers tell apart, with enough contrast."""

import itertools

import numpy as np
import pytest

from tfbaselines.report import look

# Machado, Oliveira and Fernandes (2009): linear RGB as the color-blind see it, severity 1.
SIGHTS = {
    "usual": np.eye(3),
    "protanopia": [
        *([0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]),
    ],
    "deuteranopia": [
        *([0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]),
    ],
    "tritanopia": [
        *([1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]),
    ],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = np.array([0.95047, 1.0, 1.08883])


def linear(color):
    channels = np.array([int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    ratio = TO_XYZ @ np.clip(rgb, 0, 1) / WHITE
    x, y, z = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize(("colors", "theme"), [(look.LIGHT, "light"), (look.DARK, "dark")])
def test_colors_are_told_apart_by_everybody(colors, theme):
    luminance = lambda color: float(TO_XYZ[1] @ linear(color))
    for color in colors:
        dim, bright = sorted([luminance(color), luminance(look.BACKGROUND[theme])])
        assert (bright + 0.05) / (dim + 0.05) >= 3, color
    for sight, matrix in SIGHTS.items():
        seen = {color: lab(np.array(matrix) @ linear(color)) for color in colors}
        for one, two in itertools.combinations(colors, 2):
            # A difference of 2 can be seen side by side.
            assert np.linalg.norm(seen[one] - seen[two]) > 20, (sight, one, two)


def test_methods_of_one_color_have_other_dashes_and_each_color_has_a_marker():
    looks = {(look.color_class(number), look.dash(number)) for number in range(28)}
    assert len(looks) == 28
    assert len({look.marker(number, 0, 0) for number in range(7)}) == 7
