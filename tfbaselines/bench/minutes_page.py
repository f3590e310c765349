"""The tables of `bench minutes`: a CSV file with every run, and a page with a line for each task and budget."""

from pathlib import Path
from typing import Any

from tfbaselines.bench.minutes import COLUMNS, EPISODES, LIBRARIES, OURS, Cell, programs
from tfbaselines.files import write_whole

NOT_RUN = "not run"


def write(wanted: list[Cell], logs: str, clock: str, out: str) -> list[Path]:
    """Write OUT.csv and OUT.md from the finished runs."""
    import pandas as pd

    finished = [row for row in (cell.result(logs, clock) for cell in wanted) if row is not None]
    rows = pd.DataFrame(finished, columns=COLUMNS).sort_values(list(COLUMNS[:5]))
    paths = [Path(f"{out}.csv"), Path(f"{out}.md")]
    paths[0].parent.mkdir(parents=True, exist_ok=True)
    places = dict.fromkeys((cell.budget, cell.task) for cell in wanted)
    for path, content in zip(paths, (rows.to_csv(index=False), page(list(places), rows, clock)), strict=True):
        write_whole(path, content)
    return paths


def page(places: list[tuple[float, str]], rows: Any, clock: str) -> str:
    """Format a Markdown table with every program and seed.

    Args:
        places: budgets and tasks.
        rows: data frame with a row for each finished run.
        clock: clock of the budgets.
    """
    lines, first, compared = [], 0, 0
    for budget, task in places:
        here = rows[(rows["budget"] == budget) & (rows["task"] == task)]
        is_first = _is_first(here)
        first, compared = first + bool(is_first), compared + (is_first is not None)
        cells = [f"{budget:g}", task, *(_cell(here, task, budget, library) for library in LIBRARIES)]
        lines.append(f"| {' | '.join([*cells, {None: '-', True: 'yes', False: 'no'}[is_first]])} |")
    which = {"wall": "wall time", "cpu": "processor time of one core and one thread"}[clock]
    columns = ("minutes", "task", *LIBRARIES, "first")
    head = [
        f"# minutes: mean return of {EPISODES} episodes of the deterministic policy",
        "",
        f"Minutes are {which}, from the start of the process. In brackets are the seeds and the steps. First of all "
        f"that ran: {first} of {compared} tasks and budgets with a run of {OURS} and of a peer; "
        f"{len(lines) - compared} have none.",
        "",
        f"| {' | '.join(columns)} |",
        f"|{'---|' * len(columns)}",
    ]
    return "\n".join([*head, *lines]) + "\n"


def _is_first(rows: Any) -> bool | None:
    """Return whether our mean is at least that of every peer that ran; None without a run of ours or of a peer."""
    means = rows.groupby(["library", "algorithm"])["score"].mean()
    ours = [score for (library, _), score in means.items() if library == OURS]
    peers = [score for (library, _), score in means.items() if library != OURS]
    return ours[0] >= max(peers) if ours and peers else None


def _cell(rows: Any, task: str, budget: float, library: str) -> str:
    """Format the scores of a library's programs, one below another."""
    lines = []
    for algorithm in (one for of, one in programs(task, budget) if of == library):
        own = rows[(rows["library"] == library) & (rows["algorithm"] == algorithm)]
        name = algorithm.partition(" ")[0]
        if own.empty:
            lines.append(f"{name} {NOT_RUN}")
            continue
        seeds = "; ".join(f"{score:,.1f}" for score in own["score"])
        lines.append(f"{name} {own['score'].mean():,.1f} ({seeds}; {own['steps'].mean():,.0f} steps)")
    return "<br>".join(lines)
