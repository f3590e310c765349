"""Smoothing of noisy curves: moving averages and exponential ones on a new, even grid. NumPy only."""

import numpy as np

from tfbaselines.errors import UsageError, bad_argument, unknown

MODES = ("two_sided", "causal")


def smooth(y: np.ndarray, radius: int, mode: str = "two_sided", valid_only: bool = False) -> np.ndarray:
    """Compute the moving average of `y`; near the ends, of the values within the window.

    Args:
        y: [N] values.
        radius: two_sided: the window is [i - radius, i + radius]; causal: the `radius` values up to and
            including i. As in the original, a causal radius of 1 gives an empty array.
        mode: 'two_sided' or 'causal'.
        valid_only: NaN where the window does not fit.

    Returns:
        [N] values; all equal to the mean of `y` if it is shorter than 2 * radius + 1.
    """
    if mode not in MODES:
        raise unknown("smoothing mode", mode, MODES)
    if radius < (1 if mode == "causal" else 0):
        raise bad_argument("radius", radius, "at least 0, and at least 1 when mode is 'causal'")
    y = np.asarray(y, dtype=np.float64)
    if len(y) < 2 * radius + 1:
        return np.full(len(y), y.mean()) if len(y) else y
    if mode == "two_sided":
        window, shape = np.ones(2 * radius + 1), "same"
        left, right = radius, len(y) - radius
    else:
        window, shape = np.ones(radius), "full"
        left, right = radius, len(y)
    out = np.convolve(y, window, shape) / np.convolve(np.ones_like(y), window, shape)
    if mode == "causal":
        out = out[: 1 - radius]
    if valid_only:
        out[:left] = out[right:] = np.nan
    return out


def moving_average(y: np.ndarray, width: int) -> np.ndarray:
    """Compute the centered moving average over `width` values; near the ends, of the values within the window."""
    if width <= 1 or len(y) == 0:
        return np.asarray(y, dtype=np.float64)
    y = np.asarray(y, dtype=np.float64)
    sums = np.concatenate([[0.0], np.cumsum(y)])
    index = np.arange(len(y))
    first = np.maximum(index - (width - 1) // 2, 0)
    last = np.minimum(index + width // 2 + 1, len(y))
    return (sums[last] - sums[first]) / (last - first)


def one_sided_ema(
    xolds: np.ndarray,
    yolds: np.ndarray,
    low: float | None = None,
    high: float | None = None,
    n: int = 512,
    decay_steps: float = 1.0,
    low_counts_threshold: float = 1e-8,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute the causal exponential moving average of uneven data (x, y) on an even grid.

    Each point weighs exp(-(x_new - x_old) / (decay_steps * grid step)); the recursion over the grid is
    S_i = exp(-1 / decay_steps) S_(i-1) + the weighted points between the grid's points i-1 and i.

    Args:
        xolds: [N] abscissae, ascending.
        yolds: [N] values.
        low, high: ends of the grid, within the data; default: the data's.
        n: points of the grid, at least 2.
        decay_steps: memory in steps of the grid.
        low_counts_threshold: NaN where the weights sum to less.

    Returns:
        (grid [n], average [n], sum of weights [n])
    """
    xolds, yolds = np.asarray(xolds, dtype=np.float64), np.asarray(yolds, dtype=np.float64)
    low, high = _checked_range(xolds, yolds, low, high, n)
    grid = np.linspace(low, high, n)
    # Points beyond the grid's end fall on index n and are dropped.
    index = np.searchsorted(grid, xolds, side="left")
    inside = index < n
    xolds, yolds, index = xolds[inside], yolds[inside], index[inside]
    # Data in a single place has no width; all of it then counts fully.
    period = (high - low) / (n - 1) * decay_steps or 1.0
    weights = np.exp(-(grid[index] - xolds) / period)
    counts = np.bincount(index, weights, minlength=n)
    sums = np.bincount(index, weights * yolds, minlength=n)
    decay = np.exp(-1.0 / decay_steps)
    for i in range(1, n):
        counts[i] += decay * counts[i - 1]
        sums[i] += decay * sums[i - 1]
    return grid, _ratio(sums, counts, low_counts_threshold), counts


def symmetric_ema(
    xolds: np.ndarray,
    yolds: np.ndarray,
    low: float | None = None,
    high: float | None = None,
    n: int = 512,
    decay_steps: float = 1.0,
    low_counts_threshold: float = 1e-8,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Combine exponential moving averages from the left and from the right; arguments as in one_sided_ema."""
    xolds, yolds = np.asarray(xolds, dtype=np.float64), np.asarray(yolds, dtype=np.float64)
    low, high = _checked_range(xolds, yolds, low, high, n)
    grid, y_left, count_left = one_sided_ema(xolds, yolds, low, high, n, decay_steps, 0.0)
    _, y_right, count_right = one_sided_ema(-xolds[::-1], yolds[::-1], -high, -low, n, decay_steps, 0.0)
    y_right, count_right = y_right[::-1], count_right[::-1]
    counts = count_left + count_right
    return grid, _ratio(y_left * count_left + y_right * count_right, counts, low_counts_threshold), counts


def _ratio(sums: np.ndarray, counts: np.ndarray, threshold: float) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = sums / counts
    ratio[counts < threshold] = np.nan
    return ratio


def _checked_range(
    xolds: np.ndarray, yolds: np.ndarray, low: float | None, high: float | None, n: int
) -> tuple[float, float]:
    """Check that the ends of the grid lie within the data, and return them."""
    if len(xolds) != len(yolds):
        raise UsageError(f"xolds has {len(xolds)} elements and yolds {len(yolds)}: their lengths must be equal")
    if not len(xolds):
        raise UsageError("xolds is empty: there is nothing to average")
    if n < 2:
        raise bad_argument("n", n, "at least 2 points")
    if np.any(np.diff(xolds) < 0):
        raise UsageError("xolds must be ascending")
    low = xolds[0] if low is None else low
    high = xolds[-1] if high is None else high
    if not xolds[0] <= low <= high <= xolds[-1]:
        raise UsageError(f"low={low} and high={high} must lie within the data, {xolds[0]} to {xolds[-1]}")
    return float(low), float(high)
