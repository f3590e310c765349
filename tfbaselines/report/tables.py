"""Tables of the page. All texts are escaped here: names of runs come from strangers."""

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

import numpy as np

from tfbaselines.plot.columns import readable
from tfbaselines.report import look, statistics
from tfbaselines.report.measured import Measured
from tfbaselines.report.published import published_for
from tfbaselines.report.tasks import Task

# Width and height of the picture of an interval.
WIDE, HIGH = 150, 22
# Larger numbers are written with an exponent.
LARGE = 1e10
# Largest number of arguments in a table.
MOST_ARGUMENTS = 200
# Largest number of methods in a matrix.
MOST_COMPARED = 12
# Points of an axis in the table below curves.
COLUMNS = 5


def number(value: float) -> str:
    """Write a number with about four digits."""
    if not math.isfinite(value):
        return "-"
    if abs(value) >= LARGE:
        return f"{value:.4g}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Compose a table of cells that are HTML; the first cell of a row is its heading.

    Args:
        head: texts.
        rows: HTML of the cells; cells of numbers are put to the right by the style sheet.
    """
    heads = "".join(f'<th scope="col">{escape(text)}</th>' for text in head)
    lines = []
    for first, *others in rows:
        lines.append(f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in others)}</tr>')
    body = f"<thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return f'<div class="scroll" tabindex="0"><table>{body}</table></div>'


def named(method: str, color: int) -> str:
    """Compose a method's name beside its line."""
    return f'<span class="named">{look.swatch(color)} {escape(method)}</span>'


def scores(task: Task, colors: Mapping[str, int], target: float | None) -> str:
    """Compose the table of final scores of a task, with intervals, the gap to a target and published scores."""
    every = np.concatenate([task.scores(method).ravel() for method in task.methods])
    span = (float(every.min()), float(every.max()))
    published = {method: _published(task, method) for method in task.methods}
    tested = {method: _tested(runs) for method, runs in task.methods.items()}
    target = None if task.success else target
    head = ["method", "seeds", "interquartile mean", "95 % interval", "seeds and interval"]
    head += [f"gap to {number(target)}"] if target is not None else []
    head += ["bench score"] * any(tested.values()) + ["published"] * any(published.values())
    head += ["mean", "median", "worst", "best", "ends at", "measure"]
    rows = []
    for method, runs in task.methods.items():
        own = task.scores(method)
        middle = float(statistics.interquartile_mean(own))
        low, high = map(float, statistics.interval(statistics.interquartile_mean, own))
        # A single run has no interval.
        shown = f"{number(low)} to {number(high)}" if len(runs) > 1 else "-"
        row = [named(method, colors[method]), str(len(runs)), number(middle), shown]
        row.append(_picture(own.ravel(), (low, middle, high), span, colors[method]))
        row += [number(float(statistics.optimality_gap(own, target)))] if target is not None else []
        row += [tested[method] or "-"] * any(tested.values()) + [published[method] or "-"] * any(published.values())
        row += [number(own.mean()), number(float(np.median(own))), number(own.min()), number(own.max())]
        rows.append([*row, _ends(runs), escape(readable(runs[0].column))])
    return table(head, rows)


def _ends(runs: Sequence[Measured]) -> str:
    low, high = number(min(run.end for run in runs)), number(max(run.end for run in runs))
    return low if low == high else f"{low} to {high}"


def _tested(runs: Sequence[Measured]) -> str:
    found = np.array([run.tested for run in runs if run.tested is not None])
    return number(float(statistics.interquartile_mean_of(found))) if len(found) else ""


def _published(task: Task, method: str) -> str:
    """Compose published scores of a method, with their source as a note."""
    run = task.methods[method][0].run
    found = published_for(run.config, task.env)
    texts = [f"{number(score)} <small>{escape(source)}</small>" for source, score in found]
    return f'<div class="wide">{"<br>".join(texts)}</div>' if texts else ""


