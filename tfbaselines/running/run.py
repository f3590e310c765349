"""One run of one algorithm: it owns the communicator, the generator, precision, logs, checkpoints, and time.

A run has phases, in this order:

1. build: the constructor sets precision and seeds; the algorithm builds its model.
2. `start(model)`: load or resume; rank 0's parameters are broadcast; copies that follow them are made; signals are
   caught from here on.
3. `for update in run.updates(): ...; run.finish_update(row)`: logs, checkpoints, progress.
4. the end of the `with run:` block: ranks are compared, the last checkpoint is saved.
"""

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import keras
import numpy as np

from tfbaselines.logs import logger
from tfbaselines.logs.episodes import Episodes
from tfbaselines.parallel import mpi
from tfbaselines.policy.precision import set_precision
from tfbaselines.running.checkpoint import Checkpoints, load_tree
from tfbaselines.running.model import PolicyModel
from tfbaselines.running.progress import make_progress
from tfbaselines.settings.bases import PolicyConfig, RunConfig

UPDATES_BETWEEN_SYNC_CHECKS = 100

R = TypeVar("R", bound="Run")


class Interrupted(Exception):
    """The run was stopped by a signal, after its checkpoint was saved.

    Attributes:
        signal: the signal's number.
        checkpoint: where the checkpoint is, or None when the run has no log directory.
    """

    def __init__(self, number: int, checkpoint: str | None) -> None:
        saved = f"checkpoint saved in {checkpoint}" if checkpoint else "no log directory, so nothing was saved"
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
        save_interval: updates between checkpoints; 0 saves only the last, and on a signal.
        replay_interval: updates between checkpoints beside which the replay is saved; 0 saves it with each. The last
            one has it in any case.
    """

    total_timesteps: int
    steps_per_update: int
    log_interval: int = 1
    log_first: bool = True
    save_interval: int = 0
    replay_interval: int = 0

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


class Run:
    """See the module. A callback gets this object after every update.

    Attributes:
        name: the algorithm's.
        config: its arguments.
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

    Args:
        name: the algorithm's name.
        env: environments, or what saves and restores those of several workers as one.
        config: the algorithm's arguments.
        plan: when the run does what.
    """

    def __init__(self, name: str, env: Any, config: RunConfig, plan: Plan) -> None:
        self.name, self.env, self.config, self.plan = name, env, config, plan
        self.options, self.comm = config.options, mpi.wrap(config.comm)
        self._rates = config.schedules()
        self.num_updates = plan.total_timesteps // plan.steps_per_update
        if 0 < plan.total_timesteps < plan.steps_per_update:
            least = plan.steps_per_update
            logger.warn(f"nothing to train: {plan.total_timesteps} steps are less than one update of {least}")
        set_precision(self.options.precision)
        self.rng = seed_everything(config.seed, self.comm)
        self.model: PolicyModel | None = None
        self.update, self.elapsed, self.fps = 0, 0.0, 0
        self.episodes, self.eval_episodes = Episodes(), Episodes()
        self._replay: Any = None
        self._replay_saved = 0
        self._paused: Callable[[], AbstractContextManager] = nullcontext
        self._best = -np.inf
        self._signal: int | None = None
        self._stopped = False
        self._old_handlers: dict[int, Any] = {}
        self._progress: Any = None
        directory = logger.configured_dir()
        self.checkpoints = (
            Checkpoints(os.path.join(directory, "checkpoints"), keep=self.options.keep_checkpoints)
            if directory
            else None
        )

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
        self.model, self._replay, self._paused = model, replay, paused
        model.attach(self.env if normalized is None else normalized, self.options.config)
        if self.config.load_path is not None:
            model.load(self.config.load_path)
        if self.options.resume:
            self._resume(self.options.resume)
        self._share(model.variables())
        model.ready()
        self._begin()

    @property
    def is_root(self) -> bool:
        """Whether this rank writes files and shows progress."""
        return self.comm.rank == 0

    @property
    def timesteps(self) -> int:
        """Environment steps of this rank so far."""
        return self.update * self.plan.steps_per_update

    @property
    def fraction_left(self) -> float:
        """1 in the first update, going down to 1 / num_updates in the last."""
        return 1.0 - (self.update - 1.0) / self.num_updates

    def rates(self) -> dict[str, float]:
        """The present value of every scheduled argument, by name."""
        return {name: rate(self.fraction_left) for name, rate in self._rates.items()}

    def __enter__(self: R) -> R:
        return self

    def __exit__(self, kind: type | None, *_: Any) -> None:
        if self._progress is None:
            return
        self._progress.close()
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        if kind is None and self.update > self._first:
            self._check_in_step()
            self.save(last=True)

    def _begin(self) -> None:
        """Catch signals, show progress, and start the clock."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._old_handlers[number] = signal.signal(number, self._on_signal)
        show = bool(self.options.progress) and self.is_root
        total = self.num_updates * self.plan.steps_per_update
        self._progress = make_progress(show, self.name, self.timesteps, total)
        self._started, self._first = time.perf_counter() - self.elapsed, self.update
        # When the last row was logged: fps is of the updates since.
        self._logged = self.update, time.perf_counter()

    def updates(self) -> Iterator[int]:
        """The numbers of the updates still to do, from 1 (or where the resumed run stopped) to num_updates."""
        while self.update < self.num_updates and not self._stopped:
            self.update += 1
            yield self.update

    def finish_update(self, row: Callable[[], dict[str, Any]]) -> None:
        """End an update: log when it is time, save when it is time, show progress, stop when asked to.

        Args:
            row: called when a row of the logs is due; gives its keys and values.
        """
        now, plan = time.perf_counter(), self.plan
        self.elapsed = now - self._started
        self.env.merge_statistics(self.comm)
        # Of epochs the last one may be a part of one; without them the first row comes early.
        extra = 1 if plan.log_first else self.num_updates
        if self.update == extra or self.update % plan.log_interval == 0:
            updates, seconds = self.update - self._logged[0], now - self._logged[1]
            self.fps = int(updates * plan.steps_per_update / max(seconds, 1e-9))
            self._logged = self.update, now
            logger.logkvs(row())
            logger.dumpkvs()
        if self.update % UPDATES_BETWEEN_SYNC_CHECKS == 0:
            self._check_in_step()
        if plan.save_interval and (self.update == 1 or self.update % plan.save_interval == 0):
            self.save()
        self._progress.update(self.timesteps, self.episodes.mean_reward)
        if self.options.callback is not None and self.options.callback(self) is False:
            self._stopped = True
        self._agree_to_stop()

    def save(self, last: bool = False) -> str | None:
        """Write a checkpoint (rank 0 writes, with every rank's own state in it); returns its path on rank 0."""
        with self._paused():
            return self._save(last)

    def _save(self, last: bool) -> str | None:
        due = last or self.update - self._replay_saved >= self.plan.replay_interval
        if due and self._replay is not None and self.checkpoints is not None:
            self._replay.save(self._replay_path(self.checkpoints))
            self._replay_saved = self.update
        ranks = self.comm.gather({"rng": self.rng.bit_generator.state, "env": self.env.state()})
        if not self.is_root or self.checkpoints is None:
            return None
        tree = self.model.tree()
        tree["training"] = {
            "update": self.update,
            "elapsed": self.elapsed,
            "episodes": self.episodes.state(),
            "eval_episodes": self.eval_episodes.state(),
            "best": self._best if np.isfinite(self._best) else None,
            "ranks": {str(rank): state for rank, state in enumerate(ranks)},
        }
        path = self.checkpoints.save(self.update, tree)
        judged = self.eval_episodes if np.isfinite(self.eval_episodes.mean_reward) else self.episodes
        if judged.mean_reward > self._best:
            self._best = judged.mean_reward
            self.checkpoints.mark_best(path)
        return str(path)

    def _resume(self, directory: str) -> None:
        checkpoints = Checkpoints(os.path.join(directory, "checkpoints"), keep=self.options.keep_checkpoints)
        path = checkpoints.latest()
        if path is None:
            raise ValueError(f"cannot resume: there is no readable checkpoint in '{directory}'")
        tree = load_tree(path)
        self.model.take(tree, path)
        saved = tree["training"]
        self.update, self.elapsed = saved["update"], saved["elapsed"]
        self.episodes.restore(saved["episodes"])
        self.eval_episodes.restore(saved["eval_episodes"])
        self._best = saved["best"] if saved["best"] is not None else -np.inf
        mine = saved["ranks"].get(str(self.comm.rank))
        if mine is not None:
            self.rng.bit_generator.state = mine["rng"]
            self.env.restore(mine["env"])
        if self._replay is not None:
            self._resume_replay(self._replay_path(checkpoints))
        if self.update >= self.num_updates:
            logger.warn(f"nothing left to train: {self.timesteps} steps are done; a larger total goes on from there")

    def _replay_path(self, checkpoints: Checkpoints) -> str:
        return os.path.join(checkpoints.directory, os.pardir, "replay", f"{self.comm.rank:03d}")

    def _resume_replay(self, path: str) -> None:
        """A replay that is missing or damaged costs experience, not the run."""
        try:
            self._replay.load(path)
        except ValueError as error:
            logger.warn(f"the replay starts empty: {error}")

    def _share(self, variables: list[Any]) -> None:
        """Broadcast rank 0's values: what is initialised at random differs from rank to rank."""
        if self.comm.size > 1:
            for variable in variables:
                if isinstance(variable, np.ndarray):
                    variable[...] = self.comm.broadcast(variable)
                else:
                    variable.assign(self.comm.broadcast(variable.numpy()))

    def _check_in_step(self) -> None:
        if self.comm.size > 1:
            mpi.sync_check(
                np.concatenate([_values(variable).ravel() for variable in self.model.variables()]), self.comm
            )

    def _on_signal(self, number: int, _frame: Any) -> None:
        if self._signal is not None:
            # A second one does not wait for the update to end.
            raise KeyboardInterrupt
        self._signal = number

    def _agree_to_stop(self) -> None:
        """Stop on every rank in the same update when one of them got a signal or its callback ended the run."""
        wish = -1 if self._stopped else (self._signal or 0)
        wishes = self.comm.gather(wish) if self.comm.size > 1 else [wish]
        number = max(wishes)
        if number > 0:
            raise Interrupted(number, self.save(last=True))
        self._stopped = min(wishes) < 0


def _values(variable: Any) -> np.ndarray:
    """The numbers of a Keras variable, or the array itself."""
    return variable if isinstance(variable, np.ndarray) else variable.numpy()
