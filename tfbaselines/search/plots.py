"""Pictures of a search: its history, importances, a slice for each argument, the runs' evaluations, a contour.

Optuna's own plots are not used: its contour needs SciPy, and its figures come from pyplot, which keeps them all.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfbaselines.errors import UsageError
from tfbaselines.plot.panels import save
from tfbaselines.search.board import value_of
from tfbaselines.search.settings import Settings

PANEL = (4.0, 3.0)
COLUMNS = 3
# Colors of finished trials, of trials that ended early, and of the best one.
FINISHED, EARLY, BEST = "#1f77b4", "#b0b0b0", "#d62728"
LEVELS = 12


def figure_of(rows: int, columns: int, size: tuple[float, float] = PANEL) -> Any:
    """Make a figure with room for panels; UsageError if matplotlib is missing."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError('pictures need matplotlib: pip install "tfbaselines[plot]"') from None
    return Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")


def draw_all(directory: Path, settings: Settings, trials: Sequence[Any], importances: Mapping[str, float]) -> list[str]:
    """Draw every picture that the trials suffice for; return the files' names."""
    drawn = {"history.png": lambda path: draw_history(path, trials)}
    drawn["evaluations.png"] = lambda path: draw_evaluations(path, settings, trials)
    labels = list(importances) or sorted({label for trial in trials for label in trial.params})
    if importances:
        drawn["importances.png"] = lambda path: draw_importances(path, importances)
    if labels:
        drawn["slices.png"] = lambda path: draw_slices(path, trials, labels)
    numeric = [label for label in labels if _is_numeric(trials, label)][:2]
    if len(numeric) == 2 and sum(_has(trial, numeric) for trial in trials) > len(numeric) + 1:
        drawn["contour.png"] = lambda path: draw_contour(path, trials, *numeric)
    for name, draw in drawn.items():
        draw(str(directory / name))
    return list(drawn)


def draw_history(path: str, trials: Sequence[Any]) -> None:
    """Draw the trials' scores in their order, and the best so far."""
    figure = figure_of(1, 2)
    axes = figure.subplots()
    for early, color, label in ((True, EARLY, "ended early"), (False, FINISHED, "all seeds")):
        points = [(trial.number, value_of(trial)) for trial in trials if _is_early(trial) is early]
        points = [(number, value) for number, value in points if value is not None]
        if points:
            axes.scatter(*zip(*points, strict=True), color=color, label=label, s=18)
    finished = [(trial.number, trial.value) for trial in trials if not _is_early(trial)]
    if finished:
        numbers, values = zip(*finished, strict=True)
        axes.step(numbers, np.maximum.accumulate(values), where="post", color=BEST, label="best so far")
    axes.set(xlabel="trial", ylabel="mean return")
    axes.legend(fontsize="small")
    save(figure, path)


def draw_evaluations(path: str, settings: Settings, trials: Sequence[Any]) -> None:
    """Draw the evaluations in the first run of each trial."""
    figure = figure_of(1, 2)
    axes = figure.subplots()
    best = max((trial for trial in trials if not _is_early(trial)), key=lambda one: one.value, default=None)
    for trial in trials:
        points = sorted(trial.intermediate_values.items())
        if points:
            steps, values = zip(*((number * settings.every, value) for number, value in points), strict=True)
            color, front = (BEST, 3) if trial is best else (EARLY, 1) if _is_early(trial) else (FINISHED, 2)
            axes.plot(steps, values, color=color, zorder=front, linewidth=1 + (trial is best), alpha=0.8)
    axes.set(xlabel="environment steps", ylabel="mean return", title="first run of each trial; the best in red")
    save(figure, path)


def draw_importances(path: str, importances: Mapping[str, float]) -> None:
    """Draw a bar for each argument, the most important on top."""
    figure = figure_of(1, 2, (PANEL[0], 0.3 * len(importances) + 1))
    axes = figure.subplots()
    labels = list(importances)[::-1]
    axes.barh(labels, [importances[label] for label in labels], color=FINISHED)
    axes.set(xlabel="importance (PED-ANOVA)", xlim=(0, None))
    save(figure, path)


def draw_slices(path: str, trials: Sequence[Any], labels: Sequence[str]) -> None:
    """Draw the scores over each argument; the darker a point, the later the trial."""
    rows = math.ceil(len(labels) / COLUMNS)
    figure = figure_of(rows, COLUMNS, (PANEL[0], 2.4))
    panels = figure.subplots(rows, COLUMNS, squeeze=False, sharey=True).ravel()
    shown = [trial for trial in trials if value_of(trial) is not None]
    low = np.quantile([value_of(trial) for trial in shown], 0.1) if shown else 0.0
    for axes, label in zip(panels, labels, strict=False):
        own = [trial for trial in shown if label in trial.params]
        values = [trial.params[label] for trial in own]
        if own and not _is_numeric(own, label):
            choices = own[0].distributions[label].choices
            values = [choices.index(value) for value in values]
            axes.set_xticks(range(len(choices)), [str(choice) for choice in choices])
        elif _is_logarithmic(own, label):
            axes.set_xscale("log")
        colors = [trial.number for trial in own]
        axes.scatter(values, [value_of(trial) for trial in own], c=colors, cmap="Blues", vmin=-len(shown), s=18)
        axes.set_xlabel(label)
    for axes in panels[len(labels) :]:
        axes.set_axis_off()
    if shown and low < max(value_of(trial) for trial in shown):
        # The worst trials would hide the differences of the others.
        panels[0].set_ylim(bottom=low)
    save(figure, path)


def draw_contour(path: str, trials: Sequence[Any], first: str, second: str) -> None:
    """Draw the scores over the two most important numbers, between the trials by triangles."""
    figure = figure_of(1, 1, (6.0, 4.5))
    axes = figure.subplots()
    own = [trial for trial in trials if _has(trial, (first, second))]
    scores = np.array([value_of(trial) for trial in own])
    points = []
    for label in (first, second):
        numbers = np.array([trial.params[label] for trial in own], float)
        points.append(np.log10(numbers) if _is_logarithmic(own, label) else numbers)
    x, y = points
    try:
        shades = axes.tricontourf(x, y, scores, levels=LEVELS, cmap="viridis")
    except (ValueError, RuntimeError):
        # All trials lie on one line.
        shades = axes.scatter(x, y, c=scores, cmap="viridis")
    axes.scatter(x, y, c=scores, cmap="viridis", edgecolors="white", linewidths=0.6, s=26)
    names = [f"log10 {label}" if _is_logarithmic(own, label) else label for label in (first, second)]
    axes.set(xlabel=names[0], ylabel=names[1])
    figure.colorbar(shades, ax=axes, label="mean return")
    save(figure, path)


def _is_early(trial: Any) -> bool:
    return trial.state.name != "COMPLETE"


def _has(trial: Any, labels: Sequence[str]) -> bool:
    return value_of(trial) is not None and all(label in trial.params for label in labels)


def _is_numeric(trials: Sequence[Any], label: str) -> bool:
    values = [trial.params[label] for trial in trials if label in trial.params]
    return bool(values) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _is_logarithmic(trials: Sequence[Any], label: str) -> bool:
    return any(getattr(trial.distributions[label], "log", False) for trial in trials if label in trial.distributions)
