"""baselines' plot_util: load the results of many runs and draw them, for notebooks and scripts.

For example:

    results = plot_util.load_results("~/logs")
    figure, axes = plot_util.plot_results(results, average_group=True, resample=512)
"""

import json
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tfbaselines.envs.monitor import LoadMonitorResultsError
from tfbaselines.envs.monitor import load_results as load_monitor
from tfbaselines.errors import UsageError, bad_argument, unknown
from tfbaselines.logs.logger import read_csv, read_json

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


if TYPE_CHECKING:
    import pandas

__all__ = [
    "COLORS",
    "Result",
    "default_split_fn",
    "default_xy_fn",
    "load_results",
    "one_sided_ema",
    "plot_results",
    "smooth",
    "symmetric_ema",
]

COLORS = (
    *("blue", "green", "red", "cyan", "magenta", "goldenrod", "black", "purple", "pink", "brown", "orange", "teal"),
    *("lightblue", "lime", "lavender", "turquoise", "darkgreen", "tan", "salmon", "gold", "darkred", "darkblue"),
)

METADATA = ("metadata.json", "config.json")
MONITOR = re.compile(r"(\d+\.)?(\d+\.)?monitor\.csv$")
TILINGS = ("vertical", "horizontal", "symmetric")
PANEL = 6.0


class Result(NamedTuple):
    """One run: frames of its episodes and of its log, its metadata, and its directory."""

    monitor: "pandas.DataFrame | None" = None
    progress: "pandas.DataFrame | None" = None
    dirname: str | None = None
    metadata: dict[str, Any] | None = None


def load_results(
    root_dir_or_dirs: str | os.PathLike | Iterable[str | os.PathLike],
    enable_progress: bool = True,
    enable_monitor: bool = True,
    verbose: bool = False,
) -> list[Result]:
    """Load every run below some directories; skip directories named `...-proc...`.

    Args:
        root_dir_or_dirs: one directory, or several.
        enable_progress: read progress.json, or else progress.csv.
        enable_monitor: read the monitor files.
        verbose: print the loaded and the skipped files.

    Returns:
        A Result for each directory with rows in any of these files.
    """
    if isinstance(root_dir_or_dirs, str | os.PathLike):
        root_dir_or_dirs = [root_dir_or_dirs]
    results = []
    for root in (os.path.normpath(os.path.expanduser(root)) for root in root_dir_or_dirs):
        if not os.path.isdir(root):
            raise UsageError(f"{root} is not a directory")
        for dirname, subdirs, files in os.walk(root):
            subdirs.sort()
            if "-proc" in dirname:
                continue
            result = _load(dirname, files, enable_progress, enable_monitor, verbose)
            if result.monitor is not None or result.progress is not None:
                results.append(result)
                if verbose:
                    print(f"loaded {dirname}")
    return results


def _load(dirname: str, files: Sequence[str], progress: bool, monitor: bool, verbose: bool) -> Result:
    """Load the files of one directory."""
    say = print if verbose else lambda *_: None
    metadata, log, episodes = None, None, None
    for name in METADATA:
        if name in files and metadata is None:
            metadata = _read_metadata(os.path.join(dirname, name), say)
    if progress:
        log = _read_progress(dirname, files, say)
    if monitor and any(map(MONITOR.match, files)):
        try:
            episodes = load_monitor(dirname)
        except (LoadMonitorResultsError, ValueError) as error:
            say(f"skipping the episodes of {dirname}: {error}")
    return Result(monitor=episodes, progress=log, dirname=dirname, metadata=metadata)


def _read_metadata(path: str, say: Callable[..., None]) -> dict[str, Any] | None:
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError:
        say(f"skipping {path}: not JSON")
        return None


def _read_progress(dirname: str, files: Sequence[str], say: Callable[..., None]) -> "pandas.DataFrame | None":
    """Read the first of progress.json and progress.csv that has rows."""
    for name, read in (("progress.json", read_json), ("progress.csv", read_csv)):
        if name not in files:
            continue
        try:
            frame = read(os.path.join(dirname, name))
        except ValueError as error:
            say(f"skipping {dirname}/{name}: {error}")
            continue
        if len(frame):
            return frame
    if {"progress.json", "progress.csv"} & set(files):
        say(f"no progress file with rows in {dirname}")
    return None


def default_xy_fn(r: Result) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of steps and the smoothed reward of each episode."""
    if r.monitor is None:
        raise UsageError(f"{r.dirname} has no monitor files: give plot_results an xy_fn that reads its progress")
    return np.cumsum(r.monitor["l"].to_numpy()), smooth(r.monitor["r"].to_numpy(), radius=10)


def default_split_fn(r: Result) -> str | None:
    """Return the name of a run's directory without the number of its repetition: `logs/pong-2` is `pong`."""
    match = re.search(r"[^/-]+(?=(-\d+)?\Z)", r.dirname or "")
    return match.group(0) if match else None


