"""Curves of runs. This module has the functions of baselines' results_plotter and Spinning Up's make_plots.

The command is `python -m tfbaselines.plot`; plot_util draws in notebooks.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

X_TIMESTEPS, X_EPISODES, X_WALLTIME = "timesteps", "episodes", "walltime_hrs"
Y_REWARD, Y_TIMESTEPS = "reward", "timesteps"
POSSIBLE_X_AXES = [X_TIMESTEPS, X_EPISODES, X_WALLTIME]
EPISODES_WINDOW = 100
SECONDS_IN_AN_HOUR = 3600.0


def rolling_window(a: np.ndarray, window: int) -> np.ndarray:
    """Return all windows of the last axis: [..., N - window + 1, window]."""
    return np.lib.stride_tricks.sliding_window_view(a, window, axis=-1)


def window_func(
    x: np.ndarray, y: np.ndarray, window: int, func: Callable[..., np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Apply a function to every window of y; return the x at the windows' ends, and the values."""
    return x[window - 1 :], func(rolling_window(y, window), axis=-1)


def ts2xy(ts: Any, xaxis: str, yaxis: str) -> tuple[np.ndarray, np.ndarray]:
    """Return x and y of a frame of episodes, for axes such as X_TIMESTEPS and Y_REWARD."""
    from tfbaselines.errors import unknown

    xs = {
        X_TIMESTEPS: lambda: np.cumsum(ts.l.to_numpy()),
        X_EPISODES: lambda: np.arange(len(ts)),
        X_WALLTIME: lambda: ts.t.to_numpy() / SECONDS_IN_AN_HOUR,
    }
    ys = {Y_REWARD: lambda: ts.r.to_numpy(), Y_TIMESTEPS: lambda: ts.l.to_numpy()}
    for kind, name, axes in (("xaxis", xaxis, xs), ("yaxis", yaxis, ys)):
        if name not in axes:
            raise unknown(kind, name, axes)
    return xs[xaxis](), ys[yaxis]()


def plot_curves(xy_list: Sequence[tuple[np.ndarray, np.ndarray]], xaxis: str, yaxis: str, title: str) -> Any:
    """Draw episodes as dots, with the mean of 100 as a line; return the figure."""
    import matplotlib.pyplot as plt

    from tfbaselines.plot.plot_util import COLORS

    figure, axis = plt.subplots(figsize=(8, 2), layout="tight")
    for number, (x, y) in enumerate(xy_list):
        axis.scatter(x, y, s=2)
        if len(x) >= EPISODES_WINDOW:
            axis.plot(*window_func(x, y, EPISODES_WINDOW, np.mean), color=COLORS[number % len(COLORS)])
    axis.set(title=title, xlabel=xaxis, ylabel=yaxis, xlim=(0, max(x[-1] for x, _ in xy_list)))
    axis.grid(True)
    return figure


def split_by_task(taskpath: Any) -> str:
    """Return the name of a run's directory up to its first dash."""
    return taskpath.dirname.split("/")[-1].split("-")[0]


def plot_results(
    dirs: Any,
    num_timesteps: float = 10e6,
    xaxis: str = X_TIMESTEPS,
    yaxis: str = Y_REWARD,
    title: str = "",
    split_fn: Callable[[Any], str] = split_by_task,
) -> tuple[Any, np.ndarray]:
    """Draw the mean over the runs of each task; num_timesteps is ignored, as in baselines.

    Returns:
        (figure, two-dimensional array of axes)
    """
    from tfbaselines.plot import plot_util

    curve = lambda run: ts2xy(run.monitor, xaxis, yaxis)
    results = [run for run in plot_util.load_results(dirs, enable_progress=False) if run.monitor is not None]
    figure, axes = plot_util.plot_results(results, xy_fn=curve, split_fn=split_fn, average_group=True)
    if title:
        figure.suptitle(title)
    return figure, axes


def make_plots(
    all_logdirs: Sequence[str],
    legend: Sequence[str] | None = None,
    xaxis: str | None = None,
    values: str | Sequence[str] | None = None,
    count: bool = False,
    font_scale: float = 1.5,
    smooth: int = 1,
    select: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    estimator: str = "mean",
) -> str:
    """Draw curves to a PNG as the command does, and return its path; font_scale is ignored."""
    from tfbaselines.plot.__main__ import make_parser, plot

    options = {"legend": legend, "value": values, "select": select, "exclude": exclude}
    args = make_parser().parse_args(list(all_logdirs))
    vars(args).update({name: [given] if isinstance(given, str) else given for name, given in options.items()})
    args.xaxis, args.count, args.smooth, args.est = xaxis, count, smooth, estimator
    return plot(args)
