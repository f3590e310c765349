"""Write files and directories that a crash cannot leave half-written."""

import os
import shutil
import tempfile
from pathlib import Path

from tfbaselines.errors import bad_argument


def write_whole(path: str | os.PathLike, text: str) -> None:
    """Write `text` to `path`; readers, also after a crash, find the old file or the new one."""
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
    """Raise a UsageError now for a path that cannot be written to later; make its directory.

    Args:
        name: name of the argument, for the error.
        path: path of a file.
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
        raise bad_argument(name, path, "a directory, give the name of a file")


def replace_directory(directory: str | os.PathLike, new: str | os.PathLike) -> None:
    """Replace a directory by another one; `put_back` repairs the state after a crash.

    Args:
        directory: the directory to replace, if it exists, in the same file system.
        new: the complete new directory.
    """
    directory = Path(directory)
    aside = _aside(directory)
    if directory.exists():
        shutil.rmtree(aside, ignore_errors=True)
        directory.rename(aside)
    os.rename(new, directory)
    shutil.rmtree(aside, ignore_errors=True)


def put_back(directory: str | os.PathLike) -> None:
    """Restore the old directory if a crash interrupted `replace_directory` before the new one was in place."""
    directory = Path(directory)
    if not directory.exists() and _aside(directory).exists():
        _aside(directory).rename(directory)


def _aside(directory: Path) -> Path:
    return directory.with_name(f".{directory.name}.old")


def drop_torn_line(path: str | os.PathLike) -> None:
    """Cut off a last line without newline, which a crash during a write leaves.

    Call this before a file is continued; otherwise the next row joins the torn one and both are lost. A missing file
    stays missing.
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
