"""Videos of runs in the page: small ones inside of it, others as links."""

import base64
import os
from collections.abc import Sequence
from html import escape
from pathlib import Path
from urllib.parse import quote

from tfbaselines.files import MIB, in_units, open_regular
from tfbaselines.report.measured import VIDEOS, Measured

# Bytes of a video that is put into the page, and of all of them.
LARGEST, ALL = 2 * MIB, 12 * MIB


def gallery(runs: Sequence[Measured], out: str) -> tuple[str, str]:
    """Compose the latest video of each run, and the sentence about sizes.

    Args:
        runs: runs.
        out: path of the page, to which links are relative.

    Returns:
        (HTML of the videos, text of the sentence); empty without videos.
    """
    figures, left, linked = [], ALL, 0
    for run in runs:
        for video in run.videos[-1:]:
            size = video.stat().st_size
            inside = size <= min(LARGEST, left)
            left -= size if inside else 0
            linked += not inside
            source = _embedded(video) if inside else _relative(video, out)
            figures.append(_figure(run, source, video, inside))
    if not figures:
        return "", ""
    limits = f"up to {in_units(LARGEST)} each and {in_units(ALL)} together"
    words = f"The latest video of each run; videos {limits} are part of this file"
    words += f", {linked} larger one(s) are links to files beside it." if linked else "."
    return f'<div class="videos">{"".join(figures)}</div>', words


def _figure(run: Measured, source: str, video: Path, inside: bool) -> str:
    name = f"{run.run.label}, {run.run.env}, {run.name}: {video.name}"
    caption = f"<figcaption>{escape(name)}</figcaption>"
    if inside:
        return f'<figure><video controls preload="none" src="{source}"></video>{caption}</figure>'
    return f'<figure><a href="{escape(source)}">{escape(video.name)}</a>{caption}</figure>'


def _embedded(video: Path) -> str:
    with open_regular(video) as file:
        content = file.read(int(LARGEST))
    return f"data:{VIDEOS[video.suffix.lower()]};base64,{base64.b64encode(content).decode()}"


def _relative(video: Path, out: str) -> str:
    """Return a link relative to the page; the dot keeps a name from being read as another scheme."""
    return quote("./" + os.path.relpath(video, os.path.dirname(os.path.abspath(out))).replace(os.sep, "/"))
