"""What a run starts from and how it may end: its plan, its seed, its ranks, and the end by a signal.

The arguments of a run that change while it trains, and their present values.

When rows of the logs are due, and how fast the run was since the last one.
"""

import os
import random
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from tfbaselines.config.bases import PolicyConfig
from tfbaselines.config.config import Config
from tfbaselines.config.schedules import is_schedule
from tfbaselines.errors import UsageError, bad_argument
from tfbaselines.parallel import mpi

# Steps of a run that something else ends.
UNLIMITED = 10**15


class Interrupted(Exception):
    """The run was stopped by a signal, after its checkpoint was saved if it could be.

    Attributes:
        signal: the signal's number.
        checkpoint: where the checkpoint is, or None when there is none of this update.

    Args:
        number: the signal's.
        checkpoint: see above.
        directory: the log directory, or None when the run has none.
        before: the update of the checkpoint before.
    """

    def __init__(self, number: int, checkpoint: str | None, directory: str | None = None, before: int = 0) -> None:
        if checkpoint:
            saved = f"checkpoint saved in {checkpoint}"
        elif directory is None:
            saved = "no log directory, so nothing was saved"
        else:
            # A resumed run may have begun with a checkpoint of another directory.
            path = os.path.join(directory, "checkpoints", f"{before:05d}")
            last = f"the last one is {path}" if os.path.exists(path) else "nor is there an earlier one"
            saved = f"no checkpoint was saved, {last}"
        super().__init__(f"stopped by {signal.Signals(number).name}: {saved}")
        self.signal, self.checkpoint = number, checkpoint


@dataclass(frozen=True, kw_only=True)
class Plan:
    """When a run does what; steps are those of this rank.

    Attributes:
        total_timesteps: environment steps of the run; whole updates only, the rest is dropped.
        steps_per_update: environment steps in an update.
        log_interval: updates between rows of the logs.
        log_first: log the first update too; otherwise the last one, whatever its number.
        log_episodes: episodes between rows of the logs, in place of the above; a run of fewer has one row, at its end.
        save_interval: updates between checkpoints; 0 saves only the last, and on a signal.
        replay_interval: updates between checkpoints beside which the replay is saved; 0 saves it with each. The last
            one has it in any case.
    """

    total_timesteps: int
    steps_per_update: int
    log_interval: int = 1
    log_first: bool = True
    log_episodes: int | None = None
    save_interval: int = 0
    replay_interval: int = 0

    def __post_init__(self) -> None:
        if 0 < self.total_timesteps < self.steps_per_update:
            raise UsageError(
                f"nothing to train: {self.total_timesteps} steps are less than one update of {self.steps_per_update}; "
                "raise them, or lower the steps of an update (num_env, and the argument for the steps between updates)"
            )

    @classmethod
    def of(cls, config: PolicyConfig, num_envs: int) -> "Plan":
        """Of an algorithm whose updates begin with a rollout of num_envs environments."""
        return cls(
            total_timesteps=int(config.total_timesteps),
            steps_per_update=num_envs * config.nsteps,
            log_interval=config.log_interval,
            save_interval=config.save_interval,
        )


def seed_everything(seed: int | None, comm: mpi.Communicator) -> np.random.Generator:
    """Seed Python, numpy and Keras, and make the run's generator; ranks get seeds 10,000 apart.

    Args:
        seed: None for a seed from the operating system.
        comm: this rank's communicator.
    """
    if seed is None:
        seed = int(np.random.SeedSequence().generate_state(1)[0])
    seed = (int(seed) + 10_000 * comm.rank) % 2**32
    random.seed(seed)
    np.random.seed(seed)
    keras.utils.set_random_seed(seed)
    return np.random.default_rng(seed)


def ranks_text(comm: mpi.Communicator, num_envs: int) -> str:
    """What a run of several ranks is made of, in one line.

    Args:
        comm: the ranks.
        num_envs: environments of this one.
    """
    own = socket.gethostname(), num_envs, mpi.threads_for_rank(comm)
    hosts, envs, threads = zip(*comm.gather(own), strict=True)
    return (
        f"ranks: {comm.size}, hosts: {len(set(hosts))}, environments in all: {sum(envs)}, "
        f"threads a rank: {min(threads)}"
    )


class Rates:
    """Learning rates and other arguments as functions of the fraction of training left.

    Args:
        algorithm: its name, for errors.
        config: its arguments.
        ends: the run has a number of steps, of which a part is left.
    """

    def __init__(self, algorithm: str, config: Config, ends: bool) -> None:
        self._algorithm, self._ends = algorithm, ends
        self._take(config)

    def follow(self, name: str, schedule: Any) -> None:
        """Let an argument follow a schedule.

        Args:
            name: the argument's.
            schedule: a number, text, or a function of the fraction of training left; see config/schedules.py.
        """
        schedulable = self._config.schedulable()
        if name not in schedulable:
            accepted = f"an argument of {self._algorithm} that can change in a run: {', '.join(schedulable)}"
            raise bad_argument("argument", name, accepted)
        value = getattr(self._config, name)
        if isinstance(value, str) and "str" in schedulable[name].kinds and not is_schedule(value):
            raise bad_argument(name, value, "a number where it is to follow a schedule")
        self._take(self._config.at({name: schedulable[name].checked(schedule)}))

    def at(self, fraction_left: float) -> dict[str, float]:
        """What updates are called with, by name."""
        return {name: rate(fraction_left) for name, rate in self._schedules.items()}

    def config(self, fraction_left: Callable[[], float]) -> Config:
        """The arguments with the present values of those that change.

        Args:
            fraction_left: called where some do.
        """
        return self._config.at(self.at(fraction_left())) if self._changing else self._config

    def _take(self, config: Config) -> None:
        self._config, self._schedules = config, config.schedules()
        # Learning rates reach updates by name only.
        self._changing = any(config.schedulable()[name].coefficient for name in self._schedules)
        values = {name: getattr(config, name) for name in self._schedules}
        changing = [name for name, value in values.items() if is_schedule(value)]
        if changing and not self._ends:
            accepted = "a number in a run without total_timesteps, of which no fraction is left"
            raise bad_argument(changing[0], values[changing[0]], accepted)


class RowClock:
    """Rows by updates, or by episodes.

    Args:
        plan: of the run.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._steps = self._time = self._episodes = 0

    def begin(self, timesteps: int, now: float, episodes: int) -> None:
        """Count from here.

        Args:
            timesteps: environment steps so far.
            now: seconds on any clock.
            episodes: episodes so far.
        """
        self._steps, self._time, self._episodes = timesteps, now, episodes

    def due(self, update: int, num_updates: int, episodes: int) -> bool:
        """Whether an update ends with a row.

        Args:
            update: its number.
            num_updates: of the whole run.
            episodes: episodes so far.
        """
        plan = self._plan
        if plan.log_episodes is not None:
            before, self._episodes = self._episodes, episodes
            first = episodes < plan.log_episodes and update == num_updates
            return first or episodes // plan.log_episodes > before // plan.log_episodes
        # Of epochs the last one may be a part of one; without them the first row comes early.
        extra = 1 if plan.log_first else num_updates
        return update == extra or update % plan.log_interval == 0

    def speed(self, timesteps: int, now: float) -> int:
        """Environment steps per second since the last row; a row is logged now."""
        steps, seconds = timesteps - self._steps, now - self._time
        self._steps, self._time = timesteps, now
        return int(steps / max(seconds, 1e-9))
