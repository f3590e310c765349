"""A worker: claims cells of a study and runs each by the ordinary command in a process of its own."""

import contextlib
import errno
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

from tfbaselines.cli.stored import needs_trust
from tfbaselines.errors import UsageError, check_at_least
from tfbaselines.logs.directory import in_use
from tfbaselines.study.cells import EXPERIMENT, Cell
from tfbaselines.study.process import kill, last_error, shared_cores, start, wait_for_end
from tfbaselines.study.store import OPEN, OUTPUT, RUNNING, STALE, Claim, Member, Study
from tfbaselines.training.guards import StopSignals

# Seconds between two looks at the processes, the longest when nothing happens.
SHORTEST, LONGEST = 0.002, 0.1
# A run fails after this many kills without a new checkpoint.
MOST_KILLS = 3
# Bytes that a disk must have room for.
ROOM = 2**16

# A module:name in an argument.
CODE = re.compile(r"\w:[^\W\d]")

Command = Callable[[Cell, Path], list[str]]


def run_command(cell: Cell, directory: Path) -> list[str]:
    """Return the ordinary command of a cell, which continues the run in its log directory."""
    words = [f"--{name}={value}" for name, value in cell.words.items()]
    if EXPERIMENT in cell.words:
        return [sys.executable, "-m", "tfbaselines.compat.experiment_run", *words, f"--log_path={directory}"]
    return [sys.executable, "-m", "tfbaselines.run", *words, "--resume=auto", f"--log_path={directory}"]


def check_trust(study: Study, trust: bool) -> None:
    """Raise a UsageError for cells that name a module to import, unless the user trusts the study."""
    if trust:
        return
    for state in (OPEN, RUNNING):
        for cell in study.cells(state):
            if named := needs_trust(cell.words) or _names_function(cell):
                raise UsageError(
                    f"'{cell.label}' has --{named}={cell.words[named]:.200}, and importing a module runs its code: "
                    "add --trust if you know the study"
                )


def _names_function(cell: Cell) -> str | None:
    """Return the first argument of one of Spinning Up's experiments that names a function to import."""
    return next((name for name, text in cell.words.items() if EXPERIMENT in cell.words and CODE.search(text)), None)


class Guide:
    """Decisions that a caller of `work` may take: further cells, the early end of a run, the end of the work."""

    def over(self) -> bool:
        """Return True to stop the runs and open their cells again."""
        return False

    def fill(self, idle: int) -> None:
        """Add cells to the study when `idle` jobs have nothing to do."""

    def watch(self, cell: Cell, directory: Path) -> bool:
        """Return True to stop a run now; it saves a checkpoint, and its cell is done."""
        return False

    def accepts(self, cell: Cell, status: int) -> bool:
        """Return True if a cell is done although its run ended with this status."""
        return False


def _say(line: str) -> None:
    with contextlib.suppress(OSError):
        print(line, flush=True)


def work(
    study: Study,
    jobs: int = 1,
    command: Command = run_command,
    say: Callable[[str], None] = _say,
    stale: float = STALE,
    only: Collection[str] | None = None,
    guide: Guide | None = None,
    shown: bool = False,
) -> int:
    """Run cells until none is open and no other worker has one; return 0, or 128 + the number of a stop signal.

    A stop signal ends the runs, which save checkpoints, and opens their cells again.

    Args:
        study: the study.
        jobs: number of runs at once, which share the cores.
        command: returns the command of a cell.
        say: takes a line for each cell that ends.
        stale: seconds without a heartbeat after which a worker of another machine is dead.
        only: names of the cells to run, in this order; None for all.
        guide: adds cells and ends runs early; None for neither.
        shown: let the runs write to this process's output, in place of output.txt.
    """
    check_at_least(1, jobs=jobs)
    study.check_version()
    signals = StopSignals()
    signals.catch()
    try:
        with Member(study, stale, only) as member:
            _Worker(member, jobs, command, say, guide, shown).run(signals)
    finally:
        signals.release()
    return 128 + signals.number if signals.number else 0


class _Job(NamedTuple):
    """A run under way, with the size of its output and its checkpoints before it started."""

    claim: Claim
    process: subprocess.Popen
    before: int
    checkpoints: set[str]


