"""Trials as cells of a study: one cell for each seed, added when the seeds before it leave the trial in the race.

Nothing is kept in memory alone. A step of a trial (its next seed, or its end) follows from the journal and from the
states of its cells, and one process at a time takes it; a killed worker is replaced by any other one.
"""

import contextlib
import math
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from tfbaselines.errors import UsageError
from tfbaselines.logs.formats import STEPS
from tfbaselines.plot.readers import PROGRESS, read_progress
from tfbaselines.search.board import REASON, SCORES, WORDS, Board
from tfbaselines.search.race import surely_worse
from tfbaselines.search.settings import LAST
from tfbaselines.study.cells import Cell
from tfbaselines.study.process import last_error
from tfbaselines.study.store import DONE, FAILED, OPEN, OUTPUT, Study
from tfbaselines.study.worker import Command, Guide, work

TRIALS = "trials"
# Column of --evaluate_every; training/callbacks.py, which names it, loads TensorFlow.
RETURN = "evaluation/return"
# Exit status of a run with a number that is not finite.
NOT_FINITE = 3
# Seconds between two looks at the trials, and at a run's evaluations.
SECONDS = 1.0
# After this many seconds without output, a line reports that the search is still running.
QUIET = 600.0
# The search ends with an error after this many failed trials, unless a trial is finished.
MOST_FAILURES = 3
PRUNED, RACED, DIVERGED = "pruned in its first run", "lost the race", "a number was not finite"


def cell_of(number: int, seed: int, words: dict[str, str]) -> Cell:
    """Return the cell of a trial's seed."""
    name = f"{number:05d}-s{seed}"
    return Cell(name, f"{number:05d}", f"{TRIALS}/{name}", words)


