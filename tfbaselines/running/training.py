"""The training object: owns time in a run.

It counts updates and steps, owns the random generator, logs, saves, resumes, evaluates callbacks, shows progress and
ends the run, so that an algorithm's loop is a few lines:

    with Training(...) as training:
        for update in training.updates():
            ...
            training.finish_update(statistics)
"""

import os
import random
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import keras
import numpy as np

from tfbaselines.logs import logger
from tfbaselines.parallel import mpi
from tfbaselines.running.checkpoint import Checkpoints, load_tree
from tfbaselines.running.model import PolicyModel
from tfbaselines.running.progress import make_progress
from tfbaselines.settings.options import RunOptions

EPISODES_IN_MEAN = 100
UPDATES_BETWEEN_SYNC_CHECKS = 100


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


def safe_mean(values: Any) -> float:
    """The mean, or nan of nothing."""
    return float(np.mean(values)) if len(values) else float("nan")


class Episodes:
    """The latest episodes' returns and lengths, over which the logs' means go."""

    def __init__(self) -> None:
        self._latest: deque[tuple[float, float]] = deque(maxlen=EPISODES_IN_MEAN)
        # Of all there ever were.
        self.count = 0

    def extend(self, episodes: list[dict[str, Any]]) -> None:
        """Take in infos' 'episode' entries."""
        self.count += len(episodes)
        self._latest.extend((float(episode["r"]), float(episode["l"])) for episode in episodes)

    @property
    def mean_reward(self) -> float:
        """Mean return of the latest episodes; nan before the first one ends."""
        return safe_mean([reward for reward, _ in self._latest])

    @property
    def std_reward(self) -> float:
        """Standard deviation of the returns of the latest episodes; nan before the first one ends."""
        return float(np.std([reward for reward, _ in self._latest])) if self._latest else float("nan")

    @property
    def mean_length(self) -> float:
        """Mean length of the latest episodes; nan before the first one ends."""
        return safe_mean([length for _, length in self._latest])

    def state(self) -> dict[str, Any]:
        """The episodes."""
        return {"latest": np.asarray(self._latest, np.float64).reshape(-1, 2), "count": self.count}

    def restore(self, state: dict[str, Any]) -> None:
        """Take them back."""
        self._latest.clear()
        self._latest.extend(tuple(row) for row in state["latest"].tolist())
        self.count = state.get("count", len(self._latest))


