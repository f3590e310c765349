"""The final table of a study: a row for each run that is done, and scores by group."""

import csv
import io
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from tfbaselines.errors import UsageError
from tfbaselines.files import write_whole
from tfbaselines.report.statistics import interquartile_mean, interval
from tfbaselines.study.cells import Cell
from tfbaselines.study.measures import Measured, measure
from tfbaselines.study.store import DONE, STATES, Study

FIRST, LAST = ("algorithm", "environment"), ("seed", "steps", "score", "minutes")
PAGE_COLUMNS = ("seeds", "mean", "deviation", "interquartile mean (95 % interval)", "minutes a run")


def finished(study: Study) -> list[tuple[Cell, Measured]]:
    """Read the runs that are done, sorted by group and seed."""
    runs = [(cell, measure(study.place(cell))) for cell in study.cells(DONE)]
    return sorted(runs, key=lambda run: (run[0].group, int(run[0].words.get("seed", 0))))


def varied(cells: Iterable[Cell]) -> list[str]:
    """List the arguments other than algorithm, environment and seed that differ between cells."""
    cells = sorted(cells, key=lambda cell: cell.name)
    names = dict.fromkeys(name for cell in cells for name in cell.words if name not in ("alg", "env", "seed"))
    return [name for name in names if len({cell.words.get(name) for cell in cells}) > 1]


def table(runs: list[tuple[Cell, Measured]], settings: list[str]) -> str:
    """Format the runs as CSV, with a column for each of the settings that vary."""
    file = io.StringIO()
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow([*FIRST, *settings, *LAST])
    for cell, measured in runs:
        own = [cell.words.get(name, "") for name in ("alg", "env", *settings, "seed")]
        minutes = "" if measured.seconds is None else f"{measured.seconds / 60:.2f}"
        rows.writerow([*own, *("" if one is None else f"{one:.10g}" for one in measured[:2]), minutes])
    return file.getvalue()


def page(name: str, runs: list[tuple[Cell, Measured]], settings: list[str], total: int) -> str:
    """Format a Markdown table with a line for each group."""
    head = [*FIRST, *settings, *PAGE_COLUMNS]
    lines = [
        f"# {name}: {len(runs)} of {total} runs are done",
        "",
        "A score is the latest mean return in a run's log.",
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
        # One task.
        matrix = scores[:, None]
        low, high = interval(interquartile_mean, matrix)
        cells += [f"{scores.mean():,.1f}", f"{scores.std():,.1f}"]
        cells += [f"{interquartile_mean(matrix):,.1f} ({low:,.1f} to {high:,.1f})"]
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
    everything = [cell for state in STATES for cell in study.cells(state)]
    settings = varied(everything)
    name = study.directory.resolve().name
    contents = [table(runs, settings), page(name, runs, settings, len(everything))]
    for path, content in zip(paths, contents, strict=True):
        write_whole(path, content)
    return paths
