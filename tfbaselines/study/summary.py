"""The final table of a study: a row for each run that is done, and scores by group."""

import csv
import io
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from tfbaselines.errors import UsageError
from tfbaselines.files import write_whole
from tfbaselines.study.cells import Cell
from tfbaselines.study.measures import Measured, measure
from tfbaselines.study.store import DONE, Study

RESAMPLES, LEVEL = 2000, 0.95
FIRST, LAST = ("algorithm", "environment"), ("seed", "steps", "score", "minutes")
PAGE_COLUMNS = ("seeds", "mean", "deviation", "interquartile mean (95 % interval)", "minutes a run")


def interquartile_mean(scores: np.ndarray) -> float:
    """Compute the mean without the lowest and the highest quarter."""
    cut = len(scores) // 4
    return float(np.mean(np.sort(scores)[cut : len(scores) - cut]))


def interval(scores: np.ndarray) -> tuple[float, float]:
    """Compute the bootstrap interval of the interquartile mean."""
    rng = np.random.default_rng(0)
    means = [interquartile_mean(rng.choice(scores, len(scores))) for _ in range(RESAMPLES)]
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def finished(study: Study) -> list[tuple[Cell, Measured]]:
    """Read the runs that are done, sorted by group and seed."""
    runs = [(cell, measure(study.place(cell))) for cell in study.cells(DONE)]
    return sorted(runs, key=lambda run: (run[0].group, int(run[0].words.get("seed", 0))))


def varied(cells: Iterable[Cell]) -> list[str]:
    """List the arguments other than algorithm, environment and seed that differ between cells."""
    values: dict[str, set[str | None]] = {}
    cells = list(cells)
    for name in dict.fromkeys(name for cell in cells for name in cell.words):
        values[name] = {cell.words.get(name) for cell in cells}
    return [name for name, found in values.items() if len(found) > 1 and name not in ("alg", "env", "seed")]


def table(runs: list[tuple[Cell, Measured]]) -> str:
    """Format the runs as CSV."""
    settings = varied(cell for cell, _ in runs)
    file = io.StringIO()
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow([*FIRST, *settings, *LAST])
    for cell, measured in runs:
        own = [cell.words.get(name, "") for name in ("alg", "env", *settings, "seed")]
        minutes = "" if measured.seconds is None else f"{measured.seconds / 60:.2f}"
        rows.writerow([*own, *("" if one is None else f"{one:.10g}" for one in measured[:2]), minutes])
    return file.getvalue()


def page(study: Study, runs: list[tuple[Cell, Measured]]) -> str:
    """Format a Markdown table with a line for each group."""
    settings = varied(cell for cell, _ in runs)
    total = len(runs) + sum(len(study.names(state)) for state in ("open", "running", "failed"))
    head = [*FIRST, *settings, *PAGE_COLUMNS]
    lines = [
        f"# {study.directory.resolve().name}: {len(runs)} of {total} runs are done",
        "",
        "A score is the latest mean return of a run: of its tests where it has them, else of its latest episodes.",
        "",
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
    ]
    groups: dict[str, list[tuple[Cell, Measured]]] = {}
    for cell, measured in runs:
        groups.setdefault(cell.group, []).append((cell, measured))
    lines += [f"| {' | '.join(_group(own, settings))} |" for own in groups.values()]
    return "\n".join(lines) + "\n"


def _group(runs: list[tuple[Cell, Measured]], settings: list[str]) -> list[str]:
    words = runs[0][0].words
    scores = np.array([measured.score for _, measured in runs if measured.score is not None])
    seconds = [measured.seconds for _, measured in runs if measured.seconds is not None]
    cells = [words.get(name, "-") for name in ("alg", "env", *settings)] + [str(len(runs))]
    if len(scores):
        low, high = interval(scores)
        cells += [f"{scores.mean():,.1f}", f"{scores.std():,.1f}"]
        cells += [f"{interquartile_mean(scores):,.1f} ({low:,.1f} to {high:,.1f})"]
    else:
        cells += ["-", "-", "-"]
    return [*cells, f"{np.mean(seconds) / 60:.1f}" if seconds else "-"]


def write(study: Study, out: str | os.PathLike) -> list[Path]:
    """Write OUT.csv and OUT.md; UsageError if no run is done."""
    runs = finished(study)
    if not runs:
        raise UsageError(f"no run of '{study.directory}' is done yet: study status shows them")
    paths = [Path(f"{os.fspath(out)}.csv"), Path(f"{os.fspath(out)}.md")]
    paths[0].parent.mkdir(parents=True, exist_ok=True)
    contents: list[Any] = [table(runs), page(study, runs)]
    for path, content in zip(paths, contents, strict=True):
        write_whole(path, content)
    return paths
