"""The table of a run of qlearning as a heat map."""

import os
from typing import NamedTuple

import numpy as np

from tfbaselines.plot.picture import save
from tfbaselines.running.checkpoint import load_tree, saved_file

PANEL = (6.0, 4.5)
MOST_DIMENSIONS = 2


class Table(NamedTuple):
    """Values [..., actions] over one or two dimensions of cells, and the bounds [D] of the cells."""

    values: np.ndarray
    low: np.ndarray
    high: np.ndarray


def read_table(path: str | os.PathLike) -> Table:
    """The table of a run's log directory, or of a saved model; ValueError when it is of something else."""
    policy = load_tree(saved_file(path)).get("model", {}).get("policy", {})
    if "cells" not in policy:
        raise ValueError(f"'{path}' has no table: --table draws runs of --alg=qlearning")
    cells, values = policy["cells"], next(iter(policy["weights"]["00"].values()))
    sizes = np.asarray(cells["sizes"]).tolist()
    if len(sizes) > MOST_DIMENSIONS:
        raise ValueError(f"the table of '{path}' has {len(sizes)} dimensions: one or two can be drawn")
    return Table(values.reshape(*sizes, values.shape[-1]), np.asarray(cells["low"]), np.asarray(cells["high"]))


def draw_table(table: Table, out: str) -> None:
    """Write a PNG: of two dimensions the largest value and the best action, of one every action's values.

    Args:
        table: from read_table.
        out: the file.
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
    """Where a dimension's first cell begins and its last one ends."""
    low, high = float(table.low[dimension]), float(table.high[dimension])
    return low, high
