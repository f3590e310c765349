"""Pictures as PNG files."""

import os
from typing import Any

from tfbaselines.errors import bad_argument


def save(figure: Any, out: str) -> None:
    """Write a matplotlib figure to the PNG `out`; ValueError where that cannot be written."""
    try:
        os.makedirs(os.path.dirname(out) or ".", exist_ok=True)
        figure.savefig(out, dpi=120, format="png")
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise bad_argument("--out", out, f"a file that can be written ({why})") from None
