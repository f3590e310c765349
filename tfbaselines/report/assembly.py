"""Building a report: read the runs, compare them, and write the page."""

import datetime
import os
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from tfbaselines import __version__
from tfbaselines.errors import UsageError, bad_argument, check_at_least, complain
from tfbaselines.files import write_whole
from tfbaselines.plot.results import MOST_PROBLEMS, expand, file_in_first, find_all
from tfbaselines.report import NAME, data, look, page, tables, videos
from tfbaselines.report.measured import Measured, measure
from tfbaselines.report.methods import with_methods
from tfbaselines.report.tasks import Task, normalized, pairs_of, sentences, shared, tasks_of

# Problems that the page lists.
MOST_LISTED = 50
RUN_FACTS = ("seed", "steps", "steps/s", "minutes", "started", "machine", "commit", "version")


def write(dirs: Sequence[str], out: str | None, title: str, refresh: float | None) -> Path:
    """Write the report; see `tfbaselines.report.build` for the arguments."""
    if refresh is not None:
        check_at_least(1, refresh=refresh)
    roots = [root for path in dirs for root in expand(path)]
    place = Path(os.path.expanduser(out) if out else file_in_first(dirs[0], NAME))
    if place.suffix.lower() not in (".html", ".htm"):
        raise bad_argument("--out", out, "a name that ends in .html")
    runs, problems = _measured(roots, waits=refresh is not None)
    title = title or f"Report: {', '.join(os.path.basename(os.path.normpath(root)) or root for root in roots[:3])}"
    text = report(runs, problems, title, str(place), refresh)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, text)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise bad_argument("--out", str(place), f"a file that can be written ({why})") from None
    for line in problems if refresh is None else ():
        complain(line)
    return place


def _measured(roots: Sequence[str], waits: bool) -> tuple[list[Measured], list[str]]:
    """Read all runs, and a line for each file or run that cannot be used; UsageError without any run."""
    try:
        runs, problems = find_all(roots, [None] * len(roots))
    except UsageError as error:
        if not waits:
            raise
        return [], [str(error)]
    measured = [measure(run) for run in with_methods(runs)]
    problems = [*problems, *(line for line in measured if isinstance(line, str))]
    found = [run for run in measured if isinstance(run, Measured)]
    if not found and not waits:
        raise UsageError("; ".join(problems[:MOST_PROBLEMS]))
    return found, problems


def report(runs: Sequence[Measured], problems: Sequence[str], title: str, out: str, refresh: float | None) -> str:
    """Compose the page of measured runs."""
    tasks = tasks_of(runs)
    ranked = [list(task.methods) for task in tasks]
    # A page of runs that go on keeps the colors while their ranks change.
    methods = sorted({method for own in ranked for method in own})
    colors = {method: place for place, method in enumerate(methods)}
    panels = data.curves(tasks, colors)
    body = [_curves(tasks, panels, colors), _scores(tasks, colors)]
    body += [_overall(tasks, colors, panels), _profiles(tasks, colors, panels), _improvement(tasks, colors)]
    body += [_arguments(tasks, colors), _videos(runs, out), _runs(runs, colors), _findings(runs)]
    body += [_problems(problems)]
    found: dict[str, Any] = {"methods": page.methods_data(methods), "panels": panels, "colors": len(look.LIGHT)}
    content = ("" if tasks else page.paragraph("There are no runs yet.")) + "".join(body)
    found["hidden"] = page.hidden_at_first(ranked)
    header = _header(runs, tasks, methods, refresh) + page.contents(content)
    return page.compose(title, header, content, found | {"refresh": refresh}, refresh)


def _header(runs: Sequence[Measured], tasks: Sequence[Task], methods: Sequence[str], refresh: float | None) -> str:
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    counts = ((len(runs), "run"), (len(methods), "method"), (len(tasks), "environment"))
    words = ", ".join(_count(count, name) for count, name in counts)
    live = f" The page loads itself again every {refresh:g} s." if refresh else ""
    return page.paragraph(f"{words}. Written {now} by tfbaselines {__version__}.{live}")


def _curves(tasks: Sequence[Task], panels: Sequence[Mapping[str, Any]], colors: Mapping[str, int]) -> str:
    if not tasks:
        return ""
    ranked = dict.fromkeys(method for task in tasks for method in task.methods)
    controls = page.controls(
        {method: colors[method] for method in ranked},
        [task.name for task in tasks],
        {axis for panel in panels for axis in panel["axes"]},
    )
    places = [_plot(place, panel, colors, of_task=place) for place, panel in enumerate(panels)]
    note = page.paragraph(
        "A line is the interquartile mean over the seeds of a method. Drag over a plot to enlarge a range."
    )
    return page.section("curves", "Curves", controls, note, page.panels(places))


def _plot(place: int, panel: Mapping[str, Any], colors: Mapping[str, int], of_task: int | None = None) -> str:
    """Compose the place of a plot, with the table of its numbers below."""
    numbers = page.folded("numbers", tables.curve_numbers(panel, list(colors)))
    return page.panel(place, panel["title"], numbers, of_task)