def evaluations(directory: Path, every: int) -> dict[int, float]:
    """Read the mean returns of a run's evaluations, by their numbers from 1; the log may be growing."""
    try:
        rows = read_progress(str(directory), os.listdir(directory))
    except (OSError, ValueError):
        return {}
    steps = None if rows is None else next((column for column in STEPS if column in rows), None)
    if steps is None or RETURN not in rows:
        return {}
    pairs = zip(rows[steps].tolist(), rows[RETURN].tolist(), strict=True)
    # Rows before the first evaluation have none, and a row that is being written may have texts.
    pairs = [pair for pair in pairs if all(isinstance(one, int | float) and math.isfinite(one) for one in pair)]
    return {int(step // every): float(value) for step, value in pairs if step >= every}


def score_of(values: dict[int, float]) -> float:
    """Return the score of a run: the mean return of the evaluations in the last fifth of training."""
    last = max(values)
    return fmean(value for number, value in values.items() if number > LAST * last or number == last)


class Progress(NamedTuple):
    """Counts of a search's trials.

    Attributes:
        ended: trials that ended.
        running: trials under way.
        best: number and score of the best trial; None before the first is finished.
        failed: trials that could not be run.
    """

    ended: int
    running: int
    best: tuple[int, float] | None
    failed: int


class Trials(Guide):
    """Add the cells of trials, watch their runs, and end trials.

    Attributes:
        study: the cells.
        board: the trials.
        settings: the search's settings.

    Args:
        study, board: see the attributes.
        wanted: number of trials.
        end: time.monotonic() at which the runs are stopped; None for no end.
        say: takes a line for each trial that ends.
    """

    def __init__(
        self,
        study: Study,
        board: Board,
        wanted: int,
        end: float | None = None,
        say: Callable[[str], None] = print,
    ) -> None:
        self.study = study
        self.board = board
        self.settings = board.settings
        self._wanted = wanted
        self._end = end
        self._say = say
        # Cells that had ended at the last look at the trials, and its time.
        self._done, self._looked = 0, -math.inf
        self._began = time.monotonic()
        self._at_start = self.progress().ended
        self._said = self._began
        # Size of each run's log, and time of the last look at it.
        self._seen: dict[str, tuple[int, float]] = {}
        # Reasons of failed runs by their cells.
        self._heard: dict[str, str] = {}

    def over(self) -> bool:
        """Return True if the time is over."""
        return self._end is not None and time.monotonic() >= self._end

    def fill(self, idle: int) -> None:
        """Take the next step of every trial, and begin new trials for idle jobs."""
        done = len(self.study.names(DONE)) + len(self.study.names(FAILED))
        if done == self._done and time.monotonic() - self._looked < SECONDS:
            return
        with self.board.alone():
            for trial in self.board.trials("RUNNING"):
                self._advance(trial)
            self._check_failures()
            # Cells that nobody runs yet are for the idle jobs too.
            for _ in range(idle - len(self.study.names(OPEN))):
                if len(self.board.trials()) - self._waste() >= self._wanted:
                    break
                number = self.board.ask(first=not self.board.trials())
                self._add(number, 0, self.board.trials()[number].user_attrs[WORDS])
        self._done, self._looked = done, time.monotonic()

    def finished(self) -> bool:
        """Return True if every trial has ended, or the time is over."""
        return self.over() or self.progress().ended >= self._wanted

    def _waste(self) -> int:
        """Count trials that a kill ended before they had arguments, and a trial that is enqueued."""
        trials = self.board.trials("FAIL", "WAITING")
        return sum(not trial.user_attrs.get(WORDS) for trial in trials)

    def _add(self, number: int, index: int, found: dict[str, str]) -> None:
        seed = self.settings.seed + index
        self.study.add([cell_of(number, seed, self.settings.run(found, seed))])

    def _advance(self, trial: Any) -> None:
        """Take the next step of a running trial: a seed, or its end."""
        number, found = trial.number, trial.user_attrs.get(WORDS)
        if found is None:
            self.board.fail(number, "killed before it had arguments")
            return
        scores: list[float] = []
        for index in range(self.settings.seeds):
            cell = cell_of(number, self.settings.seed + index, {})
            state = self.study.state_of(cell.name)
            directory = self.study.place(cell)
            if state is None:
                if self._loses(scores):
                    self._end_early(trial, scores, RACED)
                else:
                    self._add(number, index, found)
                return
            if state == FAILED:
                reason = self._heard.get(cell.name) or last_error(directory / OUTPUT)
                self._fail(number, reason or "its run was killed too often")
                return
            if state != DONE:
                return
            if trial.user_attrs.get(REASON):
                self._end_early(trial, scores, trial.user_attrs[REASON])
                return
            values = evaluations(directory, self.settings.every)
            if not values:
                self._fail(number, "a run ended before its first evaluation")
                return
            scores.append(score_of(values))
            if index == 0:
                self.board.report(number, values)
        self.board.finish(number, scores)
        self._tell(number, f"{fmean(scores):.4g}, mean of {len(scores)} seeds")

    def _loses(self, scores: list[float]) -> bool:
        best = self.board.best()
        if not scores or best is None:
            return False
        finished = [trial.user_attrs[SCORES] for trial in self.board.trials("COMPLETE")]
        return surely_worse(scores, best.user_attrs[SCORES], finished)

    def _end_early(self, trial: Any, scores: list[float], reason: str) -> None:
        self.board.end_early(trial.number, scores, reason)
        seeds = f" with {fmean(scores):.4g} after {len(scores)} seeds" if scores else ""
        self._tell(trial.number, reason + seeds)

    def _fail(self, number: int, reason: str) -> None:
        self.board.fail(number, reason)
        self._tell(number, f"failed: {reason}")

    def _check_failures(self) -> None:
        failed = [trial for trial in self.board.trials("FAIL") if trial.user_attrs.get(WORDS)]
        if len(failed) >= MOST_FAILURES and not self.board.trials("COMPLETE", "PRUNED"):
            raise UsageError(
                f"{len(failed)} trials failed and none is finished; the last: {failed[-1].user_attrs[REASON]}"
            )

    def progress(self) -> Progress:
        """Count the trials."""
        best, failed = self.board.best(), self.board.trials("FAIL")
        failures = sum(bool(trial.user_attrs.get(WORDS)) for trial in failed)
        ended = len(self.board.trials("COMPLETE", "PRUNED")) + failures
        return Progress(ended, len(self.board.trials("RUNNING")), best and (best.number, best.value), failures)

    def _tell(self, number: int, what: str) -> None:
        _drop_replays(self.study, [cell_of(number, self.settings.seed + k, {}) for k in range(self.settings.seeds)])
        self._say_all(f"trial {number}: {what}; ")

    def _say_all(self, what: str) -> None:
        now = self.progress()
        best = "" if now.best is None else f"best {now.best[1]:.4g} (trial {now.best[0]}); "
        self._say(f"{what}{best}{now.ended}/{self._wanted} done{self._left(now.ended)}")
        self._said = time.monotonic()

    def _left(self, ended: int) -> str:
        seconds = time.monotonic() - self._began
        left = seconds / max(1, ended - self._at_start) * (self._wanted - ended)
        if self._end is not None:
            left = min(left, max(0.0, self._end - time.monotonic()))
        return f", about {in_time(left)} left" if ended < self._wanted else ""

    def hear(self, line: str) -> None:
        """Take a worker's line; keep the reason of a run that failed."""
        name, failed, reason = line.partition(": failed: ")
        # The line has the last part of the log directory, which is the cell's name here.
        if failed:
            self._heard[name] = reason

    def watch(self, cell: Cell, directory: Path) -> bool:
        """Report the evaluations of a trial's first run; return True to end the run."""
        if time.monotonic() - self._said > QUIET:
            self._say_all(f"{self.progress().running} running; ")
        number, seed = int(cell.group), int(cell.words["seed"])
        if seed != self.settings.seed or not self._has_grown(cell.name, directory):
            return False
        if self.board.trials()[number].user_attrs.get(REASON):
            # A worker that was killed had decided it.
            return True
        values = evaluations(directory, self.settings.every)
        if max(values, default=0) >= self.settings.evaluations or not self.board.report(number, values):
            return False
        self.board.note(number, REASON, f"{PRUNED} at evaluation {max(values)} of {self.settings.evaluations}")
        return True

    def _has_grown(self, name: str, directory: Path) -> bool:
        size, looked = self._seen.get(name, (0, -math.inf))
        if time.monotonic() - looked < SECONDS:
            return False
        now = sum((directory / log).stat().st_size for log in PROGRESS if (directory / log).is_file())
        self._seen[name] = now, time.monotonic()
        return now != size

    def accepts(self, cell: Cell, status: int) -> bool:
        """Return True if a run ended because a number was not finite: such a trial is bad, not broken."""
        if status == NOT_FINITE:
            self.board.note(int(cell.group), REASON, DIVERGED)
        return status == NOT_FINITE


def trained(board: Board, name: str, cells: list[Cell], jobs: int, command: Command) -> Study | int:
    """Run cells that follow the trials; return their study, in a directory of this name, or a stop signal's status."""
    with board.alone():
        with contextlib.suppress(UsageError):
            Study.create(board.directory / name)
        study = Study(board.directory / name)
        study.add(cells)
    if status := work(study, jobs, command, say=lambda line: None):
        return status
    _drop_replays(study, cells)
    return study


def _drop_replays(study: Study, cells: list[Cell]) -> None:
    """Remove the replays of off-policy runs, which would fill the disk."""
    for cell in cells:
        shutil.rmtree(study.place(cell) / "replay", ignore_errors=True)


def in_time(seconds: float) -> str:
    """Format a duration, such as 1 h 05 min."""
    minutes = round(seconds / 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    return f"{minutes} min" if minutes else f"{seconds:.0f} s"
