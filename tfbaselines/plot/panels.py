"""Pictures: panels of learning curves with readable names and distinct lines, and tables of qlearning as heat maps."""

import itertools
import math
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tfbaselines.errors import UsageError, bad_argument
from tfbaselines.plot.columns import SECONDS_IN, readable
from tfbaselines.plot.results import Curve
from tfbaselines.training.checkpoint import load_tree, saved_file


def save(figure: Any, out: str) -> None:
    """Write a matplotlib figure to the PNG `out`."""
    try:
        os.makedirs(os.path.dirname(out) or ".", exist_ok=True)
        figure.savefig(out, dpi=120, format="png")
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise bad_argument("--out", out, f"a file that can be written ({why})") from None


# Two panels in a row are 1,000 pixels wide and 600 high each at the picture's resolution.
PANEL_SIZE = (8.4, 5.0)
# Points between a panel and a legend below it, which the name of the x-axis needs, and of a line of that legend.
LEGEND_GAP, LEGEND_LINE = 36, 14
POINTS_PER_INCH = 72
# Width of a line, and of its part behind which some runs have ended.
WIDTH, THIN = 1.8, 0.8
# Ends of runs that an entry of the legend lists.
MOST_ENDS = 3
MOST_IN_A_ROW = 3

# Ten colors in each of four line styles.
COLORS = [f"C{number}" for number in range(10)]
LINES = ("-", "--", ":", "-.")
# A legend with more or longer entries stands below its panel, where a line has room for 110 letters.
LONGEST_LEGEND, LONGEST_ENTRY, LETTERS_IN_A_LINE = 8, 40, 110
# Width of an entry's line sample in letters; largest number of columns of a legend.
HANDLE, MOST_COLUMNS = 8, 3


class Panel(NamedTuple):
    """One set of axes: columns of x and y, curves, and a title."""

    xlabel: str
    ylabel: str
    curves: list[Curve]
    title: str = ""


def draw(panels: Sequence[Panel], out: str) -> None:
    """Draw panels side by side to the PNG `out`, without a display."""
    from matplotlib.figure import Figure

    wide = min(MOST_IN_A_ROW, math.ceil(math.sqrt(len(panels))))
    high = math.ceil(len(panels) / wide)
    lines = max(math.ceil(len(panel.curves) / (_columns(panel) or math.inf)) for panel in panels)
    height = PANEL_SIZE[1] + lines * LEGEND_LINE / POINTS_PER_INCH
    figure = Figure(figsize=(PANEL_SIZE[0] * wide, height * high), layout="constrained")
    axes = figure.subplots(high, wide, squeeze=False).ravel()
    styles = _styles(panels)
    for axis, panel in zip(axes, panels, strict=False):
        _draw(axis, panel, styles)
    for axis in axes[len(panels) :]:
        axis.remove()
    save(figure, out)


def _styles(panels: Sequence[Panel]) -> dict[str, tuple[str, str]]:
    """Choose a color and a line style for each experiment, equal in all panels."""
    names = dict.fromkeys(curve.experiment or curve.label for panel in panels for curve in panel.curves)
    looks = itertools.cycle(itertools.product(LINES, COLORS))
    return {name: (color, line) for name, (line, color) in zip(names, looks, strict=False)}


def _draw(axis: Any, panel: Panel, styles: dict[str, tuple[str, str]]) -> None:
    from matplotlib.ticker import EngFormatter
    from matplotlib.transforms import ScaledTranslation

    xlabel = readable(panel.xlabel)
    if xlabel == "environment steps":
        axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    for curve in panel.curves:
        _draw_curve(axis, curve._replace(x=curve.x / SECONDS_IN.get(xlabel, 1.0)), styles)
    axis.set(xlabel=xlabel, ylabel=readable(panel.ylabel), title=panel.title)
    axis.grid(alpha=0.3)
    columns = _columns(panel)
    if columns is None:
        axis.legend(fontsize="small", loc="best")
        return
    below = ScaledTranslation(0, -LEGEND_GAP / POINTS_PER_INCH, axis.figure.dpi_scale_trans)
    place = {"bbox_to_anchor": (0.5, 0), "bbox_transform": axis.transAxes + below}
    axis.legend(fontsize="small", loc="upper center", ncols=columns, **place)