def _scores(tasks: Sequence[Task], colors: Mapping[str, int]) -> str:
    parts = []
    for task in tasks:
        pairs = pairs_of(task.scores_by_method())
        shown = tables.scores(task, colors, target(task.env))
        parts += [f"<h3>{escape(task.name)}</h3>", shown, page.bullets(sentences(pairs))]
    note = (
        "A run's score is the mean of the last tenth of its curve. Two methods differ significantly if a permutation "
        "test of their ranks gives p < 0.05. The p-values are not corrected for the number of pairs: among many pairs, "
        "some differences are significant by chance. "
        "A bench score is that of tfbaselines bench table; a gap is how far runs are below the return that solves the "
        "task."
    )
    return page.section("scores", "Final scores", *([page.paragraph(note)] if parts else []), *parts)


def target(env: str) -> float | None:
    """Return the return at which Gymnasium takes an environment for solved; None if it has none."""
    import gymnasium

    spec = gymnasium.registry.get(env)
    return None if spec is None or spec.reward_threshold is None else float(spec.reward_threshold)


def _overall(tasks: Sequence[Task], colors: Mapping[str, int], panels: list) -> str:
    chosen, methods = shared(tasks)
    if not chosen:
        return ""
    matrices = normalized(chosen, methods)
    profile = data.profiles(matrices, colors, "Performance profiles over all environments", "normalized score")
    panels.append(profile)
    note = (
        f"Over {', '.join(task.name for task in chosen)}. On each environment the scores are scaled so that 0 is the "
        "worst and 1 the best run of this report; a method's seeds are as many as it has on each of them."
    )
    parts = [page.paragraph(note), tables.overall(matrices, colors)]
    parts.append(page.bullets(sentences(pairs_of(matrices))))
    parts.append(page.folded("probability of improvement", tables.improvement(matrices, colors), open_at_first=True))
    parts.append(page.panels([_plot(len(panels) - 1, profile, colors)]))
    return page.section("overall", "All environments together", *parts)


def _profiles(tasks: Sequence[Task], colors: Mapping[str, int], panels: list) -> str:
    places = []
    for task in tasks:
        if max(len(runs) for runs in task.methods.values()) < 2:
            continue
        panels.append(data.profiles(task.scores_by_method(), colors, task.name, "final score"))
        places.append(_plot(len(panels) - 1, panels[-1], colors))
    return page.section("profiles", "Performance profiles", page.panels(places))


def _improvement(tasks: Sequence[Task], colors: Mapping[str, int]) -> str:
    parts = []
    for task in tasks:
        if len(task.methods) > 1:
            table = tables.improvement(task.scores_by_method(), colors)
            parts.append(page.folded(task.name, table, open_at_first=len(tasks) == 1))
    return page.section("improvement", "Probability of improvement", *parts)


def _arguments(tasks: Sequence[Task], colors: Mapping[str, int]) -> str:
    found = [(task.name, tables.differences(task, colors)) for task in tasks]
    parts = [page.folded(name, table, open_at_first=len(found) == 1) for name, table in found if table]
    return page.section("arguments", "Arguments that differ", *parts)


def _videos(runs: Sequence[Measured], out: str) -> str:
    content, words = videos.gallery(runs, out)
    return page.section("videos", "Videos", page.paragraph(words), content) if content else ""


def _runs(runs: Sequence[Measured], colors: Mapping[str, int]) -> str:
    facts = [name for name in RUN_FACTS if any(run.facts[name] for run in runs)]
    rows = []
    for run in runs:
        cells = [
            tables.named(run.run.label, colors[run.run.label]),
            escape(run.run.env or "-"),
            tables.number(run.score),
        ]
        cells += [escape(run.facts[name] or "-") for name in facts]
        cells.append(_count(len(run.findings), "finding") if run.findings else "-")
        rows.append([*cells, f"<small>{escape(run.run.dirname)}</small>"])
    table = tables.table(["method", "environment", "score", *facts, "doctor", "directory"], rows) if rows else ""
    return page.section("runs", "Runs", page.folded(_count(len(rows), "run"), table, len(rows) <= 12) if rows else "")


def _findings(runs: Sequence[Measured]) -> str:
    """List what the doctor found in each run."""
    parts = []
    for run in runs:
        if run.findings:
            lines = [f"{found.title} ({found.sure}): {found.seen}. {found.meaning}" for found in run.findings]
            content = page.bullets([(line, False) for line in lines])
            parts.append(page.folded(f"{run.run.label}, {run.run.env}, {run.name}: {_titles(run)}", content))
    note = "Signs that something keeps a run from learning; tfbaselines doctor DIR names the commands that mend it."
    return page.section("doctor", "Findings of the doctor", *([page.paragraph(note)] if parts else []), *parts)


def _titles(run: Measured) -> str:
    return ", ".join(f"{found.title} ({found.sure})" for found in run.findings)


def _count(number: int, name: str) -> str:
    return f"{number} {name}{'s' if number != 1 else ''}"


def _problems(problems: Sequence[str]) -> str:
    lines = [(line, False) for line in problems[:MOST_LISTED]]
    more = [(f"... and {len(problems) - MOST_LISTED} more", False)] if len(problems) > MOST_LISTED else []
    return page.section("problems", "Not read", page.bullets(lines + more))
