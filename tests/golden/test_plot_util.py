"""Smoothing equals the original's numbers."""

import re

import pytest
from cases import load
from weights import assert_close

from tfbaselines.plot.plot_util import one_sided_ema, smooth, symmetric_ema

ARRAYS, HYPER = load("plot_util")
SMOOTH = [name for name in ARRAYS if re.fullmatch(r"smooth/(two_sided|causal)_r\d+_valid[01]", name)]
EMAS = {"one_sided": one_sided_ema, "symmetric": symmetric_ema}


def arguments(case: str) -> dict[str, float]:
    """A case's arguments; 'ema_low_high[0]' means that element of that array."""
    given = {}
    for name, value in HYPER[case].items():
        if isinstance(value, str):
            array, index = re.fullmatch(r"(\w+)\[(\d+)\]", value).groups()
            value = ARRAYS[array][int(index)]
        given[name] = value
    return given


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth(name):
    mode, radius, valid = re.fullmatch(r"smooth/(\w+)_r(\d+)_valid([01])", name).groups()
    assert_close(smooth(ARRAYS["y"], int(radius), mode, valid == "1"), ARRAYS[name])


@pytest.mark.parametrize("name", [name for name in ARRAYS if name.startswith("smooth/short_r")])
def test_smooth_of_a_series_shorter_than_the_window(name):
    assert_close(smooth(ARRAYS["y"], int(name.rsplit("r", 1)[1])), ARRAYS[name])


@pytest.mark.parametrize("kind", EMAS)
@pytest.mark.parametrize("case", HYPER)
def test_ema(kind, case):
    given = arguments(case)
    if kind == "symmetric":
        # The original needed them; left out they are the ends of x.
        given = {"low": ARRAYS["x"][0], "high": ARRAYS["x"][-1], **given}
        if "low" not in HYPER[case]:
            assert_close(symmetric_ema(ARRAYS["x"], ARRAYS["y"], **arguments(case))[1], ARRAYS[f"symmetric/{case}_y"])
    for part, actual in zip(["x", "y", "count"], EMAS[kind](ARRAYS["x"], ARRAYS["y"], **given), strict=True):
        assert_close(actual, ARRAYS[f"{kind}/{case}_{part}"])


def test_there_are_cases():
    assert SMOOTH and HYPER
