"""One run of one algorithm: its environments, progress, logs, checkpoints and end.

1. The constructor wraps the environments, seeds everything and sets the precision; the algorithm builds its model.
2. `start(model)` loads or resumes, broadcasts rank 0's parameters, and catches signals from then on.
3. `for update in run.updates(): ...; run.finish_update(row)` logs, saves and shows progress.
4. The end of the `with run:` block compares the ranks and saves the last checkpoint.

Each part of a run is one object with one task: Clock (clock.py) counts, Scores and Tester (testing.py) judge, Rates
(clock.py) follows schedules, FiniteCheck and StopSignals (guards.py) guard, Saving (saving.py) writes checkpoints,
Callbacks (callbacks.py) calls the user's functions.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from operator import attrgetter
from typing import Any, NoReturn, TypeVar

from tfbaselines.config.algorithm import Algorithm
from tfbaselines.config.config import Config
from tfbaselines.envs.vec import VecEnv
from tfbaselines.errors import InUseError, LostWorkerError, NotFiniteError, bad_argument
from tfbaselines.learn import exchange
from tfbaselines.logs import logger
from tfbaselines.logs.directory import locked
from tfbaselines.logs.statistics import EPISODES_IN_MEAN
from tfbaselines.parallel import mpi
from tfbaselines.parallel.mpi import Together, one_blas_thread
from tfbaselines.policy.layers import available, set_precision
from tfbaselines.training.callbacks import Callbacks, stops_of
from tfbaselines.training.clock import Clock, Plan, Rates, make_progress
from tfbaselines.training.guards import (
    FiniteCheck,
    Interrupted,
    StopSignals,
    agree,
    announce,
    check_in_step,
    release_earlier_runs,
    seed_everything,
)
from tfbaselines.training.lessons import lessons_of
from tfbaselines.training.model import PolicyModel
from tfbaselines.training.saving import RunState, Saving, describe_run
from tfbaselines.training.testing import Scores, Tester, limit_episodes, make_tester
from tfbaselines.training.timers import Timers

R = TypeVar("R", bound="Run")

UPDATES_BETWEEN_SYNC_CHECKS = 100
# Exceptions that leave nothing to rescue.
EXPECTED = (InUseError, Interrupted, LostWorkerError, NotFiniteError)


class Run:
    """Run one algorithm; callbacks get this object after every update (training/callbacks.py).

    Attributes:
        name, algorithm: name and declaration of the algorithm.
        env: environments of training, wrapped as the algorithm declares.
        envs: environments of each worker, wrapped.
        normalized: environments with the normalization of the model.
        eval_env: environments for tests, wrapped; None for no tests.
        environments: environments of training and of tests, saved as one; None before `start`.
        model: model that learns; None before `start`.
        comm: ranks that train together.
        rng: random generator of the run.
        options: options of the run.
        plan: lengths and intervals.
        clock: counters of updates, steps and seconds.
        timers: seconds of each phase.
        scores: latest episodes of training and of tests.
        columns, row: further columns of the logs by name, for callbacks; the latest row of the logs.
        episodes_of_all_ranks: `episodes` has the episodes of all ranks.

    Args:
        algorithm, config, plan: see the attributes.
        env: the environments, or a list with the environments of each worker.
        joined: saves and restores the environments of several workers as one.
        clock: counters; None for a Clock of the plan.
        scores: latest episodes; None for Scores().
        eval_env: environments that the algorithm evaluates on by itself; None for tests as the config declares them.
    """

    episodes_of_all_ranks = False

    def __init__(
        self,
        algorithm: Algorithm,
        env: VecEnv | Sequence[VecEnv],
        config: Config,
        plan: Plan,
        *,
        joined: Callable[[Sequence[VecEnv]], Any] = Together,
        clock: Clock | None = None,
        scores: Scores | None = None,
        eval_env: VecEnv | None = None,
    ) -> None:
        plan.check(config)
        self.algorithm = algorithm
        self.name = algorithm.name
        several = isinstance(env, list | tuple)
        self.timers = Timers(config.options.timers)
        self.envs = [self.timers.watched(algorithm.wrap(one)) for one in (env if several else [env])]
        self.normalized = self.envs[0]
        self.env = joined(self.envs) if several else self.normalized
        self.options = config.options
        self._description = describe_run(algorithm, config, self.normalized)
        for one in self.envs:
            limit_episodes(one, config)
        self.plan = plan
        self.clock = clock or Clock(plan)
        self.scores = scores or Scores()
        self.scores.training.keep(self.options.monitor_keys)
        self.comm = mpi.wrap(config.comm)
        self._rates = Rates(self.name, config, ends=self.clock.end is not None)
        set_precision(available(self.options.precision, warns=self.is_root))
        exchange.set_exchange(self.options.mpi_exchange)
        self.rng = seed_everything(config.seed, self.comm)
        self._closing = contextlib.ExitStack()
        self._tester: Tester | None = None
        if eval_env is None:
            self._tester, self.eval_env = make_tester(self.normalized, config, self.options, algorithm.wrap)
        else:
            self.eval_env = algorithm.wrap(eval_env)
        self.environments: Any = None
        self.model: PolicyModel | None = None
        self.columns: dict[str, float] = {}
        self.row: dict[str, Any] = {}
        self._callbacks = Callbacks(self.options.callback, *stops_of(config), *lessons_of(self.normalized))
        self._paused: Callable[[], AbstractContextManager] = nullcontext
        self._finite = FiniteCheck(self.options.on_nan == "skip", self.comm, self._where)
        self._signals = StopSignals()
        self._saving: Saving | None = None
        self._progress: Any = None
        self._stopped = False
        self._save_wanted = False
        self._calling_back = False

    def start(
        self, model: PolicyModel, *, replay: Any = None, paused: Callable[[], AbstractContextManager] = nullcontext
    ) -> None:
        """Load or resume, share the parameters over ranks, and bring all copies up to date.

        Args:
            model: model that learns.
            replay: experience that is saved beside the checkpoints, see kept_replay.py; a list of several, or None.
            paused: returns a context that stops all threads from changing the model and the environments.
        """
        self.model = model
        self._paused = paused
        self.environments = self.env
        if self.eval_env is not None:
            self.environments = Together([self.env, self.eval_env])
            self.scores.judge_by_tests(getattr(self.config, "num_test_episodes", 0) or EPISODES_IN_MEAN)
        state = RunState(self.clock, self.scores, self.rng, self.environments, self._callbacks, self.comm)
        self._saving = Saving(model, state, self.options, self._description, replay)
        if self._saving.directory and self.is_root:
            self._closing.enter_context(locked(self._saving.directory))
        self._saving.remove_leftovers()
        model.attach(self.normalized, self._description, self.rng)
        if self.config.load_path is not None:
            model.load(self.config.load_path, only_acts=self.num_updates == 0)
            if model.observations.scales and self.num_updates > 0:
                accepted = "it learned from normalized observations: wrap env in VecNormalize to train it further"
                raise bad_argument("load_path", self.config.load_path, accepted)
        if self.options.resume:
            self._saving.resume(self.options.resume)
        mpi.share(model.variables(), self.comm)
        model.ready()
        announce(model, self.comm, getattr(self.env, "num_envs", 0))
        self._begin()

    def acts(self, *parts: Any) -> None:
        """Save the state of runners and collectors in every checkpoint; a resumed run restores it here.

        Args:
            parts: objects with state() and restore(), in the same order in every run.
        """
        self._saving.acts(parts)

    def at_end(self, call: Callable[[], None]) -> None:
        """Call a function when the run ends, also after an exception; its own failure does not lose the model."""
        self._closing.callback(self._tried, call)

    def _tried(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except NotFiniteError:
            raise
        except Exception as error:  # Environments and callbacks of users raise anything.
            what = f"the run has ended, but then {type(error).__name__}: {' '.join(str(error).split())}"
            logger.warn(what)
            if self.model is not None:
                self.model.failures.append(what)
            return None

    def test(self, model: Any = None) -> list[dict[str, Any]]:
        """Run the deterministic policy, and return the episodes' infos.

        Args:
            model: model to test; None for the one that learns.
        """
        with self.timers.phase("test"):
            episodes = [] if self._tester is None else self._tester.run(self.model if model is None else model)
        self.eval_episodes.extend(episodes)
        return episodes

    # Callbacks and algorithms read these; the parts of the run own them.
    episodes = property(attrgetter("scores.training"), doc="Latest episodes of training.")
    eval_episodes = property(attrgetter("scores.tests"), doc="Latest episodes of tests.")
    mean_reward = property(attrgetter("scores.mean_reward"), doc="Mean return, of tests if there are any; see Scores.")
    judged_return = property(attrgetter("scores.judged_return"), doc="Mean return that judges the run; see Scores.")
    update = property(attrgetter("clock.update"), doc="Number of the present update, from 1.")
    num_updates = property(attrgetter("clock.num_updates"), doc="Number of updates of the whole run.")
    timesteps = property(attrgetter("clock.timesteps"), doc="Environment steps of this rank so far.")
    elapsed = property(attrgetter("clock.elapsed"), doc="Seconds so far, including the runs that this one continues.")
    fps = property(attrgetter("clock.fps"), doc="Environment steps per second since the last row of the logs.")
    paused = property(attrgetter("_paused"), doc="Context in which no thread changes the model and the environments.")
    fraction_left = property(attrgetter("clock.fraction_left"), doc="1 in the first update, falling to nearly 0.")

    @property
    def is_root(self) -> bool:
        """True on the rank that writes files and shows progress."""
        return self.comm.rank == 0

    def steps_of_all(self) -> int:
        """Return the environment steps of all ranks so far, including ranks of earlier runs."""
        return self.clock.steps_of_all([self.timesteps] * self.comm.size)

    @property
    def config(self) -> Any:
        """Arguments of the algorithm; scheduled coefficients have their present values, learning rates do not."""
        return self._rates.config(lambda: self.fraction_left if self.update else 1.0)

    def rates(self, fraction_left: float | None = None) -> dict[str, float]:
        """Return the value of each scheduled argument by name, at `fraction_left` or at the present update."""
        return self._rates.at(self.fraction_left if fraction_left is None else fraction_left)

    def schedule(self, argument: str, schedule: Any) -> None:
        """Let an argument follow a schedule; see callbacks.Schedule."""
        self._rates.follow(argument, schedule)

    def __enter__(self: R) -> R:
        release_earlier_runs()
        self._closing.enter_context(one_blas_thread())
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, *_: Any) -> None:
        if self._tester is not None:
            self.at_end(self._tester.close)
        # After any exception, release the directory, the environments and numpy's threads.
        with self._closing:
            if self._progress is None:
                return
            # The last checkpoint needs the callbacks, and a second signal must not prevent it: both end later.
            self._closing.callback(self._signals.release)
            self.at_end(self._callbacks.close)
            self._progress.close()
            if kind is None:
                self._end_well()
            elif self.comm.size == 1 and isinstance(error, Exception) and not isinstance(error, EXPECTED):
                self._rescue()

    def _begin(self) -> None:
        """Catch signals, show progress, and start the clock."""
        self._signals.catch()
        if self.comm.size > 1:
            # The launcher names a rank that was killed by its process alone.
            logger.info(mpi.describe_ranks(self.comm))
        clock = self.clock
        show = bool(self.options.progress) and self.is_root and clock.end is not None
        self._progress = make_progress(show, self.name, clock.done, clock.end or 0, clock.unit)
        self._saved_at = time.perf_counter()
        self._first = self.update
        self._finished = self.update
        self._saving.begin()
        self._callbacks.begin(self)
        clock.start(self.episodes.count)

    def _end_well(self) -> None:
        """Save the last checkpoint, then report a signal that came in the meantime."""
        path = None
        if self.update > self._first:
            check_in_step(self.model.variables(), self.comm)
            save = partial(self.save, last=True)
            # A rank that fails alone must not let the others wait.
            path = self._tried(save) if self.comm.size == 1 else self.comm.broadcast_object(save())
            # Other ranks may resume it at once.
            self.comm.barrier()
            logger.info(self.timers.text())
        if self._signals.number:
            self._interrupt(self._signals.number, path)

    def _rescue(self) -> None:
        """Save the model of the last finished update after an exception; warn if that fails."""
        saving = self._saving
        self.clock.update = self._finished
        try:
            saved = self.update > saving.saved and self.save(last=True) is not None
        except Exception as error:
            # The exception that ended the run is the one to report.
            logger.warn(f"the run failed, and no checkpoint of update {self.update} could be saved: {error}")
            return
        if saved:
            logger.warn(f"the run failed after update {self.update}: --resume={saving.directory} goes on from there")

    def updates(self) -> Iterator[int]:
        """Yield the numbers of the remaining updates, up to num_updates."""
        while self.update < self.num_updates and not self._stopped:
            self.clock.update += 1
            self._finite.begin(self.model, self._paused)
            self.timers.begin_update()
            yield self.update

    def finish_update(self, row: Callable[[], dict[str, Any]]) -> None:
        """End an update: call callbacks, log, save and show progress; stop after a signal or at a callback's request.

        Args:
            row: returns the columns of a row of the logs; called when a row is due.
        """
        self.timers.end_update()
        self._finite.end(self.model, self.update, self._paused)
        self.clock.elapsed = self.clock.seconds_so_far()
        self.environments.merge_statistics(self.comm)
        self._call_back()
        minutes = self.options.save_minutes
        due = self._save_wanted or (minutes is not None and time.perf_counter() - self._saved_at >= 60 * minutes)
        signal_number, self._stopped, save_due = agree(self.comm, self._signals.number, self._stopped, due)
        # A run that a callback stopped logs its last row; all ranks log together.
        if self.clock.row_due(self.episodes.count) or self._stopped:
            self.clock.measure_speed()
            logger.logkvs(row() | self._further_columns() | self.columns)
            self.row = logger.dumpkvs()
        if self.update % UPDATES_BETWEEN_SYNC_CHECKS == 0:
            check_in_step(self.model.variables(), self.comm)
        for line in exchange.news():
            logger.info(line)
        self._finished = self.update
        self._progress.update(self.clock.done, lambda: self.mean_reward)
        if signal_number:
            self._interrupt(signal_number, self.comm.broadcast_object(self.save(last=True)))
        interval = self.plan.save_interval
        if save_due or (interval and (self.update == 1 or self.update % interval == 0)):
            self.save()

    def _interrupt(self, number: int, checkpoint: str | None) -> NoReturn:
        raise Interrupted(number, checkpoint, self._saving.directory, self._saving.saved)

    def _call_back(self) -> None:
        self._save_wanted = False
        self._calling_back = True
        try:
            self._stopped = not self._callbacks(self) or self._stopped
        finally:
            self._calling_back = False

    def _further_columns(self) -> dict[str, float]:
        """Return the columns that only some runs have: several ranks, schedules, on_nan, monitor_keys, timers."""
        columns = self.scores.training.further_means() | self._rates.shown(self.fraction_left) | self.timers.columns()
        of_all = self.steps_of_all()
        if self.comm.size > 1 or of_all != self.timesteps:
            columns["global_timesteps"] = of_all
        if self.options.on_nan == "skip":
            columns["dropped_updates"] = self._finite.dropped
        return columns

    def stop(self) -> None:
        """End the run, on every rank, after this update."""
        self._stopped = True

    def check(self, statistics: dict[str, Any]) -> dict[str, Any]:
        """Return the statistics of an update; none may be NaN or infinite (training/guards.py)."""
        self._finite.statistics(statistics, self.update)
        return statistics

    def save(self, last: bool = False) -> str | None:
        """Write a checkpoint with the state of every rank; return its path on rank 0.

        A failed save is a warning: the checkpoint before it stays, and the next interval tries again. If a callback
        calls this, the checkpoint is written at the end of the update, after its row of the logs.

        Args:
            last: this is the last checkpoint of the run.
        """
        if self._calling_back:
            self._save_wanted = True
            return None
        self._saved_at = time.perf_counter()
        with self.timers.phase("save"), self._paused():
            # A checkpoint of parameters that are not finite would replace good ones.
            self._finite.parameters(self.model.variables(), self.update)
            return self._saving.save()

    def _where(self) -> str:
        last_good = self._saving.saved if self._saving is not None else 0
        saved = f"; the last good checkpoint is {last_good:05d}" if last_good else ""
        return (f" on rank {self.comm.rank}" if self.comm.size > 1 else "") + saved