def plot_results(
    allresults: Sequence[Result],
    *,
    xy_fn: Callable[[Result], tuple[np.ndarray, np.ndarray]] = default_xy_fn,
    split_fn: Callable[[Result], str | None] = default_split_fn,
    group_fn: Callable[[Result], str | None] = default_split_fn,
    average_group: bool = False,
    shaded_std: bool = True,
    shaded_err: bool = True,
    figsize: tuple[float, float] | None = None,
    legend_outside: bool = False,
    resample: int = 0,
    smooth_step: float = 1.0,
    tiling: str | None = "vertical",
    xlabel: str | None = None,
    ylabel: str | None = None,
) -> tuple[Any, np.ndarray]:
    """Draw runs: a panel for each value of `split_fn`, a color for each value of `group_fn`.

    Args:
        allresults: results of load_results.
        xy_fn: function of a run that gives its curve, two [N] arrays, x ascending.
        split_fn: function of a run that names its panel.
        group_fn: function of a run that names its group.
        average_group: draw the mean of each group instead of its runs.
        shaded_std: with average_group, a band of one standard deviation.
        shaded_err: with average_group, a band of one standard error.
        figsize: inches; by default 6 x 6 for each panel.
        legend_outside: put the legend at the right of the panel.
        resample: draw each curve at this many even points, smoothed by symmetric_ema; 0: as it is. Needed to
            average runs with different x.
        smooth_step: memory of that smoothing, in points.
        tiling: 'vertical', 'horizontal' or 'symmetric' arrangement of the panels; None is vertical.
        xlabel, ylabel: labels of the axes.

    Returns:
        (figure, two-dimensional array of axes)
    """
    import matplotlib.pyplot as plt

    panels: dict[str, list[Result]] = defaultdict(list)
    for result in allresults:
        panels[str(split_fn(result))].append(result)
    if not panels:
        raise UsageError("allresults is empty: there is nothing to plot")
    rows, columns = _tiles(len(panels), tiling or "vertical")
    size = figsize or (PANEL * columns, PANEL * rows)
    figure, axes = plt.subplots(rows, columns, sharex=False, squeeze=False, figsize=size)
    groups = sorted({str(group_fn(result)) for result in allresults})
    colors = {group: COLORS[i % len(COLORS)] for i, group in enumerate(groups)}
    for axis, name in zip(axes.flat, sorted(panels), strict=False):
        curves: dict[str, list[tuple[np.ndarray, np.ndarray]]] = defaultdict(list)
        for result in panels[name]:
            x, y = xy_fn(result)
            curves[str(group_fn(result))].append((np.arange(len(y)) if x is None else np.asarray(x), np.asarray(y)))
        legend = {}
        for group in sorted(curves):
            if average_group:
                line = _draw_mean(axis, curves[group], colors[group], resample, smooth_step, shaded_std, shaded_err)
                legend[f"{group} ({len(curves[group])})"] = line
            else:
                legend[group] = _draw_each(axis, curves[group], colors[group], resample, smooth_step)
        outside = {"loc": 2, "bbox_to_anchor": (1, 1)} if legend_outside else {}
        axis.legend(legend.values(), legend.keys(), **outside)
        axis.set(title=name, xlabel=xlabel, ylabel=ylabel)
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    figure.tight_layout()
    return figure, axes


def _tiles(count: int, tiling: str) -> tuple[int, int]:
    """Choose rows and columns for `count` panels."""
    if tiling not in TILINGS:
        raise unknown("tiling", tiling, TILINGS)
    if tiling == "symmetric":
        columns = int(np.ceil(np.sqrt(count)))
        return int(np.ceil(count / columns)), columns
    return (count, 1) if tiling == "vertical" else (1, count)


def _draw_each(axis: Any, curves: list, color: str, resample: int, smooth_step: float) -> Any:
    """Draw every curve of a group; return the last line for the legend."""
    for x, y in curves:
        if resample:
            x, y, _ = symmetric_ema(x, y, x[0], x[-1], resample, decay_steps=smooth_step)
        (line,) = axis.plot(x, y, color=color)
    return line


def _draw_mean(
    axis: Any, curves: list, color: str, resample: int, smooth_step: float, shaded_std: bool, shaded_err: bool
) -> Any:
    """Draw the mean of a group's curves and its bands; return the line."""
    if resample:
        low, high = max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves)
        grid = np.linspace(low, high, resample)
        ys = [symmetric_ema(x, y, low, high, resample, decay_steps=smooth_step)[1] for x, y in curves]
    else:
        length = min(len(x) for x, _ in curves)
        grid = curves[0][0][:length]
        if not all(np.array_equal(x[:length], grid) for x, _ in curves):
            raise UsageError("curves with different x cannot be averaged: give resample=<number of points>")
        ys = [y[:length] for _, y in curves]
    mean, std = np.mean(ys, axis=0), np.std(ys, axis=0)
    (line,) = axis.plot(grid, mean, color=color)
    if shaded_err:
        error = std / np.sqrt(len(ys))
        axis.fill_between(grid, mean - error, mean + error, color=color, alpha=0.4)
    if shaded_std:
        axis.fill_between(grid, mean - std, mean + std, color=color, alpha=0.2)
    return line
