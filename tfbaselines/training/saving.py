"""The checkpoints of a run: what they hold, the replay beside them, and how a run goes on from one."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from tfbaselines.config.files import FILE_NAME, write_config
from tfbaselines.errors import InUseError, UsageError
from tfbaselines.logs import logger
from tfbaselines.logs.directory import cut_back, lock_again, positions
from tfbaselines.training.checkpoint import Checkpoints, KeptReplay


class Saving:
    """Writes the checkpoints of a run, and takes up an earlier one.

    Attributes:
        directory: of the log files; None without any, and then nothing is saved.
        saved: the update of the latest checkpoint, or that at which the run began.

    Args:
        run: whose state it is; see Run.
        callbacks: the run's, which have states of their own.
    """

    def __init__(self, run: Any, callbacks: Any) -> None:
        self._run, self._callbacks = run, callbacks
        self.directory, self.saved = logger.configured_dir(), 0
        self._checkpoints = self._of(self.directory) if self.directory else None
        self._replay: KeptReplay | None = None
        self._best = -np.inf
        # What acts in the environments, and where a resumed run's stood.
        self._acting: list[Any] = []
        self._acted: list[dict[str, Any]] = []

    def begin(self, replay: Any) -> None:
        """Make room in the directory.

        Args:
            replay: experience that is saved beside the checkpoints, by save(path) and load(path); None for none.
        """
        self._replay = None if replay is None else KeptReplay(replay, self._run.comm.rank)
        if self._checkpoints is not None and self._run.is_root:
            self._checkpoints.remove_leftovers()

    def acts(self, parts: tuple[Any, ...]) -> None:
        """Save and restore where runners and collectors stand; see Run.acts."""
        for part, state in zip(parts, self._acted, strict=False):
            part.restore(state)
        self._acted = self._acted[len(parts) :]
        self._acting += parts

    def save(self, last: bool) -> str | None:
        """Write a checkpoint, and now and then the replay; returns the checkpoint's path on rank 0.

        What fails is a warning; the checkpoint before it stays.

        Args:
            last: the run ends, so that the replay is due.
        """
        update, replay, most = self._run.update, self._replay, self._run.plan.replay_interval
        path = self._try("checkpoint", self._write)
        if replay is not None and self._checkpoints is not None and (last or update - replay.saved >= most):
            # After the checkpoint, which its failure must not cost.
            self._try("replay", lambda: replay.save(self._checkpoints, update))
        return path

    def resume(self, directory: str) -> None:
        """Go on from the newest checkpoint of a log directory that can be read; ValueError when there is none."""
        run, checkpoints = self._run, self._of(directory)
        path, tree, warning = checkpoints.newest()
        if path is None:
            raise UsageError(f"cannot resume: {checkpoints.describe()}")
        run.model.take(tree, path)
        try:
            saved = tree["training"]
            self._take_up(saved)
        except (LookupError, TypeError, AttributeError) as error:
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            raise UsageError(f"cannot resume: '{path}' is no checkpoint of a run ({reason})") from None
        if run.is_root and self.directory and os.path.realpath(directory) == os.path.realpath(self.directory):
            # Before any warning of this run is in the log.
            cut_back(self.directory, saved.get("files") or positions(self.directory))
        if self._replay is not None:
            self._replay.load(checkpoints, run.update, run.environments.restored)
        if warning:
            logger.warn(warning)
        if not run.environments.restored:
            logger.warn("the episodes under way begin anew: the checkpoint lacks the state of their environments")
        if run.update >= run.num_updates:
            logger.warn(f"nothing left to train: {run.timesteps} steps are done; a larger total goes on from there")
        if run.is_root and self.directory and run.options.config:
            # Not before: arguments that do not fit the checkpoint must not be kept.
            write_config(self.directory, run.options.config)

    def _of(self, directory: str) -> Checkpoints:
        return Checkpoints(os.path.join(directory, "checkpoints"), keep=self._run.options.keep_checkpoints)

    def _try(self, what: str, save: Callable[[], Any]) -> Any:
        try:
            return save()
        except InUseError:
            raise
        except (OSError, ValueError) as error:
            logger.warn(f"the {what} of update {self._run.update} could not be saved: {error}")
            return None

    def _write(self) -> str | None:
        run = self._run
        own = {
            "rng": run.rng.bit_generator.state,
            "timesteps": run.timesteps,
            "env": run.environments.state(),
            "callbacks": self._callbacks.state(),
            "acting": {str(number): part.state() for number, part in enumerate(self._acting)},
        }
        ranks = run.comm.gather(own)
        writes = run.is_root and self._checkpoints is not None
        try:
            files = positions(self.directory) if writes else None
        finally:
            # The other ranks, too, write to these files: none goes on before.
            run.comm.barrier()
        if not writes:
            return None
        # Of another run that has taken the directory since it was removed, nothing may be overwritten.
        lock_again(self.directory)
        tree = run.model.tree()
        tree["training"] = {
            "update": run.update,
            "timesteps": run.timesteps,
            "timesteps_of_all": run.steps_of_all(*(state["timesteps"] for state in ranks)),
            "elapsed": run.elapsed,
            "episodes": run.episodes.state(),
            "eval_episodes": run.eval_episodes.state(),
            "best": self._best if np.isfinite(self._best) else None,
            "ranks": {str(rank): state for rank, state in enumerate(ranks)},
            "files": files,
        }
        path = self._checkpoints.save(run.update, tree)
        self.saved = run.update
        if run.options.config and not os.path.exists(os.path.join(self.directory, FILE_NAME)):
            # Without it a directory that was removed meanwhile could not be evaluated.
            write_config(self.directory, run.options.config)
        if run.mean_reward > self._best:
            self._best = run.mean_reward
            self._checkpoints.mark_best(path)
        return str(path)

    def _take_up(self, saved: dict[str, Any]) -> None:
        """Counters, episodes, random streams and environments as a checkpoint has them."""
        run = self._run
        run.elapsed = saved["elapsed"]
        run.episodes.restore(saved["episodes"])
        run.eval_episodes.restore(saved["eval_episodes"])
        # An older version's file lacks the steps: its updates were of the same size.
        run.go_on_from(saved["update"], saved.get("timesteps", saved["update"] * run.plan.steps_per_update))
        run.counted = run.timesteps, saved.get("timesteps_of_all", run.timesteps * len(saved["ranks"]))
        self._best = saved["best"] if saved["best"] is not None else -np.inf
        mine = saved["ranks"].get(str(run.comm.rank))
        if mine is not None:
            run.rng.bit_generator.state = mine["rng"]
            run.environments.restore(mine["env"])
            self._callbacks.restore(mine.get("callbacks", {}))
            acting = mine.get("acting", {})
            self._acted = [acting[number] for number in sorted(acting, key=int)]
