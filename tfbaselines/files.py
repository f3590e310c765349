"""Files that a crash cannot leave half-written: shared by the logger, the monitor and whoever writes text."""

import os
import shutil
import tempfile
from pathlib import Path

from tfbaselines.errors import bad_argument


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


def check_can_be_written(name: str, path: str) -> None:
    """Refuse a path that could not be written to after hours of work; its directory is made.

    Args:
        name: of the argument, for the error.
        path: of a file.
    """
    target = Path(path).expanduser()
    try:
        taken = target.is_dir()
        target.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=target.parent).close()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise bad_argument(name, path, f"cannot write in '{target.parent!s:.200}' ({why})") from None
    if taken:
        raise bad_argument(name, path, "the name of a file, and this is a directory")


def replace_directory(directory: str | os.PathLike, new: str | os.PathLike) -> None:
    """Put the directory `new` in the place of `directory`, if there is one; `put_back` mends what a crash leaves.

    Args:
        directory: the place, in the same file system.
        new: what goes there, complete.
    """
    directory = Path(directory)
    aside = _aside(directory)
    if directory.exists():
        shutil.rmtree(aside, ignore_errors=True)
        directory.rename(aside)
    os.rename(new, directory)
    shutil.rmtree(aside, ignore_errors=True)


def put_back(directory: str | os.PathLike) -> None:
    """Bring back what `replace_directory` had put aside, when a crash came before the new one was in its place."""
    directory = Path(directory)
    if not directory.exists() and _aside(directory).exists():
        _aside(directory).rename(directory)


def _aside(directory: Path) -> Path:
    return directory.with_name(f".{directory.name}.old")


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
