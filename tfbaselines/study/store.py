"""Files of a study: cells move between directories by atomic renames, and each worker has a heartbeat.

No times of two machines are compared. A worker of this machine is dead when its process is gone; one of another machine
is dead when its heartbeat file has not changed for STALE seconds of the observer's own monotonic clock.
"""

import contextlib
import errno
import functools
import json
import os
import secrets
import shutil
import socket
import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tfbaselines import __version__
from tfbaselines.errors import UsageError, bad_argument
from tfbaselines.files import read_document, write_whole
from tfbaselines.logs.directory import in_use
from tfbaselines.study.cells import Cell, cell_of

CELLS, DESCRIPTION, WORKERS = "cells", "study.json", "workers"
OPEN, RUNNING, DONE, FAILED = STATES = ("open", "running", "done", "failed")
# Separates a cell's name from the worker's in the file of a claim.
BY = "@"
OUTPUT = "output.txt"
LARGEST = 2**20
# Seconds between heartbeats, and seconds without one after which a worker of another machine is dead. Network file
# systems may show a file's time a minute late.
BEAT, STALE = 5.0, 90.0


class Claim(NamedTuple):
    """A cell that a worker has claimed, and the file of the claim."""

    cell: Cell
    path: Path


class Study:
    """A study's directory.

    Attributes:
        directory: path of the study.
        id: identity of the study, which its cells carry too.
    """

    def __init__(self, directory: str | os.PathLike) -> None:
        """Open a study; UsageError for any other directory."""
        self.directory = Path(directory).expanduser()
        self.queue = self.directory / CELLS
        if not self.directory.is_dir():
            raise bad_argument("directory", os.fspath(directory), "the directory of a study: make it by study new")
        try:
            document = read_document(self.queue / DESCRIPTION, LARGEST)
            self.id, self.version = (str(document[name]) for name in ("id", "version"))
        except OSError:
            raise UsageError(
                f"'{directory}' is not a study: it has no {CELLS}/{DESCRIPTION}; study new makes one"
            ) from None
        except (ValueError, TypeError, KeyError) as error:
            raise UsageError(f"'{self.queue / DESCRIPTION}' is damaged: {error}") from None

    @classmethod
    def create(cls, directory: str | os.PathLike, cells: Iterable[Cell] = ()) -> "Study":
        """Make a study, whole or not at all; UsageError for a directory that has one. Other files may be there."""
        queue = Path(directory).expanduser() / CELLS
        if (queue / DESCRIPTION).exists():
            raise UsageError(f"'{directory}' is a study already: study work continues it, or choose another directory")
        queue.parent.mkdir(parents=True, exist_ok=True)
        scratch = queue.with_name(f".{CELLS}.{secrets.token_hex(8)}")
        try:
            for name in (*STATES, WORKERS):
                (scratch / name).mkdir(parents=True)
            own = {"id": secrets.token_hex(8), "version": __version__}
            for cell in cells:
                (scratch / OPEN / cell.name).write_text(_text(cell, own["id"]), encoding="utf-8")
            write_whole(scratch / DESCRIPTION, json.dumps(own))
            os.rename(scratch, queue)
        except OSError as error:
            if queue.exists():
                raise UsageError(f"'{queue}' exists: choose another directory") from None
            raise UsageError(f"'{directory}': {(error.strerror or str(error)).lower()}") from None
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return cls(directory)

    @classmethod
    def opened(cls, directory: str | os.PathLike) -> "Study":
        """Open a study with runs of several versions, or make an empty one."""
        description = Path(directory) / CELLS / DESCRIPTION
        if not description.exists():
            try:
                return cls.create(directory)
            except UsageError:
                # Another process has made it meanwhile.
                if not description.exists():
                    raise
        study = cls(directory)
        if study.version != __version__:
            study.version = __version__
            write_whole(study.queue / DESCRIPTION, json.dumps({"id": study.id, "version": study.version}))
        return study

    def check_version(self) -> None:
        """Raise a UsageError if another version of tfbaselines made the study: its runs might not be comparable."""
        if self.version != __version__:
            raise UsageError(
                f"'{self.directory}' is a study of tfbaselines {self.version}, and this is {__version__}: install that "
                f"version, or write this one into {CELLS}/{DESCRIPTION} if the runs of both may stand in one table"
            )

    def add(self, cells: Iterable[Cell]) -> list[Cell]:
        """Add cells unless the study has one of that name; return those that were added."""
        new = [cell for cell in cells if self.state_of(cell.name) is None]
        for cell in new:
            write_whole(self.queue / OPEN / cell.name, _text(cell, self.id))
        return new

    def put(self, cell: Cell) -> None:
        """Open a cell, new or again, with the arguments that it has now; a cell that runs stays as it is."""
        if self.state_of(cell.name) != RUNNING:
            for state in (DONE, FAILED):
                (self.queue / state / cell.name).unlink(missing_ok=True)
            write_whole(self.queue / OPEN / cell.name, _text(cell, self.id))

    def state_of(self, name: str) -> str | None:
        """Return the state of a cell, None if the study has no such cell."""
        # A cell may move on between two looks, or back.
        return next((state for state in (*STATES, *STATES) if name in self.names(state)), None)

    def names(self, state: str) -> list[str]:
        """List the names of the cells in a state, in their order."""
        return sorted(name.partition(BY)[0] for name in _listed(self.queue / state))

    def cells(self, state: str) -> Iterator[Cell]:
        """Read the cells in a state; damaged ones and those that move meanwhile are left out."""
        for name in sorted(_listed(self.queue / state)):
            with contextlib.suppress(OSError, ValueError):
                yield self.read(self.queue / state / name)

    def read(self, path: Path) -> Cell:
        """Read a cell's file; UsageError if it is damaged or of another study."""
        try:
            document = read_document(path, LARGEST)
            cell = cell_of(document)
        except OSError:
            raise
        except ValueError as error:
            raise UsageError(f"'{path.name.partition(BY)[0]}' is damaged: {error}") from None
        if document.get("study") != self.id:
            raise UsageError(f"'{cell.name}' is a cell of another study, {document.get('study')!r:.40}")
        return cell

    def place(self, cell: Cell) -> Path:
        """Return the log directory of a cell's run."""
        return self.directory / cell.directory

    def reopen(self, cell_name: str, state: str = FAILED) -> bool:
        """Open a cell that failed or is done; return False if it is not in that state."""
        return _moved(self.queue / state / cell_name, self.queue / OPEN / cell_name)


