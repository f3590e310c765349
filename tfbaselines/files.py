"""Files that a crash cannot leave half-written: shared by the logger, the monitor and whoever writes text."""

import os
from pathlib import Path


def write_whole(path: str | os.PathLike, text: str) -> None:
    """Write `text` to `path` so that a reader, or a crash, meets either the old file or the new one."""
    path = Path(path)
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(scratch, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)


def drop_torn_line(path: str | os.PathLike) -> None:
    """Cut off a last line without its newline, what a crash in the middle of a write leaves behind.

    Only called before a file is continued: the next row would otherwise be glued to the torn one and
    both be lost. A missing file is left missing.
    """
    if not os.path.isfile(path):
        return
    with open(path, "rb+") as file:
        content_end = file.seek(0, os.SEEK_END)
        end = content_end
        while end > 0:
            start = max(0, end - 4096)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        if end < content_end:
            file.truncate(end)