def _picture(values: np.ndarray, interval: tuple[float, float, float], span: tuple[float, float], color: int) -> str:
    """Draw an interval as a line, its middle as the method's marker, and single runs as ticks."""
    scale = (WIDE - 16) / ((span[1] - span[0]) or 1.0)
    place = lambda value: round(8 + (value - span[0]) * scale, 1)
    low, middle, high = map(place, interval)
    ticks = "".join(f"M{place(value)},3v16" for value in values.tolist()[:100])
    return (
        f'<svg class="{look.color_class(color)}" width="{WIDE}" height="{HIGH}" aria-hidden="true">'
        f'<path d="{ticks}" stroke="currentColor" opacity=".45"/>'
        f'<path d="M{low},11H{high}" stroke="currentColor" stroke-width="3"/>'
        f'<path d="{look.marker(color, middle, 11)}" fill="currentColor"/></svg>'
    )


def overall(matrices: Mapping[str, np.ndarray], colors: Mapping[str, int]) -> str:
    """Compose the table of statistics over all tasks of normalized scores."""
    measures = {
        "interquartile mean": statistics.interquartile_mean,
        "median": statistics.median,
        "mean": statistics.mean,
        "optimality gap": statistics.optimality_gap,
    }
    rows = []
    for method, matrix in matrices.items():
        row = [named(method, colors[method]), f"{len(matrix)} x {matrix.shape[1]}"]
        for statistic in measures.values():
            low, high = statistics.interval(statistic, matrix)
            between = f" <small>({low:.3f} to {high:.3f})</small>" if len(matrix) > 1 else ""
            row.append(f"{float(statistic(matrix)):.3f}{between}")
        rows.append(row)
    return table(["method", "seeds x tasks", *measures], rows)


def improvement(matrices: Mapping[str, np.ndarray], colors: Mapping[str, int]) -> str:
    """Compose the matrix of probabilities that a run of the row's method is better than one of the column's.

    Only the first MOST_COMPARED methods, the best ones, are in it.
    """
    shown = dict(list(matrices.items())[:MOST_COMPARED])
    rows = []
    for method, first in shown.items():
        row = [named(method, colors[method])]
        for other, second in shown.items():
            if other == method:
                row.append('<span class="none">-</span>')
                continue
            chance = float(statistics.probability_of_improvement(first, second))
            low, high = statistics.interval(statistics.probability_of_improvement, first, second, resamples=500)
            shade = f"p{min(look.SHADES - 1, int(chance * look.SHADES))}"
            between = f" <small>({low:.2f} to {high:.2f})</small>" if max(len(first), len(second)) > 1 else ""
            row.append(f'<span class="chance {shade}">{chance:.2f}</span>{between}')
        rows.append(row)
    return table(["is better than", *shown], rows)


def differences(task: Task, colors: Mapping[str, int]) -> str:
    """Compose the table of arguments that differ between a task's methods; empty if none does."""
    settings = {method: dict(runs[0].run.settings) for method, runs in task.methods.items()}
    names = sorted({name for own in settings.values() for name in own})
    differing = [name for name in names if len({own.get(name) for own in settings.values()}) > 1]
    rows = []
    for name in differing[:MOST_ARGUMENTS]:
        cells = [escape(_shortened(own.get(name, "-"))) for own in settings.values()]
        rows.append([f"<code>{escape(_shortened(name.removeprefix('learn.')))}</code>", *cells])
    return table(["argument", *settings], rows) if rows else ""


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def curve_numbers(panel: Mapping, names: Sequence[str]) -> str:
    """Compose the table of a panel's lines at a few points of its first axis."""
    axis, own = next(iter(panel["axes"].items()))
    grid = np.linspace(*_range(own["lines"]), COLUMNS)
    rows = []
    for line in own["lines"]:
        x, y, low, high = (np.array(line[name], dtype=np.float64) for name in ("x", "y", "low", "high"))
        row = [named(names[line["color"]], line["color"])]
        for point in grid:
            place = int(np.abs(x - point).argmin())
            ended = point > x[-1] + 0.02 * (grid[-1] - grid[0])
            text = number(y[place])
            if low[place] < high[place]:
                text += f" <small>({number(low[place])} to {number(high[place])})</small>"
            row.append("-" if ended or math.isnan(y[place]) else text)
        rows.append(row)
    return table([axis, *(number(float(point)) for point in grid)], rows)


def _range(lines: Sequence[Mapping]) -> tuple[float, float]:
    return min(line["x"][0] for line in lines), max(line["x"][-1] for line in lines)
