"""Numbers of the page's plots, as the page's script reads them: rounded, and few enough to keep the file small."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfbaselines.plot.columns import readable
from tfbaselines.plot.results import Series, aligned
from tfbaselines.report import statistics
from tfbaselines.report.measured import AXES, Measured
from tfbaselines.report.tasks import Task

# Points of a method's line. All runs together have about MOST_POINTS, each at least FEWEST and at most LONGEST.
LINE, MOST_POINTS, FEWEST, LONGEST = 150, 30_000, 60, 600
THRESHOLDS = 150
# Below this, whole numbers are written without a point.
WHOLE = 1e12
# Digits of a number.
DIGITS = 5


def curves(tasks: Sequence[Task], colors: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the panels of curves: for each task and axis the methods' lines with bands, and the runs."""
    count = sum(len(runs) for task in tasks for runs in task.methods.values())
    points = int(np.clip(MOST_POINTS // max(count, 1), FEWEST, LONGEST))
    return [_panel(task, colors, points) for task in tasks]


def _panel(task: Task, colors: Mapping[str, int], points: int) -> dict[str, Any]:
    names = {readable(run.column) for runs in task.methods.values() for run in runs}
    axes: dict[str, Any] = {}
    for axis in AXES:
        lines, runs = [], []
        for method, own in task.methods.items():
            found = [(run, run.curves[axis]) for run in own if axis in run.curves]
            if found:
                lines.append({"color": colors[method]} | _line([curve for _, curve in found]))
                runs += [_run(run, curve, colors[method], points) for run, curve in found]
        if lines:
            axes[axis] = {"lines": lines, "runs": runs}
    return {"title": task.name, "y": names.pop() if len(names) == 1 else "return", "axes": axes}


def _line(found: Sequence[Series]) -> dict[str, Any]:
    """Merge runs into the interquartile mean at each point, its band, and the number of runs that had not ended."""
    grid, values, runs = aligned(found, LINE)
    kept = _spread(len(grid), LINE)
    line, low, high = statistics.band(values[:, kept])
    return {"x": short(grid[kept]), "y": short(line), "low": short(low), "high": short(high), "n": runs[kept].tolist()}


def _run(run: Measured, curve: Series, color: int, points: int) -> dict[str, Any]:
    kept = _spread(len(curve.x), points)
    return {"color": color, "name": run.name, "x": short(curve.x[kept]), "y": short(curve.y[kept])}


def _spread(count: int, most: int) -> np.ndarray:
    """Return the places of at most `most` of `count` points, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))


def profiles(scores: Mapping[str, np.ndarray], colors: Mapping[str, int], title: str, axis: str) -> dict[str, Any]:
    """Return a panel of performance profiles: the share of runs above each score, with bootstrap bands."""
    every = np.unique(np.concatenate([matrix.ravel() for matrix in scores.values()]))
    margin = 0.05 * (np.ptp(every) or 1.0)
    # The share changes at scores alone.
    kept = every[_spread(len(every), THRESHOLDS)]
    thresholds = np.concatenate([[every[0] - margin], kept, [every[-1] + margin]])
    lines = []
    for method, matrix in scores.items():
        share = lambda resampled: statistics.profile(resampled, thresholds)
        low, high = statistics.interval(share, matrix, resamples=1000)
        line = {"y": short(share(matrix)), "low": short(low), "high": short(high), "n": []}
        lines.append({"color": colors[method], "x": short(thresholds)} | line)
    axes = {axis: {"lines": lines, "runs": []}}
    return {"title": title, "y": "share of runs above", "axes": axes, "range": [0, 1], "steps": True}


def short(values: np.ndarray) -> list[float | int | None]:
    """Round numbers to a few digits; None for what is not finite."""
    values = np.asarray(values, dtype=np.float64)
    size = np.abs(np.where(np.isfinite(values) & (values != 0), values, 1.0))
    scale = 10.0 ** (DIGITS - 1 - np.floor(np.log10(size)))
    rounded = np.where(np.isfinite(values), np.round(values * scale) / scale, np.nan)
    return [_written(number) for number in rounded.tolist()]


def _written(number: float) -> float | int | None:
    if number != number:
        return None
    return int(number) if abs(number) < WHOLE and number.is_integer() else number
