"""Panels of learning curves as a picture: readable names, and lines that can be told apart."""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from tfbaselines.logs.formats import STEPS
from tfbaselines.plot.picture import save
from tfbaselines.plot.results import EPISODES, TIMES, Curve

# Two panels in a row are 1,000 pixels wide and 600 high each at the picture's resolution.
PANEL_SIZE = (8.4, 5.0)
MOST_IN_A_ROW = 3

# Ten colours in each of four line styles.
COLORS = [f"C{number}" for number in range(10)]
LINES = ("-", "--", ":", "-.")
# A legend with more entries, or with longer ones, stands below its panel, where a line has room for 110 letters.
LONGEST_LEGEND, LONGEST_ENTRY, LETTERS_IN_A_LINE = 8, 40, 110
# What a legend has before each entry, in letters; and the most columns of one.
HANDLE, MOST_COLUMNS = 8, 3

# What columns hold, in words.
NAMES = {
    "environment steps": (*STEPS, "misc/serial_timesteps", "global_timesteps"),
    "minutes": TIMES,
    "episodes": (*EPISODES, "iterations"),
    "mean return": (
        *("eprewmean", "EpRewMean", "mean_episode_reward", "mean 100 episode reward", "rollout/return", "AverageEpRet"),
        *("rollout/return_history", "eval_eprewmean"),
    ),
    "mean return of tests": ("AverageTestEpRet", "eval/return", "test_reward", "evaluation/return"),
    "success rate of tests": ("test/success_rate",),
    "mean episode length (steps)": ("eplenmean", "EpLenMean", "mean_episode_length", "EpLen", "rollout/episode_steps"),
    "episode return": ("r",),
    "episode length (steps)": ("l",),
    "environment steps per second": ("fps", "misc/fps"),
    "updates": ("misc/nupdates", "nupdates"),
    "epochs": ("Epoch", "total/epochs"),
}
IN_WORDS = {column: words for words, columns in NAMES.items() for column in columns}
SECONDS_IN = {"minutes": 60.0}


class Panel(NamedTuple):
    """One set of axes: columns of x and y, curves, and what stands above."""

    xlabel: str
    ylabel: str
    curves: list[Curve]
    title: str = ""


def readable(column: str) -> str:
    """A column's meaning in words, or its own name."""
    return IN_WORDS.get(column, column)


def draw(panels: Sequence[Panel], out: str) -> None:
    """The panels side by side, written to the PNG `out`; no display is needed."""
    from matplotlib.figure import Figure

    wide = min(MOST_IN_A_ROW, math.ceil(math.sqrt(len(panels))))
    high = math.ceil(len(panels) / wide)
    figure = Figure(figsize=(PANEL_SIZE[0] * wide, PANEL_SIZE[1] * high), layout="constrained")
    axes = figure.subplots(high, wide, squeeze=False).ravel()
    styles = _styles(panels)
    for axis, panel in zip(axes, panels, strict=False):
        _draw(axis, panel, styles)
    for axis in axes[len(panels) :]:
        axis.remove()
    save(figure, out)


def _styles(panels: Sequence[Panel]) -> dict[str, tuple[str, str]]:
    """A colour and a line style for each experiment, the same in every panel."""
    names = dict.fromkeys(curve.experiment or curve.label for panel in panels for curve in panel.curves)
    looks = itertools.cycle(itertools.product(LINES, COLORS))
    return {name: (color, line) for name, (line, color) in zip(names, looks, strict=False)}


def _draw(axis: object, panel: Panel, styles: dict[str, tuple[str, str]]) -> None:
    from matplotlib.ticker import EngFormatter

    xlabel = readable(panel.xlabel)
    for curve in panel.curves:
        x = curve.x / SECONDS_IN.get(xlabel, 1.0)
        color, line = styles[curve.experiment or curve.label]
        # A run of one row is a dot, not an invisible line.
        alone = {"marker": "o", "label": f"{curve.label}: one row so far"} if len(x) == 1 else {"label": curve.label}
        axis.plot(x, curve.y, color=color, linestyle=line, linewidth=1.8, **alone)
        axis.fill_between(x, curve.low, curve.high, color=color, alpha=0.15, linewidth=0)
    axis.set(xlabel=xlabel, ylabel=readable(panel.ylabel), title=panel.title)
    if xlabel == "environment steps":
        axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    axis.grid(alpha=0.3)
    longest = max(len(curve.label) for curve in panel.curves)
    columns = min(MOST_COLUMNS, max(1, LETTERS_IN_A_LINE // (longest + HANDLE)))
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14), "ncols": columns}
    inside = len(panel.curves) <= LONGEST_LEGEND and longest <= LONGEST_ENTRY
    axis.legend(fontsize="small", **({"loc": "best"} if inside else below))
