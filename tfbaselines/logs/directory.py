"""A run's log directory: one writer at a time, what an earlier run left in it, and cutting it back to a checkpoint."""

import contextlib
import os
import shutil
import socket
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from tfbaselines.errors import InUseError, UsageError, bad_argument

try:
    import fcntl
except ImportError:  # Not on Windows, where nothing is locked.
    fcntl = None

LOCK_NAME = ".lock"

# What a run writes, by the names that the command gives: what else lies in the directory is the user's own.
# Tables are cut by rows, since their header may grow; all else only ever grows at its end.
TABLES_OF_A_RUN = ("progress.csv", "progress.txt", "progress.json")
TABLES = ("progress.csv", "progress.txt", "progress-rank[0-9]*.csv", "progress-rank[0-9]*.txt")
LINES = ("log.txt", "log-rank[0-9]*.txt", "progress.json", "progress-rank[0-9]*.json")
STREAMS = (*LINES, "*.monitor.csv")
# TensorBoard's directories, and the files in them, of which every start of a run begins another one.
EVENT_DIRECTORIES, EVENTS = ("tb", "tb-rank[0-9]*"), "events.*"
OWN = (
    *("config.json", "checkpoints", "replay", "videos", "[0-9]*.[0-9]*.monitor.csv"),
    *(*TABLES, *LINES, *EVENT_DIRECTORIES),
)

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
                if _is_there(path, handle):
                    os.unlink(os.path.join(path, LOCK_NAME))
            os.close(handle)


def lock_again(directory: str | os.PathLike) -> None:
    """Lock a directory of this process that was removed meanwhile; ValueError when another run has taken it."""
    path = os.path.realpath(directory)
    if path not in _held:
        return
    handle, count = _held[path]
    if not _is_there(path, handle):
        _held[path] = _lock(path, os.fspath(directory)), count
        os.close(handle)


def _is_there(path: str, handle: int) -> bool:
    """Whether the file of a handle is still the lock file in a directory."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.stat(os.path.join(path, LOCK_NAME)), os.fstat(handle))
    return False


def _lock(path: str, shown: str) -> int:
    """A locked handle of the directory's lock file."""
    name = os.path.join(path, LOCK_NAME)
    while True:
        try:
            os.makedirs(path, exist_ok=True)
            _refuse_links(path, shown)
            # A link that comes in between is not followed either.
            handle = os.open(name, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise bad_argument("log directory", shown, f"a directory that can be written to ({why})") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(handle, 200).decode(errors="replace") or "unknown"
            os.close(handle)
            raise InUseError(f"'{shown}' is in use: another run is writing in it (process {owner})") from None
        except OSError:
            # A file system without locks.
            return handle
        # The run before may have removed the file between these two calls.
        if _is_there(path, handle):
            os.ftruncate(handle, 0)
            os.write(handle, f"{os.getpid()} on {socket.gethostname()}".encode())
            return handle
        os.close(handle)


def _refuse_links(path: str, shown: str) -> None:
    """ValueError when a file that a run would write to is a link: what it points to is not the run's."""
    for pattern in (LOCK_NAME, *TABLES, *STREAMS, *(f"{name}/{EVENTS}" for name in EVENT_DIRECTORIES)):
        for file in Path(path).glob(pattern):
            if file.is_symlink():
                name = file.relative_to(path)
                raise UsageError(f"'{name}' in '{shown}' is a symbolic link, which is not written to: remove it")


def holds_run(directory: str | os.PathLike) -> bool:
    """Whether an earlier run has left something in a directory that a new one would overwrite."""
    here = Path(directory)
    return any(any(here.glob(pattern)) for pattern in ("config.json", "checkpoints/*", *TABLES_OF_A_RUN))


def has_checkpoint(directory: str | os.PathLike) -> bool:
    """Whether there is a run in a directory that can be continued."""
    return holds_checkpoints(directory) and (Path(directory) / "config.json").is_file()


def holds_checkpoints(directory: str | os.PathLike) -> bool:
    """Whether there are checkpoints of some run in a directory."""
    return any(path.name.isdigit() for path in Path(directory).glob("checkpoints/*"))


def clear(directory: str | os.PathLike) -> None:
    """Remove what an earlier run wrote, and nothing else."""
    for path in list(Path(directory).iterdir()):
        if not any(fnmatch(path.name, pattern) for pattern in OWN):
            continue
        # Of a link to another disk only the link is the run's.
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def forget(directory: str | os.PathLike, whole: bool = False) -> None:
    """Take back what a run that could not begin wrote, for the corrected one; nothing where there is more to lose.

    Args:
        directory: the log directory.
        whole: it was made for this run alone, and is removed.
    """
    here = Path(directory)
    tables = [path for path in map(here.joinpath, TABLES_OF_A_RUN) if path.exists()]
    if any(here.glob("checkpoints/*")) or any(path.stat().st_size for path in tables):
        return
    if whole:
        shutil.rmtree(here, ignore_errors=True)
        return
    for path in (*tables, here / "config.json"):
        path.unlink(missing_ok=True)


def positions(directory: str | os.PathLike) -> dict[str, Any]:
    """How much every file of the logs holds now, by name: rows of tables, bytes of the others, those of events."""
    here = Path(directory)
    # A table is empty before its first row, which brings the header.
    tables = {path.name: {"rows": max(0, _line_count(path) - 1)} for pattern in TABLES for path in here.glob(pattern)}
    streams = {path.name: {"bytes": path.stat().st_size} for pattern in STREAMS for path in here.glob(pattern)}
    events = {
        path.name: {"events": {file.name: file.stat().st_size for file in path.glob(EVENTS)}}
        for pattern in EVENT_DIRECTORIES
        for path in here.glob(pattern)
    }
    return tables | streams | events


def cut_back(directory: str | os.PathLike, known: dict[str, Any]) -> None:
    """Drop what the logs gained after `positions` gave `known`; headers stay."""
    here = Path(directory)
    for pattern in TABLES:
        for path in here.glob(pattern):
            # Older versions counted -1 rows of an empty table.
            _keep_lines(path, 1 + max(0, known.get(path.name, {"rows": 0})["rows"]))
    for pattern in STREAMS:
        for path in here.glob(pattern):
            if path.name in known:
                _keep_bytes(path, known[path.name]["bytes"])
            else:
                _keep_lines(path, MONITOR_HEADER if path.name.endswith(".monitor.csv") else 0)
    for pattern in EVENT_DIRECTORIES:
        for path in here.glob(pattern):
            # Older versions did not count events: nothing is known of them then.
            _keep_events(path, known.get(path.name, {}).get("events"))


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


def _keep_bytes(path: Path, count: int) -> None:
    """Cut a file after this many bytes."""
    if path.stat().st_size > count:
        os.truncate(path, count)


def _keep_events(directory: Path, sizes: dict[str, int] | None) -> None:
    """Cut event files to their sizes, and remove those without one; None leaves all as they are."""
    for file in directory.glob(EVENTS) if sizes is not None else ():
        if file.name in sizes:
            _keep_bytes(file, sizes[file.name])
        else:
            file.unlink()
