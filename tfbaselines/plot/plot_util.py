"""baselines' plot_util: load the results of many runs and draw them, for notebooks and scripts.

For example:

    results = plot_util.load_results("~/logs")
    figure, axes = plot_util.plot_results(results, average_group=True, resample=512)
"""

import itertools
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tfbaselines.envs.monitor import get_monitor_files
from tfbaselines.envs.monitor import load_results as load_monitor
from tfbaselines.errors import UsageError, bad_argument, unknown
from tfbaselines.files import check_size, open_regular, read_document
from tfbaselines.logs.logger import read_csv, read_json

MODES = ("two_sided", "causal")

# Memory for the rows of a file in multiples of its size, and bytes of a line.
GROWTH = 8
LONGEST_LINE = 2**16
LARGEST_METADATA = 2**24


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

METADATA = dict.fromkeys(("metadata.json", "config.json"), lambda path: read_document(path, LARGEST_METADATA))
PROGRESS = {
    "progress.json": lambda path: read_json(check_file(path)),
    "progress.csv": lambda path: read_csv(check_file(path)),
}
MONITOR = re.compile(r"(\d+\.)?(\d+\.)?monitor\.csv$")
TILINGS = ("vertical", "horizontal", "symmetric")
PANEL = 6.0
# Points of the mean of runs with different x.
RESAMPLE = 512


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
    """Load every run below a directory or several; skip directories named `...-proc...`.

    Args:
        root_dir_or_dirs: one directory, or several.
        enable_progress: read progress.json, or else progress.csv.
        enable_monitor: read the monitor files.
        verbose: print the loaded and the skipped files.
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
    def first(readers: dict[str, Callable[[str], Any]]) -> Any:
        """Read the first of some files that has content."""
        for name in filter(files.__contains__, readers):
            path = os.path.join(dirname, name)
            try:
                content = readers[name](path)
                if len(content):
                    return content
            # A damaged table makes pandas raise almost anything.
            except Exception as error:
                if verbose:
                    print(f"skipping {path}: {error}")
        return None

    monitors = filter(MONITOR.match, files)
    return Result(
        monitor=first(dict.fromkeys(monitors, lambda _: load_episodes(dirname))) if monitor else None,
        progress=first(PROGRESS) if progress else None,
        dirname=dirname,
        metadata=first(METADATA),
    )


def check_file(path: str) -> str:
    """Return the path of a regular file of lines that fit into the memory; OSError or UsageError for others."""
    with open_regular(path) as file:
        try:
            check_size(GROWTH * os.fstat(file.fileno()).st_size)
        except UsageError:
            raise UsageError(f"{path} is too large: its rows would not fit into the memory") from None
        # For rows with many more values than the header pandas takes hours.
        while len(block := file.read(LONGEST_LINE)) == LONGEST_LINE:
            if b"\n" not in block:
                raise UsageError(f"{path} is not a table: it has a line of more than {LONGEST_LINE} bytes")
    return path


def load_episodes(dirname: str) -> "pandas.DataFrame":
    """Read the monitor files of a directory, after a check of each."""
    for path in get_monitor_files(dirname):
        check_file(path)
    return load_monitor(dirname)


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
    split_fn: Callable[[Result], str | None] | None = default_split_fn,
    group_fn: Callable[[Result], str | None] | None = default_split_fn,
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
        split_fn, group_fn: functions of a run that name its panel and its group; None for a single one.
        average_group: draw the mean of each group instead of its runs.
        shaded_std, shaded_err: with average_group, bands of one standard deviation and of one standard error.
        figsize: inches; by default 6 x 6 for each panel.
        resample: draw each curve at this many even points, smoothed by symmetric_ema; 0: as it is, and 512 points for
            the mean of runs with different x.
        smooth_step: memory of that smoothing, in points.
        tiling: 'vertical', 'horizontal' or 'symmetric' arrangement of the panels; None is vertical.

    Returns:
        (figure, two-dimensional array of axes)
    """
    import matplotlib.pyplot as plt

    panels = _grouped(allresults, split_fn)
    if not panels:
        raise UsageError("allresults is empty: there is nothing to plot")
    rows, columns = _tiles(len(panels), tiling or "vertical")
    figure, axes = plt.subplots(rows, columns, squeeze=False, figsize=figsize or (PANEL * columns, PANEL * rows))
    colors = dict(zip(_grouped(allresults, group_fn), itertools.cycle(COLORS), strict=False))
    shaded = {"shaded_std": shaded_std, "shaded_err": shaded_err}
    for axis, (name, results) in zip(axes.flat, panels.items(), strict=False):
        legend = {}
        for group, own in _grouped(results, group_fn).items():
            look = colors[group], resample, smooth_step
            if average_group:
                legend[f"{group} ({len(own)})"] = _draw_mean(axis, _curves(own, xy_fn), *look, **shaded)
            else:
                legend[group] = _draw_each(axis, _curves(own, xy_fn), *look)
        axis.legend(legend.values(), legend.keys(), **({"loc": 2, "bbox_to_anchor": (1, 1)} if legend_outside else {}))
        axis.set(title=name, xlabel=xlabel, ylabel=ylabel)
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    figure.tight_layout()
    return figure, axes


def _grouped(results: Sequence[Result], function: Callable[[Result], str | None] | None) -> dict[str, list[Result]]:
    groups: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        groups[str(function(result)) if function else ""].append(result)
    return dict(sorted(groups.items()))


def _curves(results: Sequence[Result], xy_fn: Callable) -> list[tuple[np.ndarray, np.ndarray]]:
    curves = map(xy_fn, results)
    return [(np.arange(len(y)) if x is None else np.asarray(x), np.asarray(y)) for x, y in curves]


def _tiles(count: int, tiling: str) -> tuple[int, int]:
    if tiling not in TILINGS:
        raise unknown("tiling", tiling, TILINGS)
    if tiling == "symmetric":
        columns = int(np.ceil(np.sqrt(count)))
        return int(np.ceil(count / columns)), columns
    return (count, 1) if tiling == "vertical" else (1, count)


def _draw_each(axis: Any, curves: list, color: str, resample: int, smooth_step: float) -> Any:
    for x, y in curves:
        if resample:
            x, y, _ = symmetric_ema(x, y, x[0], x[-1], resample, decay_steps=smooth_step)
        (line,) = axis.plot(x, y, color=color)
    return line


def _draw_mean(
    axis: Any, curves: list, color: str, resample: int, smooth_step: float, shaded_std: bool, shaded_err: bool
) -> Any:
    length = min(len(x) for x, _ in curves)
    if not resample and not all(np.array_equal(x[:length], curves[0][0][:length]) for x, _ in curves):
        resample = RESAMPLE
    if resample:
        low, high = max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves)
        grid = np.linspace(low, high, resample)
        ys = [symmetric_ema(x, y, low, high, resample, decay_steps=smooth_step)[1] for x, y in curves]
    else:
        grid = curves[0][0][:length]
        ys = [y[:length] for _, y in curves]
    mean, std = np.mean(ys, axis=0), np.std(ys, axis=0)
    (line,) = axis.plot(grid, mean, color=color)
    if shaded_err:
        error = std / np.sqrt(len(ys))
        axis.fill_between(grid, mean - error, mean + error, color=color, alpha=0.4)
    if shaded_std:
        axis.fill_between(grid, mean - std, mean + std, color=color, alpha=0.2)
    return line