class Training:
    """One run of one algorithm.

    Args:
        name: the algorithm's, for the progress display.
        model: what is trained; it is saved and restored.
        env: its environments; their normalisation and random streams are saved and restored.
        rng: the run's generator; saved and restored.
        total_timesteps: environment steps (of this rank) of the run; whole updates only, the rest is dropped.
        steps_per_update: environment steps in one update (of this rank).
        save_interval: updates between checkpoints; 0 saves only the last and on a signal.
        log_first: log the first update too; otherwise the last one, whatever its number.
        replay: experience that is saved beside the checkpoints and restored, by save(path) and load(path); None when
            there is none.
        replay_interval: updates between checkpoints beside which the replay is saved; 0 saves it with each. The last
            one has it in any case.
        paused: gives a context in which nothing else changes what is saved.
        run: the run's options.
        comm: the ranks that train together.
    """

    def __init__(
        self,
        name: str,
        model: PolicyModel,
        env: Any,
        rng: np.random.Generator,
        *,
        total_timesteps: int,
        steps_per_update: int,
        save_interval: int = 0,
        log_first: bool = True,
        replay: Any = None,
        replay_interval: int = 0,
        paused: Callable[[], AbstractContextManager] = nullcontext,
        run: RunOptions | None = None,
        comm: mpi.Communicator | None = None,
    ) -> None:
        self.name, self.model, self.env, self.rng, self.replay = name, model, env, rng, replay
        self.num_updates, self.steps_per_update = total_timesteps // steps_per_update, steps_per_update
        self.save_interval, self._paused, self._log_first = save_interval, paused, log_first
        self._replay_interval, self._replay_saved = replay_interval, 0
        if 0 < total_timesteps < steps_per_update:
            logger.warn(f"nothing to train: {total_timesteps} steps are less than one update of {steps_per_update}")
        self.run = run or RunOptions()
        self.comm = mpi.wrap(comm)
        self.update, self.elapsed = 0, 0.0
        self.episodes, self.eval_episodes = Episodes(), Episodes()
        self._best = -np.inf
        self._signal: int | None = None
        self._stopped = False
        directory = logger.configured_dir()
        self.checkpoints = (
            Checkpoints(os.path.join(directory, "checkpoints"), keep=self.run.keep_checkpoints) if directory else None
        )
        if self.run.resume:
            self._resume(self.run.resume)
        else:
            self._share_parameters()

    @property
    def is_root(self) -> bool:
        """Whether this rank writes files and shows progress."""
        return self.comm.rank == 0

    @property
    def timesteps(self) -> int:
        """Environment steps of this rank so far."""
        return self.update * self.steps_per_update

    @property
    def fraction_left(self) -> float:
        """1 in the first update, going down to 1 / num_updates in the last."""
        return 1.0 - (self.update - 1.0) / self.num_updates

    def __enter__(self) -> "Training":
        self._old_handlers = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._old_handlers[number] = signal.signal(number, self._on_signal)
        show = bool(self.run.progress) and self.is_root
        total = self.num_updates * self.steps_per_update
        self._progress = make_progress(show, self.name, self.timesteps, total)
        self._start, self._first = time.perf_counter() - self.elapsed, self.update
        # When the last row was logged: fps is of the updates since.
        self._logged = self.update, time.perf_counter()
        return self

    def __exit__(self, kind: type | None, *_: Any) -> None:
        self._progress.close()
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        if kind is None and self.update > self._first:
            self._check_in_step()
            self.save(last=True)

    def updates(self) -> Iterator[int]:
        """The numbers of the updates still to do, from 1 (or where the resumed run stopped) to num_updates."""
        while self.update < self.num_updates and not self._stopped:
            self.update += 1
            yield self.update

    def finish_update(
        self,
        log_interval: int,
        statistics: Callable[["Training"], dict[str, Any]],
    ) -> None:
        """End an update: log when it is time, save when it is time, show progress, stop when asked to.

        Args:
            log_interval: a row is logged at each multiple of this, and see log_first.
            statistics: called when a row is due; gives its keys and values.
        """
        now = time.perf_counter()
        self.elapsed = now - self._start
        self.env.merge_statistics(self.comm)
        # Of epochs the last one may be a part of one; without them the first row comes early.
        extra = 1 if self._log_first else self.num_updates
        if self.update == extra or self.update % log_interval == 0:
            updates, seconds = self.update - self._logged[0], now - self._logged[1]
            self.fps = int(updates * self.steps_per_update / max(seconds, 1e-9))
            self._logged = self.update, now
            logger.logkvs(statistics(self))
            logger.dumpkvs()
        if self.update % UPDATES_BETWEEN_SYNC_CHECKS == 0:
            self._check_in_step()
        if self.save_interval and (self.update == 1 or self.update % self.save_interval == 0):
            self.save()
        self._progress.update(self.timesteps, self.episodes.mean_reward)
        if self.run.callback is not None and self.run.callback(self) is False:
            self._stopped = True
        self._agree_to_stop()

    def save(self, last: bool = False) -> str | None:
        """Write a checkpoint (rank 0 writes, with every rank's own state in it); returns its path on rank 0."""
        with self._paused():
            return self._save(last)

    def _save(self, last: bool) -> str | None:
        due = last or self.update - self._replay_saved >= self._replay_interval
        if due and self.replay is not None and self.checkpoints is not None:
            self.replay.save(self._replay_path(self.checkpoints))
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
        checkpoints = Checkpoints(os.path.join(directory, "checkpoints"), keep=self.run.keep_checkpoints)
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
        if self.replay is not None:
            self._resume_replay(self._replay_path(checkpoints))
        if self.update >= self.num_updates:
            logger.warn(f"nothing left to train: {self.timesteps} steps are done; a larger total goes on from there")

    def _replay_path(self, checkpoints: Checkpoints) -> str:
        return os.path.join(checkpoints.directory, os.pardir, "replay", f"{self.comm.rank:03d}")

    def _resume_replay(self, path: str) -> None:
        """A replay that is missing or damaged costs experience, not the run."""
        try:
            self.replay.load(path)
        except ValueError as error:
            logger.warn(f"the replay starts empty: {error}")

    def _share_parameters(self) -> None:
        if self.comm.size > 1:
            for variable in self.model.policy.trainable_variables:
                variable.assign(self.comm.broadcast(variable.numpy()))
            self.model.actor.refresh()

    def _check_in_step(self) -> None:
        if self.comm.size > 1:
            variables = self.model.policy.trainable_variables
            mpi.sync_check(np.concatenate([variable.numpy().ravel() for variable in variables]), self.comm)

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
