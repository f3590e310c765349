"""Progress of a run: updates, steps, seconds and rows of the logs; what follows it: schedules, a bar or lines."""

import contextlib
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from tqdm import tqdm

from tfbaselines.config.bases import PolicyConfig
from tfbaselines.config.config import Config
from tfbaselines.config.schedules import is_schedule
from tfbaselines.errors import UsageError, bad_argument
from tfbaselines.logs.statistics import Episodes

# Environment steps of a run that another limit ends.
UNLIMITED = 10**15


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Lengths and intervals of a run; steps are environment steps of this rank.

    Attributes:
        total_timesteps: environment steps of the run, rounded down to whole updates.
        steps_per_update: environment steps in an update.
        log_interval: updates between rows of the logs; the last update is logged as well.
        log_first: log the first update too.
        log_episodes: episodes between rows of the logs, in place of log_interval; a run with fewer episodes logs one
            row at its end.
        save_interval: updates between checkpoints; 0 saves only the last one, and one on a signal.
    """

    total_timesteps: int
    steps_per_update: int
    log_interval: int = 1
    log_first: bool = True
    log_episodes: int | None = None
    save_interval: int = 0

    def check(self, config: Config) -> None:
        """Raise a UsageError when the steps of the run are less than one update."""
        if 0 < self.total_timesteps < self.steps_per_update:
            given = {name: getattr(config, name) for name in config.update_arguments}
            flags = [f"--{name}={value}" for name, value in given.items() if value is not None]
            raise UsageError(
                f"nothing to train: {self.total_timesteps} steps are less than one update of {self.steps_per_update}; "
                f"raise --num_timesteps (total_timesteps), or lower {', '.join(flags)} or the number of environments"
            )

    @classmethod
    def of(cls, config: PolicyConfig, num_envs: int) -> "Plan":
        """Return the plan of an algorithm that updates after each rollout of nsteps in num_envs environments."""
        steps = {"total_timesteps": int(config.total_timesteps), "steps_per_update": num_envs * config.nsteps}
        return cls(**steps, log_interval=config.log_interval, save_interval=config.save_interval)


class Clock:
    """Count updates, environment steps of this rank, and seconds; a resumed run continues the count.

    Attributes:
        unit: unit of `done` and `end`.
        plan: lengths and intervals of the run.
        update: number of the present update, from 1.
        num_updates: number of the last update.
        elapsed: seconds so far, including the runs that this one continues.
        fps: environment steps per second since the last row of the logs.
    """

    unit = "step"

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.update = 0
        self.num_updates = plan.total_timesteps // plan.steps_per_update
        self.elapsed = 0.0
        self.fps = 0
        # Update and environment steps at which a resumed run started.
        self._first_update = 0
        self._first_steps = 0
        # Environment steps at that point: of this rank, and of all ranks.
        self._restored = 0
        self._restored_all = 0

    @property
    def timesteps(self) -> int:
        """Environment steps of this rank so far."""
        return self._first_steps + (self.update - self._first_update) * self.plan.steps_per_update

    @property
    def done(self) -> int:
        """Progress in `unit`."""
        return self.timesteps

    @property
    def end(self) -> int | None:
        """Value of `done` at the end of the run; None if another limit ends the run."""
        if self.plan.total_timesteps >= UNLIMITED:
            return None
        return self.timesteps + (self.num_updates - self.update) * self.plan.steps_per_update

    @property
    def fraction_left(self) -> float:
        """1 in the first update, falling to 1 / num_updates in the last."""
        return 1.0 - (self.update - 1.0) / self.num_updates

    @property
    def fraction_after_update(self) -> float:
        """Fraction of the steps left at the last step of this update, as baselines' Scheduler counts."""
        return 1.0 - (self.timesteps - 1.0) / self.plan.total_timesteps

    def steps_of_all(self, steps: Sequence[int]) -> int:
        """Return the environment steps of all ranks so far, including earlier runs, from those of each rank now."""
        return self._restored_all + sum(steps) - self._restored * len(steps)

    def start(self, episodes: int) -> None:
        """Start measuring time; `episodes` have ended so far."""
        now = time.perf_counter()
        self._started = now - self.elapsed
        self._row_steps = self.timesteps
        self._row_time = now
        self._row_episodes = episodes

    def seconds_so_far(self) -> float:
        """Return the seconds so far; `elapsed` has those at the end of the latest update."""
        return time.perf_counter() - self._started

    def row_due(self, episodes: int) -> bool:
        """Return whether this update ends with a row of the logs; `episodes` have ended so far."""
        plan = self.plan
        if plan.log_episodes is not None:
            before, self._row_episodes = self._row_episodes, episodes
            only = episodes < plan.log_episodes and self.update == self.num_updates
            return only or episodes // plan.log_episodes > before // plan.log_episodes
        first = 1 if plan.log_first else self.num_updates
        return self.update in (first, self.num_updates) or self.update % plan.log_interval == 0

    def measure_speed(self) -> None:
        """Set `fps`, for a row that is about to be logged."""
        now = time.perf_counter()
        self.fps = int((self.timesteps - self._row_steps) / max(now - self._row_time, 1e-9))
        self._row_steps = self.timesteps
        self._row_time = now

    def state(self, steps: Sequence[int]) -> dict[str, Any]:
        """Return the counters; `steps` has the environment steps of each rank."""
        return {
            "update": self.update,
            "timesteps": self.timesteps,
            "timesteps_of_all": self.steps_of_all(steps),
            "elapsed": self.elapsed,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from counters that `state` returned."""
        self.elapsed = state["elapsed"]
        self._count_on(state["update"], state["timesteps"])
        self._restored = state["timesteps"]
        self._restored_all = state["timesteps_of_all"]

    def _count_on(self, update: int, timesteps: int) -> None:
        self.update = update
        self._first_update = update
        self._first_steps = timesteps
        left = self.plan.total_timesteps - timesteps
        self.num_updates = update + max(0, left // self.plan.steps_per_update)


class IterationClock(Clock):
    """Count iterations; the number of their environment steps is known afterwards.

    Attributes:
        timesteps: environment steps of this rank so far; the run adds each update's steps.
        fraction_left: 1 in the first update, falling to nearly 0 in the last; the ranks agree on it.
        iterations: finished iterations.
        num_iterations: iterations of the run; None if its environment steps end it.

    Args:
        plan: lengths and intervals; steps_per_update is the least that an update takes.
        num_iterations: iterations of the run, if the plan has no limit of steps.
        episodes: an iteration is one of these episodes; None if an iteration is an update.
    """

    timesteps = 0
    fraction_left = 1.0

    def __init__(self, plan: Plan, num_iterations: int, episodes: Episodes | None) -> None:
        super().__init__(plan)
        limited = plan.total_timesteps < UNLIMITED
        self.num_iterations = None if limited else num_iterations
        self.unit = "step" if limited else "iteration"
        self.iterations = 0
        self._episodes = episodes
        self._count_on(0, 0)

    @property
    def done(self) -> int:
        return self.timesteps if self.num_iterations is None else self.iterations

    @property
    def end(self) -> int:
        return self.plan.total_timesteps if self.num_iterations is None else self.num_iterations

    @property
    def own_fraction_left(self) -> float:
        """Fraction of the run that this rank has left now."""
        return max(0.0, 1.0 - self.done / max(1, self.end))

    def finish_iterations(self) -> None:
        """Count the iterations of the update that just ended."""
        self.iterations = self.update if self._episodes is None else self._episodes.count

    def _count_on(self, update: int, timesteps: int) -> None:
        self.update = update
        self.timesteps = timesteps
        self.finish_iterations()
        # Each update takes at least one iteration and one step.
        self.num_updates = update + max(0, self.end - self.done)


class Rates:
    """Give learning rates and other scheduled arguments as functions of the fraction of training left.

    Args:
        algorithm: name of the algorithm, for errors.
        config: arguments of the algorithm.
        ends: the run has a known length, so that a fraction of it is left.
    """

    def __init__(self, algorithm: str, config: Config, ends: bool) -> None:
        self._algorithm = algorithm
        self._ends = ends
        self._take(config)

    def follow(self, name: str, schedule: Any) -> None:
        """Let an argument follow a schedule.

        Args:
            name: name of the argument.
            schedule: see config/schedules.py.
        """
        schedulable = self._config.schedulable()
        if name not in schedulable:
            accepted = f"an argument of {self._algorithm} that can change in a run: {', '.join(schedulable)}"
            raise bad_argument("argument", name, accepted)
        value = getattr(self._config, name)
        if isinstance(value, str) and "str" in schedulable[name].kinds and not is_schedule(value):
            raise bad_argument(name, value, "a number if it should follow a schedule")
        self._take(self._config.at({name: schedulable[name].checked(schedule)}))

    def at(self, fraction_left: float) -> dict[str, float]:
        """Return the value of each scheduled argument by name."""
        return {name: rate(fraction_left) for name, rate in self._schedules.items()}

    def shown(self, fraction_left: float) -> dict[str, float]:
        """Return the columns of the logs: each rate that was given as a schedule, by its argument's name.

        The original's tables have no rates, so that a rate that falls by default has no column.
        """
        return {name: self._schedules[name](fraction_left) for name in self._given}

    def config(self, fraction_left: Callable[[], float]) -> Config:
        """Return the arguments with the present values of the scheduled coefficients."""
        return self._config.at(self.at(fraction_left())) if self._changing else self._config

    def _take(self, config: Config) -> None:
        self._config = config
        self._schedules = config.schedules()
        # Learning rates reach updates by name only.
        self._changing = any(config.schedulable()[name].coefficient for name in self._schedules)
        values = {name: getattr(config, name) for name in self._schedules}
        changing = [name for name, value in values.items() if is_schedule(value)]
        declared = config.arguments()
        self._given = [
            name for name in changing if not declared[name].coefficient and values[name] != declared[name].default
        ]
        if "lrschedule" in declared and config.lrschedule not in (declared["lrschedule"].default, "constant"):
            self._given.append("lr")
        if changing and not self._ends:
            accepted = "a number: a run without total_timesteps has no fraction left for a schedule"
            raise bad_argument(changing[0], values[changing[0]], accepted)


# Shortest time between two lines.
SECONDS_BETWEEN_LINES = 30.0


class NoProgress:
    """Show nothing."""

    def update(self, steps: int, reward: Callable[[], float]) -> None:
        """Show the steps done so far and the mean reward, which `reward` returns, if it is time."""

    def close(self) -> None:
        """End the display."""


class ProgressBar(NoProgress):
    """Show a tqdm bar with steps, steps per second, reward and time left, on standard error."""

    def __init__(self, name: str, done: int, total: int, stream: TextIO, unit: str = "step") -> None:
        self._bar = tqdm(
            total=total, initial=done, desc=name, unit=unit, unit_scale=True, file=stream, dynamic_ncols=True
        )

    def update(self, steps: int, reward: Callable[[], float]) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._bar.set_postfix_str(f"reward={reward():.4g}", refresh=False)
            self._bar.update(steps - self._bar.n)

    def close(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._bar.close()


class ProgressLines(NoProgress):
    """Print a line with steps, share done, steps per second, reward and time left, at most every half minute."""

    def __init__(self, name: str, done: int, total: int, stream: TextIO, unit: str = "step") -> None:
        self._name = name
        self._started_at = done
        self._total = total
        self._stream = stream
        self._units = f"{unit}s"
        self._start = time.monotonic()
        self._last = self._start

    def update(self, steps: int, reward: Callable[[], float]) -> None:
        now = time.monotonic()
        if now - self._last < SECONDS_BETWEEN_LINES and steps < self._total:
            return
        self._last = now
        speed = (steps - self._started_at) / max(now - self._start, 1e-9)
        left = max(self._total - steps, 0) / max(speed, 1e-9)
        minutes, seconds = divmod(int(left), 60)
        # A closed standard error does not end the run.
        with contextlib.suppress(OSError, ValueError):
            print(
                f"{self._name}: {steps:,} of {self._total:,} {self._units} ({100 * steps / self._total:.0f}%), "
                f"{speed:,.0f} {self._units}/s, reward {reward():.4g}, {minutes}:{seconds:02d} left",
                file=self._stream,
                flush=True,
            )


def make_progress(show: bool, name: str, done: int, total: int, unit: str = "step") -> NoProgress:
    """Return a display that suits standard error: a bar on a terminal, else lines."""
    if not show or total <= 0 or sys.stderr is None:
        return NoProgress()
    return (ProgressBar if sys.stderr.isatty() else ProgressLines)(name, done, total, sys.stderr, unit)