def _columns(panel: Panel) -> int | None:
    """Return the number of columns of the legend below a panel; None for a legend inside of it."""
    longest = max(len(_entry(curve)) for curve in panel.curves)
    if len(panel.curves) <= LONGEST_LEGEND and longest <= LONGEST_ENTRY:
        return None
    return min(MOST_COLUMNS, max(1, LETTERS_IN_A_LINE // (longest + HANDLE)))


def _draw_curve(axis: Any, curve: Curve, styles: dict[str, tuple[str, str]]) -> None:
    """Draw a line and its band; the line is thin where some of its runs have ended."""
    color, line = styles[curve.experiment or curve.label]
    count = len(curve.x) if curve.runs is None else int((curve.runs == curve.runs.max()).sum())
    look = {"color": color, "linestyle": line}
    # Draw a run of one row as a dot: a line through one point is invisible.
    alone = {"marker": "o"} if count == 1 else {}
    axis.plot(curve.x[:count], curve.y[:count], label=_entry(curve), linewidth=WIDTH, **look, **alone)
    if count < len(curve.x):
        axis.plot(curve.x[count - 1 :], curve.y[count - 1 :], linewidth=THIN, **look)
    axis.fill_between(curve.x, curve.low, curve.high, color=color, alpha=0.15, linewidth=0)


def _entry(curve: Curve) -> str:
    """Name a curve, and the number of its runs after some have ended: 'pong (3; 2 after 12k, 1 after 20k)'."""
    if len(curve.x) == 1:
        return f"{curve.label}: one row so far"
    ends = [] if curve.runs is None else np.flatnonzero(np.diff(curve.runs))
    texts = [f"{curve.runs[end + 1]} after {_number(curve.x[end])}" for end in ends]
    if len(texts) > MOST_ENDS:
        texts[1:-1] = ["..."]
    return f"{curve.label.removesuffix(')')}; {', '.join(texts)})" if texts else curve.label


def _number(x: float) -> str:
    from matplotlib.ticker import EngFormatter

    return EngFormatter(places=None, sep="").format_eng(float(f"{x:.3g}"))


PANEL = (6.0, 4.5)
MOST_DIMENSIONS = 2


class Table(NamedTuple):
    """Values [..., actions] over one or two dimensions of cells, and the bounds [D] of the cells."""

    values: np.ndarray
    low: np.ndarray
    high: np.ndarray


def read_table(path: str | os.PathLike) -> Table:
    """Read the table of a qlearning run's log directory, or of its saved model."""
    policy = load_tree(saved_file(path)).get("model", {}).get("policy", {})
    if "cells" not in policy:
        raise UsageError(f"'{path}' has no table: --table draws runs of --alg=qlearning")
    cells, values = policy["cells"], next(iter(policy["weights"]["00"].values()))
    sizes = np.asarray(cells["sizes"]).tolist()
    if len(sizes) > MOST_DIMENSIONS:
        raise UsageError(f"the table of '{path}' has {len(sizes)} dimensions: one or two can be drawn")
    return Table(values.reshape(*sizes, values.shape[-1]), np.asarray(cells["low"]), np.asarray(cells["high"]))


def draw_table(table: Table, out: str) -> None:
    """Draw a table to a PNG: in two dimensions the largest value and the best action, in one each action's values.

    Args:
        table: result of read_table.
        out: path of the file.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    if table.values.ndim == MOST_DIMENSIONS + 1:
        count = table.values.shape[-1]
        panels = {"largest value": (table.values.max(-1), {}), "best action": (table.values.argmax(-1), {"vmin": 0})}
        panels["best action"][1].update(vmax=max(1, count - 1), cmap="viridis")
        extent, ylabel = (*_edges(table, 0), *_edges(table, 1)), "dimension 1"
    else:
        panels = {"values": (table.values, {})}
        extent, ylabel = (*_edges(table, 0), -0.5, table.values.shape[-1] - 0.5), "action"
    figure = Figure(figsize=(PANEL[0] * len(panels), PANEL[1]), layout="constrained")
    for axis, (title, (image, look)) in zip(
        figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True
    ):
        shown = axis.imshow(image.T, origin="lower", aspect="auto", extent=extent, interpolation="nearest", **look)
        axis.set(title=title, xlabel="dimension 0", ylabel=ylabel)
        figure.colorbar(shown, ax=axis, ticks=MaxNLocator(integer=True) if title == "best action" else None)
        if ylabel == "action":
            axis.yaxis.set_major_locator(MaxNLocator(integer=True))
    save(figure, out)


def _edges(table: Table, dimension: int) -> tuple[float, float]:
    """Return the lower edge of a dimension's first cell, and the upper edge of its last one."""
    low, high = float(table.low[dimension]), float(table.high[dimension])
    return low, high
