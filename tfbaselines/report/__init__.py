"""Reports: one HTML file about many runs, that needs no network. The command is `python -m tfbaselines.report`."""

import os
from collections.abc import Sequence
from pathlib import Path

NAME = "report.html"


def build(
    dirs: Sequence[str | os.PathLike],
    out: str | os.PathLike | None = None,
    title: str = "",
    refresh: float | None = None,
) -> Path:
    """Write a report about the runs in and below some directories; return the path of the file.

    Args:
        dirs: log directories, directories above them, or prefixes of several.
        out: path of the HTML file; None for report.html in the first directory.
        title: title of the page; by default the directories' names.
        refresh: seconds after which an open page loads itself again, for runs that go on. The page is then written
            without runs, too.
    """
    from tfbaselines.report.assembly import write

    return write([os.fspath(one) for one in dirs], None if out is None else os.fspath(out), title, refresh)