class _Worker:
    def __init__(
        self,
        member: Member,
        jobs: int,
        command: Command,
        say: Callable[[str], None],
        guide: Guide | None,
        shown: bool,
    ) -> None:
        self._member = member
        self._study = member.study
        self._jobs = jobs
        self._command = command
        self._say = say
        self._shown = shown
        self._guided = guide is not None
        self._guide = guide or Guide()
        # Names of cells that the guide has stopped.
        self._stopped: set[str] = set()
        self._environment = shared_cores(jobs)
        self._running: list[_Job] = []
        self._kills: Counter[str] = Counter()

    def run(self, signals: StopSignals) -> None:
        """Run cells until none is left, or until a stop signal."""
        pause = SHORTEST
        try:
            while not signals.number and not self._guide.over():
                # Ended runs make room for others.
                moved = self._collect() | (not self._guide.over() and self._fill())
                if not self._running and not self._member.remaining():
                    return
                pause = SHORTEST if moved else min(LONGEST, 1.2 * pause)
                wait_for_end([job.process for job in self._running], pause)
        finally:
            self._stop()

    def _fill(self) -> bool:
        started = False
        # Adopt the cells of dead workers first: a guide adds cells for every idle job.
        while self._guided and len(self._running) < self._jobs and (claim := self._member.adopt()):
            self._start(claim)
            started = True
        if len(self._running) < self._jobs:
            self._guide.fill(self._jobs - len(self._running))
        while len(self._running) < self._jobs and (claim := self._member.claim()):
            self._start(claim)
            started = True
        return started

    def _start(self, claim: Claim) -> None:
        directory = self._study.place(claim.cell)
        directory.mkdir(parents=True, exist_ok=True)
        command, checkpoints = self._command(claim.cell, directory), _checkpoints(directory)
        with contextlib.nullcontext() if self._shown else open(directory / OUTPUT, "ab") as output:
            # The process moves the place in the file too.
            before = 0 if output is None else output.tell()
            process = start(command, output, self._environment)
        self._running.append(_Job(claim, process, before, checkpoints))

    def _collect(self) -> bool:
        """Handle lost claims and ended processes; return True if there were any."""
        lost = {claim.cell.name for claim in self._member.beat()}
        ended = [job for job in self._running if job.claim.cell.name in lost or job.process.poll() is not None]
        for job in ended:
            self._running.remove(job)
            if job.claim.cell.name in lost:
                kill(job.process)
                self._say(f"{job.claim.cell.label}: another worker has taken it over")
            else:
                self._ended(job)
        for job in self._running:
            self._watch(job)
        return bool(ended)

    def _watch(self, job: _Job) -> None:
        cell = job.claim.cell
        if cell.name not in self._stopped and self._guide.watch(cell, self._study.place(cell)):
            self._stopped.add(cell.name)
            job.process.terminate()

    def _ended(self, job: _Job) -> None:
        claim, status = job.claim, job.process.returncode
        cell = claim.cell
        directory = self._study.place(cell)
        if status == 0 or cell.name in self._stopped or self._guide.accepts(cell, status):
            if self._member.finish(claim):
                self._say(f"{cell.label}: done")
            return
        if in_use(directory):
            self._member.release(claim)
            return
        if _full(self._study.queue):
            self._member.release(claim)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._study.directory))
        written = None if self._shown else last_error(directory / OUTPUT, job.before)
        reason = written or f"ended with status {status}"
        if status < 0 or status > 128:
            name = signal.Signals(-status if status < 0 else status - 128).name
            if job.checkpoints != _checkpoints(directory):
                self._kills[cell.name] = 0
            self._kills[cell.name] += 1
            if self._kills[cell.name] < MOST_KILLS:
                self._member.release(claim)
                self._say(f"{cell.label}: ended by {name}, will be resumed")
                return
            reason = f"ended by {name} {MOST_KILLS} times without a new checkpoint"
        if self._member.fail(claim):
            self._say(f"{cell.label}: failed: {reason}")

    def _stop(self) -> None:
        """Stop the runs, which save checkpoints, and mark those that reached their end as done."""
        for job in self._running:
            job.process.terminate()
        try:
            while self._running:
                self._member.beat()
                for job in [job for job in self._running if job.process.poll() is not None]:
                    self._running.remove(job)
                    if job.process.returncode == 0 or job.claim.cell.name in self._stopped:
                        self._member.finish(job.claim)
                time.sleep(SHORTEST)
        finally:
            for job in self._running:
                kill(job.process)


def _checkpoints(directory: Path) -> set[str]:
    return {path.name for path in directory.glob("checkpoints/*")}


def _full(directory: Path) -> bool:
    """Return True if the disk of a directory is full."""
    scratch = directory / f".room-{os.getpid()}"
    try:
        scratch.write_bytes(bytes(ROOM))
    except OSError as error:
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    finally:
        with contextlib.suppress(OSError):
            scratch.unlink(missing_ok=True)
    return False
