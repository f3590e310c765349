"""A run's log directory: its lock, the files of an earlier run, and their truncation to a checkpoint."""

import contextlib
import os
import shlex
import shutil
import socket
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from tfbaselines.errors import InUseError, UsageError, bad_argument
from tfbaselines.files import DIRECTORY, special

try:
    import fcntl
except ImportError:  # Windows has no fcntl: directories are not locked there.
    fcntl = None
try:
    import pwd
except ImportError:  # Windows has no pwd: files have no users there.
    pwd = None

LOCK_NAME = ".lock"

# Names of the files that a run writes; every other file in the directory belongs to the user.
# Tables are truncated by rows, since their header may grow; the other files only grow at their end.
TABLES_OF_A_RUN = ("progress.csv", "progress.txt", "progress.json")
TABLES = ("progress.csv", "progress.txt", "progress-rank[0-9]*.csv", "progress-rank[0-9]*.txt")
LINES = ("log.txt", "log-rank[0-9]*.txt", "progress.json", "progress-rank[0-9]*.json")
STREAMS = (*LINES, "*.monitor.csv")
# TensorBoard's directories, and the event files in them; every start of a run makes a new event file.
EVENT_DIRECTORIES, EVENTS = ("tb", "tb-rank[0-9]*"), "events.*"
OWN = (
    *("config.json", "checkpoints", "replay", "videos", "[0-9]*.[0-9]*.monitor.csv"),
    *(*TABLES, *LINES, *EVENT_DIRECTORIES),
)

# Header lines of a monitor file.
MONITOR_HEADER = 2

# Directories locked by this process: file descriptor of the lock, and number of holders.
_held: dict[str, tuple[int, int]] = {}


@contextlib.contextmanager
def locked(directory: str | os.PathLike) -> Iterator[None]:
    """Lock a directory against other runs; the error for a locked one names the run that holds it.

    The operating system drops the lock when the process ends. A process may lock a directory more than once.
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
    """Lock a directory of this process again if it was removed; raise an error if another run has locked it."""
    path = os.path.realpath(directory)
    if path not in _held:
        return
    handle, count = _held[path]
    if not _is_there(path, handle):
        _held[path] = _lock(path, os.fspath(directory)), count
        os.close(handle)


def _is_there(path: str, handle: int) -> bool:
    """Check that a descriptor still belongs to the lock file in a directory."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.stat(os.path.join(path, LOCK_NAME)), os.fstat(handle))
    return False


def _lock(path: str, shown: str) -> int:
    name = os.path.join(path, LOCK_NAME)
    while True:
        try:
            os.makedirs(path, exist_ok=True)
            _refuse_special_files(path, shown)
            # O_NOFOLLOW: a link made between the check and this line is not followed.
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
        # The previous run may have removed the file between open and flock.
        if _is_there(path, handle):
            os.ftruncate(handle, 0)
            os.write(handle, f"{os.getpid()} on {socket.gethostname()}".encode())
            return handle
        os.close(handle)


