"""One run of one algorithm: it owns the communicator, the generator, precision, logs, checkpoints, and time.

A run has phases, in this order:

1. build: the constructor sets precision and seeds; the algorithm builds its model.
2. `start(model)`: load or resume; rank 0's parameters are broadcast; copies that follow them are made; signals are
   caught from here on.
3. `for update in run.updates(): ...; run.finish_update(row)`: logs, checkpoints, progress.
4. the end of the `with run:` block: ranks are compared, the last checkpoint is saved.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import numpy as np

from tfbaselines.config.config import Config
from tfbaselines.envs.vec import VecEnv
from tfbaselines.errors import InUseError, NotFiniteError
from tfbaselines.learn import exchange
from tfbaselines.logs import logger
from tfbaselines.logs.directory import locked
from tfbaselines.logs.rows import EPISODES_IN_MEAN, Episodes, safe_mean
from tfbaselines.parallel import mpi
from tfbaselines.parallel.threads import Together, one_blas_thread
from tfbaselines.policy.precision import available, set_precision
from tfbaselines.training.callbacks import Callbacks, StopAt
from tfbaselines.training.guards import FiniteCheck, StopSignals
from tfbaselines.training.model import PolicyModel
from tfbaselines.training.plan import UNLIMITED, Interrupted, Plan, Rates, RowClock, ranks_text, seed_everything
from tfbaselines.training.progress import make_progress
from tfbaselines.training.saving import Saving

UPDATES_BETWEEN_SYNC_CHECKS = 100

R = TypeVar("R", bound="Run")

# Ends of a run after which there is nothing to rescue.
EXPECTED = (InUseError, Interrupted, NotFiniteError)


class Run:
    """See the module. A callback gets this object after every update; see training/callbacks.py.

    Attributes:
        unit: in which progress is shown.
        ends_otherwise: a number of something else than steps ends a run without total_timesteps.
        name: the algorithm's.
        model: what is trained; None before `start`.
        env: its environments; their normalisation and random streams are saved and restored.
        comm: the ranks that train together.
        rng: the run's generator.
        update: updates so far.
        num_updates: updates of the whole run.
        elapsed: seconds so far, those of the runs that it continues included.
        fps: environment steps per second since the last row of the logs.
        episodes: the latest episodes of training.
        eval_episodes: the latest episodes of tests.
        eval_env: environments for tests, or None.
        normalized: the environments whose normalisation belongs to the model; None before `start`.
        counted: a rank's steps when the run was resumed, and those of all the ranks that it had until then.
        environments: those of training and of tests, saved and restored as one; None before `start`.
        columns: further columns of the logs, by name: a callback's numbers.
        wrap: as given.

    Args:
        name: the algorithm's name.
        env: environments, or what saves and restores those of several workers as one.
        config: the algorithm's arguments.
        plan: when the run does what.
        wrap: what the algorithm puts around environments; env has it already.
    """

    unit = "step"
    ends_otherwise = False

    def __init__(
        self,
        name: str,
        env: Any,
        config: Config,
        plan: Plan,
        wrap: Callable[[VecEnv], VecEnv] = lambda env: env,
    ) -> None:
        self.name, self.env, self.plan, self.wrap = name, env, plan, wrap
        self._num_envs = getattr(env, "num_envs", 0)
        limit = getattr(config, "max_ep_len", None)
        if limit is not None:
            env.limit_episodes(limit)
        self.options, self.comm = config.options, mpi.wrap(config.comm)
        self._rates = Rates(name, config, ends=self.ends_otherwise or plan.total_timesteps < UNLIMITED)
        self.update, self.num_updates = 0, plan.total_timesteps // plan.steps_per_update
        set_precision(available(self.options.precision, warns=self.is_root))
        exchange.set_exchange(self.options.mpi_exchange)
        self.rng = seed_everything(config.seed, self.comm)
        self.model: PolicyModel | None = None
        self.elapsed, self.fps = 0.0, 0
        # Where a resumed run counts on from: updates, and the environment steps that they took.
        self._before = 0, 0
        self.counted = 0, 0
        self._finished, self._saved_at = 0, 0.0
        self.episodes, self.eval_episodes = Episodes(), Episodes()
        self.eval_env: Any = None
        self.normalized: Any = None
        self.environments: Any = None
        self.columns: dict[str, float] = {}
        # Episodes of a test, by which the run is judged; None for none.
        self._num_tests: int | None = None
        bounds = (getattr(config, name, None) for name in ("max_total_reward", "stop_max_score"))
        self._callbacks = Callbacks(self.options.callback, *(StopAt(bound) for bound in bounds if bound is not None))
        self._paused: Callable[[], AbstractContextManager] = nullcontext
        self._finite = FiniteCheck(self.options.on_nan == "skip", self.comm, self._where)
        self._signals, self._rows = StopSignals(), RowClock(plan)
        self._stopped = self._save_wanted = self._calling_back = False
        self._progress: Any = None
        self._closing = contextlib.ExitStack()
        self._saving = Saving(self, self._callbacks)

    def start(
        self,
        model: PolicyModel,
        *,
        normalized: Any = None,
        replay: Any = None,
        paused: Callable[[], AbstractContextManager] = nullcontext,
    ) -> None:
        """Load or resume, share over ranks, and make the copies that follow the parameters.

        Args:
            model: what is trained.
            normalized: the environments whose normalisation belongs to the model; None for the run's.
            replay: experience that is saved beside the checkpoints and restored, by save(path) and load(path).
            paused: gives a context in which nothing else changes what is saved.
        """
        self.model, self._paused = model, paused
        self.environments = self.env
        if self.eval_env is not None:
            self.environments = Together([self.env, self.eval_env])
            self._num_tests = getattr(self.config, "num_test_episodes", 0) or EPISODES_IN_MEAN
        if self._saving.directory and self.is_root:
            self._closing.enter_context(locked(self._saving.directory))
        self._saving.begin(replay)
        self.normalized = self.env if normalized is None else normalized
        model.attach(self.normalized, self.options.config)
        if self.config.load_path is not None:
            model.load(self.config.load_path)
        if self.options.resume:
            self._saving.resume(self.options.resume)
        mpi.share(model.variables(), self.comm)
        model.ready()
        if self.comm.size > 1:
            logger.info(ranks_text(self.comm, self._num_envs))
        self._begin()

    def acts(self, *parts: Any) -> None:
        """Save where runners and collectors stand with every checkpoint; in a resumed run they go on from there.

        Args:
            parts: in the same order in every run; each has state() and restore().
        """
        self._saving.acts(parts)

    def at_end(self, call: Callable[[], None]) -> None:
        """Call something when the run is over, however it ends."""
        self._closing.callback(call)

    @property
    def mean_reward(self) -> float:
        """What counts: the mean return of the latest tests, or of training where there are none; NaN before any."""
        return safe_mean(self._latest_test) if self._latest_test else self.episodes.mean_reward

    @property
    def judged_return(self) -> float:
        """The mean return by which the run is judged: of the latest test, or else of as many episodes as in the logs.

        NaN before there are as many episodes.
        """
        if self._num_tests is None:
            return self.episodes.mean_reward if self.episodes.full else float("nan")
        return safe_mean(self._latest_test) if len(self._latest_test) == self._num_tests else float("nan")

    @property
    def _latest_test(self) -> list[float]:
        """Its returns; those of all tests where nothing says how many episodes one has."""
        return self.eval_episodes.rewards[-(self._num_tests or 0) :]

    def judge_by_tests(self, episodes: int) -> bool:
        """Judge the run by a callback's tests of this many episodes, unless it has its own; whether it does."""
        if self._num_tests is None:
            self._num_tests = episodes
            return True
        return False

    @property
    def is_root(self) -> bool:
        """Whether this rank writes files and shows progress."""
        return self.comm.rank == 0

    @property
    def timesteps(self) -> int:
        """Environment steps of this rank so far."""
        updates, steps = self._before
        return steps + (self.update - updates) * self.plan.steps_per_update

    def steps_of_all(self, *of_ranks: int) -> int:
        """Environment steps of all ranks so far, also those of a number of ranks that it was before it was resumed.

        Args:
            of_ranks: the steps of each, where they differ.
        """
        steps, of_all = self.counted
        each = of_ranks or [self.timesteps] * self.comm.size
        return of_all + sum(each) - steps * len(each)

    @property
    def done(self) -> int:
        """How far the run is, for the display of progress, in its `unit`."""
        return self.timesteps

    @property
    def fraction_left(self) -> float:
        """1 in the first update, going down to 1 / num_updates in the last."""
        return 1.0 - (self.update - 1.0) / self.num_updates

    @property
    def fraction_after_update(self) -> float:
        """The share of the steps that is left at the last step of this update, as baselines' Scheduler counts them."""
        return 1.0 - (self.timesteps - 1.0) / self.plan.total_timesteps

    @property
    def config(self) -> Any:
        """The algorithm's arguments; those that follow a schedule, but for rates, have their present values."""
        return self._rates.config(lambda: self.fraction_left if self.update else 1.0)

    def rates(self, fraction_left: float | None = None) -> dict[str, float]:
        """The value of every scheduled argument, by name, at `fraction_left` or where training now is."""
        return self._rates.at(self.fraction_left if fraction_left is None else fraction_left)

    def schedule(self, argument: str, schedule: Any) -> None:
        """Let an argument follow a schedule; see callbacks.Schedule."""
        self._rates.follow(argument, schedule)

    def __enter__(self: R) -> R:
        self._closing.enter_context(one_blas_thread())
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, *_: Any) -> None:
        # Whatever happens, the directory is left to other runs, and numpy its threads.
        with self._closing:
            if self._progress is None:
                return
            # After the save: it takes what callbacks hold, and a signal must not cost it.
            self._closing.callback(self._signals.release)
            self._closing.callback(self._callbacks.close)
            self._progress.close()
            if kind is None:
                self._end_well()
            elif self.comm.size == 1 and isinstance(error, Exception) and not isinstance(error, EXPECTED):
                self._rescue()

    def _begin(self) -> None:
        """Catch signals, show progress, and start the clock."""
        self._signals.catch()
        end = self._end()
        show = bool(self.options.progress) and self.is_root and end is not None
        self._progress = make_progress(show, self.name, self.done, end or 0, self.unit)
        now = time.perf_counter()
        self._started, self._saved_at = now - self.elapsed, now
        self._first = self._finished = self._saving.saved = self.update
        self._callbacks.begin(self)
        self._rows.begin(self.timesteps, now, self.episodes.count)

    def _end_well(self) -> None:
        """Save the last checkpoint; a signal that came meanwhile counts once that is done."""
        path = None
        if self.update > self._first:
            self._check_in_step()
            path = self.comm.broadcast_object(self.save(last=True))
            # Other ranks may resume it at once.
            self.comm.barrier()
        if self._signals.number:
            raise Interrupted(self._signals.number, path, self._saving.directory, self._saving.saved)

    def _rescue(self) -> None:
        """Save the model after an exception, as of the last update that was finished; what fails here is a warning."""
        self.update = self._finished
        saving = self._saving
        try:
            saved = self.update > saving.saved and self.save(last=True) is not None
        except Exception as error:
            # The error that ended the run is the one to tell.
            logger.warn(f"the run failed, and no checkpoint of update {self.update} could be saved: {error}")
            return
        if saved:
            logger.warn(f"the run failed after update {self.update}: --resume={saving.directory} goes on from there")

    def updates(self) -> Iterator[int]:
        """The numbers of the updates still to do, from 1 (or where the resumed run stopped) to num_updates."""
        while self.update < self.num_updates and not self._stopped:
            self.update += 1
            self._finite.begin(self.model, self._paused)
            yield self.update

    def finish_update(self, row: Callable[[], dict[str, Any]]) -> None:
        """End an update: log when it is time, save when it is time, show progress, stop when asked to.

        Args:
            row: called when a row of the logs is due; gives its keys and values.
        """
        self._finite.end(self.model, self.update, self._paused)
        now, plan = time.perf_counter(), self.plan
        self.elapsed = now - self._started
        self.environments.merge_statistics(self.comm)
        self._call_back()
        minutes = self.options.save_minutes
        number, save_due = self._agree(minutes is not None and now - self._saved_at >= 60 * minutes)
        # A run that ends because it is good enough shows that it is; rows may need every rank.
        if self._rows.due(self.update, self.num_updates, self.episodes.count) or self._stopped:
            self.fps = self._rows.speed(self.timesteps, now)
            logger.logkvs(row() | self._further_columns() | self.columns)
            logger.dumpkvs()
        if self.update % UPDATES_BETWEEN_SYNC_CHECKS == 0:
            self._check_in_step()
        for line in exchange.news():
            logger.info(line)
        self._finished = self.update
        self._progress.update(self.done, lambda: self.mean_reward)
        if number:
            path = self.comm.broadcast_object(self.save(last=True))
            raise Interrupted(number, path, self._saving.directory, self._saving.saved)
        if save_due or (plan.save_interval and (self.update == 1 or self.update % plan.save_interval == 0)):
            self.save()

    def _call_back(self) -> None:
        self._save_wanted, self._calling_back = False, True
        try:
            self._stopped = not self._callbacks(self) or self._stopped
        finally:
            self._calling_back = False

    def _further_columns(self) -> dict[str, int]:
        """What is told of some runs only."""
        of_all = self.steps_of_all()
        ranks = {} if self.comm.size == 1 and of_all == self.timesteps else {"global_timesteps": of_all}
        return ranks | ({"dropped_updates": self._finite.dropped} if self.options.on_nan == "skip" else {})

    def stop(self) -> None:
        """End the run, on every rank, after this update."""
        self._stopped = True

    def check(self, statistics: dict[str, Any]) -> dict[str, Any]:
        """The statistics of an update, none of which may be NaN or infinite; see training/guards.py."""
        self._finite.statistics(statistics, self.update)
        return statistics

    def save(self, last: bool = False) -> str | None:
        """Write a checkpoint (rank 0 writes, with every rank's own state in it); returns its path on rank 0.

        A save that fails is a warning: the checkpoint before it stays, and the next interval tries again. Called by a
        callback, it comes at the end of the update, after the row of the logs that belongs to it.
        """
        if self._calling_back:
            self._save_wanted = True
            return None
        self._saved_at = time.perf_counter()
        with self._paused():
            # A checkpoint of parameters that are not finite would push out good ones.
            self._finite.parameters(self.model.variables(), self.update)
            return self._saving.save(last)

    def _where(self) -> str:
        saved = f"; the last good checkpoint is {self._saving.saved:05d}" if self._saving.saved else ""
        return (f" on rank {self.comm.rank}" if self.comm.size > 1 else "") + saved

    def go_on_from(self, update: int, timesteps: int) -> None:
        """Count on from where a saved run stopped, whose episodes were just restored."""
        self.update, self._before = update, (update, timesteps)
        left = self.plan.total_timesteps - timesteps
        self.num_updates = update + max(0, left // self.plan.steps_per_update)

    def _end(self) -> int | None:
        """What `done` will be when the run is over; None where something else than steps ends it."""
        if self.plan.total_timesteps >= UNLIMITED:
            return None
        return self.timesteps + (self.num_updates - self.update) * self.plan.steps_per_update

    def _check_in_step(self) -> None:
        if self.comm.size > 1:
            parameters = [mpi.values(variable).ravel() for variable in self.model.variables()]
            mpi.sync_check(np.concatenate(parameters), self.comm)

    def _agree(self, save_due: bool) -> tuple[int, bool]:
        """Stop every rank in the same update, whichever of them it is due on.

        Args:
            save_due: it is time for a checkpoint; rank 0 decides.

        Returns:
            The number of a signal that came to any rank, or 0; whether a checkpoint is due.
        """
        own = self._signals.number, self._stopped, save_due or self._save_wanted
        numbers, stopped, due = zip(*(self.comm.gather(own) if self.comm.size > 1 else [own]), strict=True)
        self._stopped = any(stopped)
        return max(numbers), due[0]
