"""A run's log directory: one writer at a time, what an earlier run left in it, and cutting it back to a checkpoint."""

import contextlib
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tfbaselines.errors import bad_argument

try:
    import fcntl
except ImportError:  # Not on Windows, where nothing is locked.
    fcntl = None

LOCK_NAME = ".lock"

# What a run writes. Tables are cut by rows, since their header may grow; all else only ever grows at its end.
TABLES = ("progress*.csv", "progress*.txt")
STREAMS = ("log*.txt", "progress*.json", "*.monitor.csv")
OTHERS = ("config.json", "checkpoints", "replay", "tb*", "videos")

# Lines at the head of a monitor file.
MONITOR_HEADER = 2

# Directories locked by this process, with their files and how often.
_held: dict[str, tuple[int, int]] = {}


@contextlib.contextmanager
def locked(directory: str | os.PathLike) -> Iterator[None]:
    """Keep other runs out of a directory; ValueError naming the run that is writing in it.

    A lock ends with its process, however that dies. The same process may lock a directory more than once.
    """
    path = os.path.realpath(directory)
    if fcntl is None:
        yield
        return
    if path not in _held:
        _held[path] = (_lock(path, os.fspath(directory)), 0)
    handle, count = _held[path]
    _held[path] = handle, count + 1
    try:
        yield
    finally:
        handle, count = _held[path]
        _held[path] = handle, count - 1
        if count == 1:
            del _held[path]
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(path, LOCK_NAME))
            os.close(handle)


def _lock(path: str, shown: str) -> int:
    """A locked handle of the directory's lock file."""
    name = os.path.join(path, LOCK_NAME)
    while True:
        try:
            os.makedirs(path, exist_ok=True)
            handle = os.open(name, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise bad_argument("log directory", shown, f"a directory that can be written to ({why})") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(handle, 200).decode(errors="replace") or "unknown"
            os.close(handle)
            raise ValueError(f"'{shown}' is in use: another run is writing in it (process {owner})") from None
        except OSError:
            # A file system without locks.
            return handle
        # The run before may have removed the file between these two calls.
        with contextlib.suppress(FileNotFoundError):
            if os.stat(name).st_ino == os.fstat(handle).st_ino:
                os.ftruncate(handle, 0)
                os.write(handle, f"{os.getpid()} on {socket.gethostname()}".encode())
                return handle
        os.close(handle)


def holds_run(directory: str | os.PathLike) -> bool:
    """Whether an earlier run has left something in a directory that a new one would overwrite."""
    here = Path(directory)
    return any(any(here.glob(pattern)) for pattern in ("config.json", "checkpoints/*", *TABLES))


def has_checkpoint(directory: str | os.PathLike) -> bool:
    """Whether there is a run in a directory that can be continued."""
    here = Path(directory)
    return (here / "config.json").is_file() and any(path.name.isdigit() for path in here.glob("checkpoints/*"))


def clear(directory: str | os.PathLike) -> None:
    """Remove what an earlier run wrote, and nothing else."""
    for pattern in (*TABLES, *STREAMS, *OTHERS):
        for path in Path(directory).glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def positions(directory: str | os.PathLike) -> dict[str, Any]:
    """How much every file of the logs holds now: rows of tables, bytes of the others, by name."""
    here = Path(directory)
    tables = {path.name: {"rows": _line_count(path) - 1} for pattern in TABLES for path in here.glob(pattern)}
    streams = {path.name: {"bytes": path.stat().st_size} for pattern in STREAMS for path in here.glob(pattern)}
    return tables | streams


def cut_back(directory: str | os.PathLike, known: dict[str, Any]) -> None:
    """Drop what the logs gained after `positions` gave `known`; headers stay."""
    here = Path(directory)
    for pattern in TABLES:
        for path in here.glob(pattern):
            _keep_lines(path, 1 + known.get(path.name, {"rows": 0})["rows"])
    for pattern in STREAMS:
        for path in here.glob(pattern):
            if path.name in known:
                if path.stat().st_size > known[path.name]["bytes"]:
                    os.truncate(path, known[path.name]["bytes"])
            else:
                _keep_lines(path, MONITOR_HEADER if path.name.endswith(".monitor.csv") else 0)


def _line_count(path: Path) -> int:
    with open(path, "rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))


def _keep_lines(path: Path, count: int) -> None:
    """Cut a file after this many lines."""
    with open(path, "rb+") as file:
        for _ in range(count):
            if not file.readline():
                return
        file.truncate(file.tell())
