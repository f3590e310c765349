"""The page: its sections, and the one file that they are put into with their style and script."""

import base64
import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from tfbaselines.report import look
from tfbaselines.report.measured import AXES

# With more than FEW_METHODS, the curves show only the best ones at first, about SHOWN_METHODS in all.
FEW_METHODS, SHOWN_METHODS = 10, 8
HERE = Path(__file__).parent
AXIS_NAMES = {"steps": "steps", "time": "wall time", "episodes": "episodes"}


def compose(title: str, header: str, body: str, data: Mapping[str, Any], refresh: float | None) -> str:
    """Put a page together; nothing in it loads anything, and only its own script runs.

    Args:
        title: text.
        header, body: HTML.
        data: numbers for the script.
        refresh: seconds after which the page loads itself again, or None.
    """
    style = "\n".join([(HERE / "page.css").read_text(encoding="utf-8"), look.style_sheet()])
    script = (HERE / "page.js").read_text(encoding="utf-8")
    policy = f"default-src 'none';img-src data:;media-src 'self' data: file:;style-src {_hash(style)};script-src "
    again = f'<noscript><meta http-equiv="refresh" content="{refresh:g}"></noscript>' if refresh else ""
    numbers = json.dumps(data, separators=(",", ":"), allow_nan=False)
    # No text can end the element.
    numbers = numbers.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}{_hash(script)}">
<meta name="referrer" content="no-referrer">{again}
<title>{escape(title)}</title>
<style>{style}</style>
</head>
<body>
<header><h1>{escape(title)}</h1>{header}</header>
<main>{body}</main>
<footer>Intervals are 95 % percentile intervals of a stratified bootstrap over seeds; with fewer than five seeds they
are too narrow. The interquartile mean leaves the lowest and the highest quarter of the runs out.</footer>
<script type="application/json" id="data">{numbers}</script>
<script>{script}</script>
</body>
</html>
"""


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def section(name: str, title: str, *parts: str) -> str:
    """Compose a section; empty if it has no parts."""
    content = "".join(parts)
    return f'<section id="{name}"><h2>{escape(title)}</h2>{content}</section>' if content else ""


def contents(body: str) -> str:
    """Compose links to the sections of a page's body."""
    found = re.findall(r'<section id="(\w+)"><h2>([^<]+)</h2>', body)
    links = "".join(f'<a href="#{name}">{title}</a>' for name, title in found)
    return f"<nav>{links}</nav>"


def paragraph(text: str) -> str:
    """Compose a paragraph of text in the color of notes."""
    return f'<p class="soft">{escape(text)}</p>'


def folded(title: str, content: str, open_at_first: bool = False) -> str:
    """Compose a part that the reader unfolds."""
    return f"<details{' open' * open_at_first}><summary>{escape(title)}</summary>{content}</details>"


def controls(methods: Mapping[str, int], tasks: Sequence[str], axes: Collection[str]) -> str:
    """Compose the buttons of the curves: x-axis, seeds, bands, environments, and methods with their colors."""
    shown = [name for name in AXES if name in axes]
    buttons = [f'<button type="button" data-axis="{name}">{AXIS_NAMES[name]}</button>' for name in shown]
    buttons.append('<span class="soft">with</span>')
    buttons += ['<button type="button" data-switch="seeds">single seeds</button>']
    buttons += ['<button type="button" data-switch="bands">bands</button>']
    chips = [
        f'<label class="chip"><input type="checkbox" checked data-task="{place}"> {escape(task)}</label>'
        for place, task in enumerate(tasks)
    ]
    entries = [
        f'<button type="button" data-method="{color}">{look.swatch(color)}<span>{escape(method)}</span></button>'
        for method, color in methods.items()
    ]
    if len(methods) > FEW_METHODS:
        buttons += [
            f'<button type="button" data-all="{name}">{name} of the methods</button>' for name in ("all", "none")
        ]
    rows = [f'<div class="row"><span class="soft">over</span>{"".join(buttons)}</div>']
    if len(tasks) > 1:
        rows.append(f'<div class="row methods">{"".join(chips)}</div>')
    rows.append(f'<div class="row methods">{"".join(entries)}</div>')
    return f'<div class="bar" role="group" aria-label="What the curves show">{"".join(rows)}</div>'


def panel(number: int, title: str, below: str, of_task: int | None = None) -> str:
    """Compose the place of a plot, which the script draws, with what stands below it."""
    belongs = "" if of_task is None else f' data-of="{of_task}"'
    nothing = "<noscript>The plot needs JavaScript; the numbers stand below.</noscript>"
    place = f'<div class="plot" id="plot-{number}">{nothing}</div>'
    return f"<section{belongs}><h3>{escape(title)}</h3>{place}{below}</section>"


def panels(places: Sequence[str]) -> str:
    """Compose plots side by side; empty without plots."""
    return f'<div class="panels">{"".join(places)}</div>' if places else ""


def bullets(items: Sequence[tuple[str, bool]]) -> str:
    """Compose a list of sentences, each with a sign of whether the question is decided."""
    lines = [f'<li class="{"told" if told else "untold"}">{escape(text)}</li>' for text, told in items]
    return f"<ul>{''.join(lines)}</ul>" if lines else ""


def hidden_at_first(ranked: Sequence[Sequence[str]]) -> list[str]:
    """Return the methods that curves do not show at first: with many methods, all but the best of each task.

    Args:
        ranked: methods of each task, the best first.
    """
    every = dict.fromkeys(method for methods in ranked for method in methods)
    if len(every) <= FEW_METHODS:
        return []
    each = max(1, SHOWN_METHODS // len(ranked))
    shown = {method for methods in ranked for method in methods[:each]}
    return [method for method in every if method not in shown]


def methods_data(methods: Sequence[str]) -> list[dict[str, str]]:
    """Return names and looks of methods for the script."""
    return [
        {"name": name, "dash": look.dash(place), "marker": look.marker(place, 0, 0)}
        for place, name in enumerate(methods)
    ]