def in_use(directory: str | os.PathLike) -> bool:
    """Return True if a run of another process is writing in a directory."""
    if fcntl is None:
        return False
    try:
        handle = os.open(os.path.join(directory, LOCK_NAME), os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(handle)
    return False


def _refuse_special_files(path: str, shown: str) -> None:
    """Refuse links, pipes and devices in place of the run's files: other programs own them, and a pipe blocks."""
    events = (f"{name}/{EVENTS}" for name in EVENT_DIRECTORIES)
    for file in _found(path, LOCK_NAME, *OWN, *STREAMS, "replay/*", *events):
        kind = special(file)
        if kind and kind != DIRECTORY:
            name = file.relative_to(path)
            raise UsageError(f"'{name}' in '{shown}' is {kind}, which is not written to: remove it")


def _found(directory: str | os.PathLike, *patterns: str) -> Iterator[Path]:
    """Iterate over the files and directories of any of the patterns."""
    return (path for pattern in patterns for path in Path(directory).glob(pattern))


def holds_run(directory: str | os.PathLike) -> bool:
    """Return True if a directory has files of an earlier run that a new one would overwrite."""
    return any(_found(directory, "config.json", "checkpoints/*", *TABLES_OF_A_RUN))


def make_room(directory: str | os.PathLike, overwrite: bool) -> None:
    """Remove the files of an earlier run if `overwrite` is true, else refuse a directory that has any."""
    # Other files belong to the user.
    if holds_run(directory):
        if not overwrite:
            again = f"--resume={shlex.quote(os.fspath(directory))}"
            raise UsageError(
                f"'{directory}' holds a run: continue it with {again}, or give --overwrite (docs/howto/resume.md)"
            )
        clear(directory)


def has_checkpoint(directory: str | os.PathLike) -> bool:
    """Return True if a directory has a run that can be resumed."""
    return holds_checkpoints(directory) and (Path(directory) / "config.json").is_file()


def holds_checkpoints(directory: str | os.PathLike) -> bool:
    """Return True if a directory has checkpoints."""
    return any(path.name.isdigit() for path in Path(directory).glob("checkpoints/*"))


def clear(directory: str | os.PathLike) -> None:
    """Remove the files of an earlier run, and no others."""
    for path in list(Path(directory).iterdir()):
        if not any(fnmatch(path.name, pattern) for pattern in OWN):
            continue
        # A link to another disk: remove the link, keep its target.
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def forget(directory: str | os.PathLike, whole: bool = False) -> None:
    """Remove the files of a run that failed to start; keep everything if it has checkpoints or rows.

    Args:
        whole: remove the directory, which was made for this run.
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
    """Measure every log file, by name: rows of a table, bytes of a stream, bytes of each event file."""
    # A table is empty before its first row, which brings the header.
    tables = {path.name: {"rows": max(0, _line_count(path) - 1)} for path in _found(directory, *TABLES)}
    streams = {path.name: {"bytes": path.stat().st_size} for path in _found(directory, *STREAMS)}
    events = {
        path.name: {"events": {file.name: file.stat().st_size for file in path.glob(EVENTS)}}
        for path in _found(directory, *EVENT_DIRECTORIES)
    }
    return tables | streams | events


def cut_back(directory: str | os.PathLike, known: dict[str, Any]) -> None:
    """Truncate the logs to `known`, an earlier result of `positions`; keep the headers."""
    for path in _found(directory, *TABLES):
        _keep_lines(path, 1 + known.get(path.name, {"rows": 0})["rows"])
    for path in _found(directory, *STREAMS):
        if path.name in known:
            _keep_bytes(path, known[path.name]["bytes"])
        else:
            _keep_lines(path, MONITOR_HEADER if path.name.endswith(".monitor.csv") else 0)
    for path in _found(directory, *EVENT_DIRECTORIES):
        _keep_events(path, known.get(path.name, {}).get("events"))


def _line_count(path: Path) -> int:
    with open(path, "rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))


def _keep_lines(path: Path, count: int) -> None:
    with open(path, "rb+") as file:
        for _ in range(count):
            if not file.readline():
                return
        file.truncate(file.tell())


def _keep_bytes(path: Path, count: int) -> None:
    if path.stat().st_size > count:
        os.truncate(path, count)


def _keep_events(directory: Path, sizes: dict[str, int] | None) -> None:
    """Truncate event files to their sizes, and remove files without a size."""
    for file in directory.glob(EVENTS) if sizes is not None else ():
        if file.name in sizes:
            _keep_bytes(file, sizes[file.name])
        else:
            file.unlink()


def other_owner(path: str | os.PathLike) -> str | None:
    """Return the user that a file belongs to; None if it is this process's user, or where files have no users."""
    try:
        owner = os.stat(path).st_uid
        if owner == os.geteuid():
            return None
        return pwd.getpwuid(owner).pw_name
    except KeyError:
        return str(owner)
    except (OSError, AttributeError):
        return None
