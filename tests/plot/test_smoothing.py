import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tfbaselines.plot.plot_util import one_sided_ema, smooth, symmetric_ema
from tfbaselines.plot.results import moving_average

SERIES = arrays(np.float64, st.integers(1, 40), elements=st.floats(-100, 100))
CURVES = arrays(np.float64, st.integers(2, 40), elements=st.floats(-100, 100))


@given(SERIES, st.integers(0, 10))
def test_two_sided_smoothing_is_the_mean_of_a_window(y, radius):
    expected = [np.mean(y[max(0, i - radius) : i + radius + 1]) for i in range(len(y))]
    if len(y) < 2 * radius + 1:
        expected = [np.mean(y)] * len(y)
    np.testing.assert_allclose(smooth(y, radius), expected, atol=1e-9)


@given(SERIES, st.integers(1, 12))
def test_moving_average_is_the_mean_of_a_window(y, width):
    expected = [np.mean(y[max(0, i - (width - 1) // 2) : i + width // 2 + 1]) for i in range(len(y))]
    np.testing.assert_allclose(moving_average(y, width), expected, atol=1e-9)


@given(CURVES, st.integers(2, 30), st.floats(0.3, 5))
def test_one_sided_ema_is_the_weighted_mean_of_what_came_before(y, n, decay_steps):
    x = np.cumsum(np.abs(y) + 0.1)
    grid, smoothed, counts = one_sided_ema(x, y, n=n, decay_steps=decay_steps)
    period = (x[-1] - x[0]) / (n - 1) * decay_steps or 1.0
    for i in range(n - 1):
        weights = np.where(x <= grid[i], np.exp(-(grid[i] - x) / period), 0.0)
        assert counts[i] == pytest.approx(weights.sum(), abs=1e-9)
        if counts[i] > 1e-6:
            assert smoothed[i] == pytest.approx((weights * y).sum() / weights.sum(), abs=1e-6)


@given(SERIES, st.integers(2, 30))
def test_symmetric_ema_does_not_know_left_from_right(y, n):
    x = np.cumsum(np.abs(y) + 0.1)
    mirrored = symmetric_ema(-x[::-1], y[::-1], n=n)[1][::-1]
    np.testing.assert_allclose(symmetric_ema(x, y, n=n)[1], mirrored, atol=1e-6)


def test_one_point_is_drawn_everywhere():
    np.testing.assert_array_equal(symmetric_ema([3.0], [7.0], n=4)[1], [7.0] * 4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: smooth(np.ones(9), 1, mode="casual"), "did you mean 'causal'"),
        (lambda: smooth(np.ones(9), -1), "radius=-1"),
        (lambda: smooth(np.ones(9), 0, mode="causal"), "radius=0"),
        (lambda: one_sided_ema([0, 1], [0, 1], low=-1), "within the data"),
        (lambda: symmetric_ema([0, 1], [0, 1], high=2), "within the data"),
        (lambda: one_sided_ema([0, 1], [0]), "lengths must be equal"),
        (lambda: one_sided_ema([1, 0], [0, 1]), "ascending"),
        (lambda: one_sided_ema([], []), "empty"),
        (lambda: one_sided_ema([0, 1], [0, 1], n=1), "n=1"),
    ],
)
def test_mistakes(call, message):
    with pytest.raises(ValueError, match=message):
        call()
