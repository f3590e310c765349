"""Spinning Up's experiments carried out by a worker of the study in DATA_DIR, with what a terminal shows of them."""

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from tfbaselines.errors import InUseError, complain, printable
from tfbaselines.study import status
from tfbaselines.study.cells import Cell
from tfbaselines.study.store import DONE, FAILED, RUNNING, STATES, Member, Study
from tfbaselines.study.worker import Guide, run_command, work

# Seconds between two tables, and share of the time that they may take.
EVERY, SHARE = 2.0, 0.1


def carry_out(cells: Iterable[Cell], data_dir: str, jobs: int) -> None:
    """Run the cells that are not done, in their order.

    One run at a time writes to this terminal; several write to files, and the terminal shows a table of them.

    Raises:
        RuntimeError: a run failed; the others have saved checkpoints and are open.
        KeyboardInterrupt, SystemExit: after a stop signal, once the runs have saved checkpoints.
    """
    study = Study.opened(Path(data_dir).expanduser())
    wanted = {cell.name: cell for cell in cells}
    left = _open(study, wanted)
    _name_finished(study, [cell for name, cell in wanted.items() if name not in left], len(wanted))
    jobs = min(jobs, len(left))
    if not left:
        return
    terminal = Terminal(study, list(wanted), len(left), jobs)
    ended = work(
        study, jobs, terminal.command, say=terminal.hear, only=list(left), guide=terminal, shown=not terminal.several
    )
    terminal.clear()
    if ended:
        done = len(wanted.keys() & set(study.names(DONE)))
        print(f"stopped: {done} of {len(wanted)} runs are done, and the same command continues the others", flush=True)
        if ended == 128 + signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(ended)
    failed = set(study.names(FAILED))
    for name, cell in left.items():
        if name in failed:
            exit_status = terminal.statuses.get(name, "unknown")
            raise RuntimeError(
                f"experiment '{cell.group}' with seed {cell.words['seed']} failed with status {exit_status}"
            )


def _open(study: Study, wanted: Mapping[str, Cell]) -> dict[str, Cell]:
    """Open cells that are new, have failed or have other arguments than before; return all that are not done."""
    known = _known(study)
    differing = [name for name, cell in wanted.items() if name in known and known[name][1] != cell]
    if any(known[name][0] == RUNNING for name in differing):
        with Member(study, only=differing) as member:
            # What dead workers left is open again at the end of this block.
            while member.adopt():
                pass
        known = _known(study)
    left = {}
    for name, cell in wanted.items():
        state, before = known.get(name, (None, cell))
        if state == RUNNING and before != cell:
            raise InUseError(f"'{study.place(cell)}' is in use: another process runs it with other arguments")
        if state == DONE and before == cell and study.place(cell).is_dir():
            continue
        left[name] = cell
        if state == RUNNING and not (worker := status.worker_of(study, cell)).endswith(")"):
            print(f"{cell.label}: runs already, started by {worker}", flush=True)
        if state in (None, DONE, FAILED) or before != cell:
            study.put(cell)
    return left


def _known(study: Study) -> dict[str, tuple[str, Cell]]:
    return {cell.name: (state, cell) for state in STATES for cell in study.cells(state)}


def _name_finished(study: Study, finished: Sequence[Cell], total: int) -> None:
    if finished:
        runs = "the run is" if total == 1 else f"{len(finished)} of {total} runs are"
        place = study.place(finished[0])
        print(f"{runs} done already with the same arguments: remove a directory as {place} to train anew", flush=True)


class Terminal(Guide):
    """The lines and the table of a grid's runs; a run that fails ends the others.

    Attributes:
        several: several runs at once, which do not write to the terminal.
        statuses: exit statuses of runs that failed, by their cells.

    Args:
        study: the study.
        names: cells of the grid.
        left: number of cells that are not done.
        jobs: runs at once.
    """

    def __init__(self, study: Study, names: Sequence[str], left: int, jobs: int) -> None:
        self.several = jobs > 1
        self.statuses: dict[str, int] = {}
        self._study = study
        self._names = names
        self._left = left
        self._jobs = jobs
        self._failed = False
        self._started: dict[str, float] = {}
        self._seconds: list[float] = []
        # Lines of the table on the screen, and the time of the next one.
        self._lines = 0
        self._due = time.monotonic() + EVERY

    def command(self, cell: Cell, directory: Path) -> list[str]:
        """Return the command of a cell, which begins now."""
        self._started[cell.label] = time.monotonic()
        self._say(f"running {cell.group}, seed {cell.words['seed']}")
        return run_command(cell, directory)

    def over(self) -> bool:
        return self._failed

    def accepts(self, cell: Cell, status: int) -> bool:
        self.statuses[cell.name] = status
        return False

    def watch(self, cell: Cell, directory: Path) -> bool:
        if self.several and sys.stdout.isatty() and time.monotonic() >= self._due:
            began = time.monotonic()
            self._draw(status.text(self._study, self._names).splitlines())
            self._due = time.monotonic() + max(EVERY, (time.monotonic() - began) / SHARE)
        return False

    def hear(self, line: str) -> None:
        """Take a worker's line about a run that ended."""
        _, failed, reason = line.partition(": failed: ")
        if failed:
            self._failed = True
            if self.several:
                self.clear()
                complain(reason)
        elif line.endswith(": done"):
            self._left -= 1
            self._seconds.append(time.monotonic() - self._started[line.removesuffix(": done")])
            if len(self._names) > 1:
                self._say(f"{line}; {self._progress()}")
        else:
            self._say(line)

    def _progress(self) -> str:
        done = f"{len(self._names) - self._left} of {len(self._names)} runs done"
        # The last runs of several jobs do not share their time.
        seconds = fmean(self._seconds) * max(1.0, self._left / self._jobs)
        return f"{done}, about {status.duration(seconds)} left" if self._left else done

    def _say(self, line: str) -> None:
        self.clear()
        with contextlib.suppress(OSError):
            print(printable(line), flush=True)

    def clear(self) -> None:
        """Remove the table from the screen."""
        self._draw([])

    def _draw(self, lines: Sequence[str]) -> None:
        size = shutil.get_terminal_size()
        shown = [line[: size.columns - 1] for line in lines[: size.lines - 1]]
        back = f"\033[{self._lines}F\033[J" if self._lines else ""
        if back or shown:
            with contextlib.suppress(OSError):
                print(back, *(f"{line}{os.linesep}" for line in shown), sep="", end="", flush=True)
        self._lines = len(shown)
