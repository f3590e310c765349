"""The state of a study in a terminal: progress, rates, latest returns, time left."""

import glob
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

from tfbaselines.errors import printable
from tfbaselines.files import read_document
from tfbaselines.study.cells import Cell
from tfbaselines.study.measures import Measured, measure, total_steps
from tfbaselines.study.process import last_error
from tfbaselines.study.store import BY, DONE, FAILED, LARGEST, OPEN, OUTPUT, RUNNING, STATES, WORKERS, Member, Study

# Seconds between two views of `--watch`.
EVERY = 2.0
CLEAR = "\033[H\033[J"


class Running(NamedTuple):
    """A run under way, its whole number of steps if known, and its worker."""

    cell: Cell
    measured: Measured
    total: float | None
    worker: str

    @property
    def left(self) -> float | None:
        """Seconds to its end at the rate so far."""
        steps, rate = self.measured.steps, self.measured.rate
        return None if self.total is None or steps is None or rate is None else max(0.0, self.total - steps) / rate


class View(NamedTuple):
    """A study at one moment."""

    counts: dict[str, int]
    running: list[Running]
    failed: list[tuple[Cell, str]]
    done: list[tuple[Cell, Measured]]
    open: list[Cell]

    @property
    def left(self) -> float | None:
        """Seconds to the end of the study with as many runs at once as now; None before anything is known."""
        seconds: dict[str, list[float]] = defaultdict(list)
        for cell, measured in self.done:
            if measured.seconds is not None:
                seconds[cell.group].append(measured.seconds)
        for one in self.running:
            if one.left is not None and one.measured.seconds is not None:
                seconds[one.cell.group].append(one.measured.seconds + one.left)
        if not seconds or not self.running:
            return None if self.running or self.open else 0.0
        usual = statistics.fmean(value for values in seconds.values() for value in values)
        expected = {group: statistics.fmean(values) for group, values in seconds.items()}
        rest = [expected.get(one.cell.group, usual) if one.left is None else one.left for one in self.running]
        waiting = [expected.get(cell.group, usual) for cell in self.open]
        return max([*rest, (sum(rest) + sum(waiting)) / len(self.running)])


def view(study: Study, only: Container[str] | None = None) -> View:
    """Read the state of every cell, or of the cells with some names, and the logs of its run."""
    cells = {
        state: [cell for cell in study.cells(state) if only is None or cell.name in only]
        for state in (RUNNING, DONE, FAILED, OPEN)
    }
    running = []
    for cell in cells[RUNNING]:
        measured = measure(study.place(cell))
        running.append(Running(cell, measured, total_steps(cell, study.place(cell)), worker_of(study, cell)))
    done = [(cell, measure(study.place(cell))) for cell in cells[DONE]]
    failed = [(cell, last_error(study.place(cell) / OUTPUT) or "no output") for cell in cells[FAILED]]
    counts = {state: len(study.names(state) if only is None else cells[state]) for state in STATES}
    return View(counts, running, failed, done, cells[OPEN])


def worker_of(study: Study, cell: Cell) -> str:
    """Name the machine and process of a cell's worker."""
    for path in (study.queue / RUNNING).glob(f"{glob.escape(cell.name)}{BY}*"):
        worker = path.name.rpartition(BY)[2]
        try:
            known = read_document(study.queue / WORKERS / worker, LARGEST)
            dead = "" if Member(study).lives(worker) else " (dead: study work resumes it)"
            return f"{known['host']} {known['process'][0]}{dead}"
        except (OSError, ValueError, KeyError, TypeError, IndexError):
            return "unknown"
    return "-"


def text(study: Study, only: Container[str] | None = None) -> str:
    """Format the state of a study, or of its cells with some names."""
    now = view(study, only)
    counts = ", ".join(f"{now.counts[state]} {state}" for state in (DONE, RUNNING, FAILED, OPEN))
    left = "" if not (now.running or now.open) else f"; {_left(now)}"
    name = f"{study.directory}: " if only is None else ""
    lines = [f"{name}{sum(now.counts.values())} cells, {counts}{left}"]
    if now.running:
        head = ("running", "steps", "of", "steps/s", "return", "left", "worker")
        lines += ["", *_table([head, *map(_running_row, now.running)])]
    if now.done:
        lines += ["", *_table([("group", "done", "steps/s", "return", "time of a run"), *_group_rows(now)])]
    if now.failed:
        lines += ["", "failed (study retry opens them again)"]
        lines += [f"{cell.label}: {reason}" for cell, reason in now.failed]
    return printable("\n".join(lines))


def _left(now: View) -> str:
    if not now.running:
        return "no worker: study work runs the rest"
    return "time left unknown yet" if now.left is None else f"about {duration(now.left)} left"


def _running_row(one: Running) -> tuple[str, ...]:
    measured = one.measured
    steps, total, rate = (_number(value, ",.0f") for value in (measured.steps, one.total, measured.rate))
    left = "-" if one.left is None else duration(one.left)
    return one.cell.label, steps, total, rate, _number(measured.score, ",.1f"), left, one.worker


def _group_rows(now: View) -> Iterable[tuple[str, ...]]:
    groups: dict[str, list[Measured]] = defaultdict(list)
    for cell, measured in now.done:
        groups[cell.group].append(measured)
    everything = [*(cell for cell, _ in now.done), *now.open, *(cell for cell, _ in now.failed)]
    sizes = Counter(cell.group for cell in [*everything, *(one.cell for one in now.running)])
    for group, runs in groups.items():
        seconds = _mean(run.seconds for run in runs)
        rate, score = _mean(run.rate for run in runs), _mean(run.score for run in runs)
        yield (
            group,
            f"{len(runs)}/{sizes[group]}",
            _number(rate, ",.0f"),
            _number(score, ",.1f"),
            "-" if seconds is None else duration(seconds),
        )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else f"{value:{form}}"


def duration(seconds: float) -> str:
    """Format seconds, as 45 s, 12 min or 3 h 20 min."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        padded = [other.rjust(width) for other, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *padded]).rstrip())
    return lines


def watch(study: Study) -> None:
    """Print the state again and again until no cell is open or running."""
    while True:
        print(f"{CLEAR}{text(study)}", flush=True)
        if not (study.names(OPEN) or study.names(RUNNING)):
            return
        time.sleep(EVERY)