def _text(cell: Cell, study: str) -> str:
    return json.dumps({"study": study, **cell.document()}, indent=1)


def _listed(directory: Path) -> list[str]:
    # Scratch files of a write begin with a dot.
    return [name for name in os.listdir(directory) if not name.startswith(".")]


def _moved(old: Path, new: Path) -> bool:
    """Move a file; return False if it is not there any more."""
    try:
        os.rename(old, new)
    except FileNotFoundError:
        return False
    return True


class Member:
    """A worker's membership in a study: its claims, its heartbeat, and its view of the other workers.

    Use it as a context manager; at its end the worker's claims are open again.

    Args:
        study: the study.
        stale: seconds without a heartbeat after which a worker of another machine is dead.
        only: names of the cells that concern this worker, which claims them in this order; None for all.
    """

    def __init__(self, study: Study, stale: float = STALE, only: Collection[str] | None = None) -> None:
        self.study = study
        self.id = secrets.token_hex(8)
        self._stale = stale
        self._only = None if only is None else {name: place for place, name in enumerate(only)}
        self._file = study.queue / WORKERS / self.id
        self._beaten = time.monotonic()
        self._claims: dict[str, Claim] = {}
        # Last time of each other worker's file, and when it was first seen by this worker's clock.
        self._seen: dict[str, tuple[int, float]] = {}
        self._known: dict[str, dict[str, Any]] = {}
        self._next: list[str] = []

    def __enter__(self) -> "Member":
        write_whole(self._file, json.dumps(_identity()))
        return self

    def __exit__(self, *error: object) -> None:
        for claim in list(self._claims.values()):
            self.release(claim)
        self._file.unlink(missing_ok=True)

    def beat(self) -> list[Claim]:
        """Renew the heartbeat when it is due; return claims that another worker has taken over."""
        if time.monotonic() - self._beaten < BEAT:
            return []
        self._beaten = time.monotonic()
        try:
            os.utime(self._file)
        except FileNotFoundError:
            write_whole(self._file, json.dumps(_identity()))
        lost = [claim for claim in self._claims.values() if not claim.path.exists()]
        for claim in lost:
            del self._claims[claim.cell.name]
        return lost

    def claim(self, avoid: Iterable[str] = ()) -> Claim | None:
        """Claim the next cell that is open or was left by a dead worker; None if there is none now.

        A cell that cannot be read is marked as failed, with the reason in its log directory.

        Args:
            avoid: names of cells that this worker must not claim.
        """
        avoid = set(avoid)
        if not self._next:
            self._next = self._open()[::-1]
        while self._next:
            name = self._next.pop()
            if name not in avoid and (claim := self._take(self.study.queue / OPEN / name, name)):
                return claim
        return self.adopt(avoid)

    def adopt(self, avoid: Collection[str] = ()) -> Claim | None:
        """Claim a cell that was left by a dead worker; None if there is none. For the argument see `claim`."""
        for name, worker in self.others():
            path = self.study.queue / RUNNING / f"{name}{BY}{worker}"
            if name not in avoid and not self.lives(worker) and (claim := self._take(path, name)):
                if worker not in {other for _, other in self.others()}:
                    (self.study.queue / WORKERS / worker).unlink(missing_ok=True)
                return claim
        return None

    def take(self, name: str) -> Claim | None:
        """Claim an open cell by its name; None if it is not open."""
        return self._take(self.study.queue / OPEN / name, name)

    def _take(self, path: Path, name: str) -> Claim | None:
        own = self.study.queue / RUNNING / f"{name}{BY}{self.id}"
        try:
            cell = self.study.read(path)
        except OSError as error:
            # Another worker was faster.
            if error.errno not in (None, errno.ENOENT):
                raise
            return None
        except UsageError as error:
            if _moved(path, self.study.queue / FAILED / name):
                print(f"{name}: failed: {error}", flush=True)
            return None
        # The run of a dead worker may still be saving its checkpoint. A network file system may lose the answer to a
        # rename that it made.
        if in_use(self.study.place(cell)) or (not _moved(path, own) and not own.exists()):
            return None
        claim = Claim(cell, own)
        self._claims[name] = claim
        return claim

    def finish(self, claim: Claim) -> bool:
        """Mark a cell as done; False if another worker has taken it over."""
        return self._end(claim, DONE)

    def fail(self, claim: Claim) -> bool:
        """Mark a cell as failed; False if another worker has taken it over."""
        return self._end(claim, FAILED)

    def release(self, claim: Claim) -> bool:
        """Give a cell back; False if another worker has taken it over."""
        return self._end(claim, OPEN)

    def _end(self, claim: Claim, state: str) -> bool:
        self._claims.pop(claim.cell.name, None)
        return _moved(claim.path, self.study.queue / state / claim.cell.name)

    def others(self) -> list[tuple[str, str]]:
        """List the cells that other workers have claimed, with the workers' ids."""
        pairs = [name.rpartition(BY)[::2] for name in sorted(_listed(self.study.queue / RUNNING))]
        return [(name, worker) for name, worker in pairs if worker != self.id and self._concerns(name)]

    def remaining(self) -> bool:
        """Return True if cells are open, or claimed by other workers, which may die."""
        return bool(self._open() or self.others())

    def _open(self) -> list[str]:
        names = [name for name in self.study.names(OPEN) if self._concerns(name)]
        return names if self._only is None else sorted(names, key=self._only.__getitem__)

    def _concerns(self, name: str) -> bool:
        return self._only is None or name in self._only

    def lives(self, worker: str) -> bool:
        """Judge whether another worker lives, by its process or by changes of its heartbeat."""
        path = self.study.queue / WORKERS / worker
        if worker not in self._known:
            with contextlib.suppress(OSError, ValueError):
                self._known[worker] = read_document(path, LARGEST)
        known, own = self._known.get(worker), _identity()
        if isinstance(known, dict) and known.get("machine") and known["machine"] == own["machine"]:
            process = known.get("process")
            if not _hidden(process):
                return process is not None and process == _process(process)
        beat = _time_of(path)
        now = time.monotonic()
        if worker not in self._seen or self._seen[worker][0] != beat:
            self._seen[worker] = beat, now
        return now - self._seen[worker][1] < self._stale


def _time_of(path: Path) -> int:
    """Return the time of a file; opening it makes network file systems look again."""
    try:
        with open(path, "rb") as file:
            return os.fstat(file.fileno()).st_mtime_ns
    except OSError:
        return 0


def _identity() -> dict[str, Any]:
    return {"machine": _machine(), "process": _process([os.getpid()]), "host": socket.gethostname()}


@functools.cache
def _machine() -> str | None:
    """Identify the running system and its process numbers; None where it has no /proc."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return None


def _hidden(process: Any) -> bool:
    """Return True if a process is another user's: /proc may hide it."""
    try:
        os.kill(int(process[0]), 0)
    except PermissionError:
        return True
    except (OSError, ValueError, TypeError, IndexError, KeyError, OverflowError):
        pass
    return False


def _process(process: Any) -> list[int] | None:
    """Return the number and start time of a process, which no later process has; None if it has ended."""
    try:
        # The name in parentheses may have spaces.
        fields = Path(f"/proc/{int(process[0])}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
    except (OSError, ValueError, TypeError, IndexError, KeyError):
        return None
    state, start = fields.split()[0], int(fields.split()[19])
    return None if state in "ZX" else [int(process[0]), start]
