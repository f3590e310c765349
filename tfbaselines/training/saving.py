"""Checkpoints of a run: their content, the replay beside them, and how a run resumes from one."""

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tfbaselines.cli.stored import circumstances, describe_learn
from tfbaselines.config.algorithm import Algorithm
from tfbaselines.config.config import Config
from tfbaselines.config.options import FILE_NAME, RunOptions, to_jsonable, write_config
from tfbaselines.envs.adapt import CannotBeStored, describe_env
from tfbaselines.envs.vec import VecEnv
from tfbaselines.errors import InUseError, UsageError
from tfbaselines.logs import logger
from tfbaselines.logs.directory import cut_back, lock_again, positions
from tfbaselines.parallel import mpi
from tfbaselines.training.callbacks import Callbacks
from tfbaselines.training.checkpoint import Checkpoints, DamagedError, fault_of
from tfbaselines.training.clock import Clock
from tfbaselines.training.kept_replay import Growing, KeptReplay
from tfbaselines.training.model import PolicyModel
from tfbaselines.training.testing import Scores


@dataclass
class RunState:
    """State of a run beside its model, as a checkpoint holds it.

    Attributes:
        clock: counters, equal on all ranks.
        scores: latest episodes; a checkpoint has rank 0's.
        rng: random generator of this rank.
        environments: environments of this rank.
        callbacks: callbacks of this rank.
        comm: ranks that train together.
        acting: runners and collectors of this rank.
    """

    clock: Clock
    scores: Scores
    rng: np.random.Generator
    environments: Any
    callbacks: Callbacks
    comm: mpi.Communicator
    acting: list[Any] = field(default_factory=list)

    def gather(self) -> list[dict[str, Any]]:
        """Return the state of each rank; every rank calls this."""
        own = {
            "rng": self.rng.bit_generator.state,
            "timesteps": self.clock.timesteps,
            "env": self.environments.state(),
            "callbacks": self.callbacks.state(),
            "acting": {str(number): part.state() for number, part in enumerate(self.acting)},
        }
        return self.comm.gather(own)

    def tree(self, ranks: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the state of the run, from the states of its ranks."""
        steps = [state["timesteps"] for state in ranks]
        return self.clock.state(steps) | self.scores.state() | {"ranks": _numbered(ranks)}

    def restore(self, saved: dict[str, Any]) -> list[dict[str, Any]]:
        """Take over a state, and return the states of this rank's runners and collectors."""
        self.scores.restore(saved)
        self.clock.restore(saved)
        own = saved["ranks"].get(str(self.comm.rank))
        if own is None:
            return []
        self.rng.bit_generator.state = own["rng"]
        self.environments.restore(own["env"])
        self.callbacks.restore(own["callbacks"])
        return [own["acting"][number] for number in sorted(own["acting"], key=int)]


def _numbered(states: list[dict[str, Any]]) -> dict[str, Any]:
    return {str(number): state for number, state in enumerate(states)}


def describe_run(algorithm: Algorithm, config: Config, env: VecEnv) -> dict[str, Any]:
    """Describe a run for its files; what Python's learn was given may have no description."""
    options = config.options
    if options.config is not None or options.network is None:
        return options.config or {}
    try:
        described = describe_env(env, config.seed, not algorithm.dict_observations)
    except CannotBeStored:
        described = {}
    try:
        return describe_learn(algorithm, options.network, config, described)
    except UsageError as why:
        return {"alg": algorithm.name, "why": str(why)}


class Saving:
    """Write the checkpoints of a run, and resume from an earlier one.

    Attributes:
        directory: log directory; None to save nothing.
        saved: update of the latest checkpoint, or the update at which the run began.

    Args:
        model: model of the run.
        state: the other state of the run.
        options: options of the run.
        description: content of config.json, which is written if it names environments; saved files have all of it.
        replay: experience that is saved beside the checkpoints, see kept_replay.py; a list of several, or None.
    """

    def __init__(
        self,
        model: PolicyModel,
        state: RunState,
        options: RunOptions,
        description: dict[str, Any],
        replay: Growing | list[Growing] | None,
    ) -> None:
        self._model = model
        self._state = state
        self._options = options
        self._description = description if description.get("env") else {}
        self.directory = logger.configured_dir()
        self.saved = 0
        self._checkpoints = self._of(self.directory) if self.directory else None
        replays = replay if isinstance(replay, list) else [] if replay is None else [replay]
        name = f"{state.comm.rank:03d}"
        self._replays = [KeptReplay(one, f"{name}.{number}" if number else name) for number, one in enumerate(replays)]
        self._best = -np.inf
        self._resumed: Path | None = None
        # States of runners and collectors that a resumed run has not made yet.
        self._to_restore: list[dict[str, Any]] = []

    @property
    def _is_root(self) -> bool:
        return self._state.comm.rank == 0

    def remove_leftovers(self) -> None:
        """Remove files that a killed run left half written."""
        if self._checkpoints is not None and self._is_root:
            self._checkpoints.remove_leftovers()

    def begin(self) -> None:
        """Count from the present update; a run of Python replaces an earlier run's description."""
        clock = self._state.clock
        self.saved = clock.update
        begins = self._options.config is None and self._options.resume is None and clock.update < clock.num_updates
        if begins and self.directory and self._is_root:
            with contextlib.suppress(FileNotFoundError):
                os.remove(os.path.join(self.directory, FILE_NAME))
            self._describe()

    def _describe(self) -> None:
        """Write config.json."""
        if self._description:
            about = {} if self._options.config else to_jsonable(circumstances(self._state.comm.size))
            write_config(self.directory, about | self._description)

    def acts(self, parts: tuple[Any, ...]) -> None:
        """Restore runners and collectors of a resumed run, and save them from now on; see Run.acts."""
        for part, state in zip(parts, self._to_restore, strict=False):
            try:
                part.restore(state)
            except Exception as error:
                reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
                raise DamagedError(f"'{self._resumed}' is damaged: {reason}") from None
        self._to_restore = self._to_restore[len(parts) :]
        self._state.acting.extend(parts)

    def save(self) -> str | None:
        """Write a checkpoint and, before it, its replay; return the checkpoint's path on rank 0.

        A failure is a warning, and the checkpoint before it stays.
        """
        if self._checkpoints is not None:
            if self._is_root:
                # If the directory was deleted and another run now owns it, do not overwrite that run.
                self._try("checkpoint", partial(lock_again, self.directory))
            for replay in self._replays:
                self._try("replay", partial(replay.save, self._checkpoints, self._state.clock.update))
        return self._try("checkpoint", self._write)

    def resume(self, directory: str) -> None:
        """Continue from the newest checkpoint of a log directory that can be read; ValueError if there is none."""
        checkpoints = self._of(directory)
        path, tree, warning = checkpoints.newest(self._take)
        if path is None:
            raise UsageError(f"cannot resume: {checkpoints.describe()}{warning}")
        self._resumed = path
        saved = tree["training"]
        if self._is_root and self.directory and os.path.realpath(directory) == os.path.realpath(self.directory):
            # Before this run logs its first warning.
            cut_back(self.directory, saved["files"] or positions(self.directory))
        environments = self._state.environments
        for replay in self._replays:
            replay.load(checkpoints, self._state.clock.update, environments.restored)
        self._warn(warning)
        if self._is_root and self.directory:
            # Only now: arguments that do not fit the checkpoint must not replace the directory's.
            self._describe()

    def _take(self, path: Path, tree: dict[str, Any]) -> None:
        """Take over a checkpoint, on every rank or on none."""
        if "training" not in tree:
            raise UsageError(f"cannot resume: '{path}' is no checkpoint of a run (it has no state of training)")
        fault = fault_of(tree["training"]) or self._restored(path, tree)
        faults = [one for one in self._state.comm.gather(fault) if one is not None]
        if faults:
            raise DamagedError(f"'{path}' is damaged: {faults[0]}")

    def _restored(self, path: Path, tree: dict[str, Any]) -> str | None:
        """Restore model and run; return what is wrong with the state."""
        try:
            self._model.take(tree, path)
            saved = tree["training"]
            known = positions(self.directory) if self.directory else {}
            for name, size in (saved["files"] or {}).items():
                if name in known and size.keys() != known[name].keys():
                    return f"training.files.{name} is {size!r:.100}"
            self._best = saved["best"] if saved["best"] is not None else -np.inf
            self._to_restore = self._state.restore(saved)
        except DamagedError as error:
            return str(error)
        except UsageError:
            # The model has another network or environment.
            raise
        except Exception as error:  # Generators and environments raise anything for a state that is not theirs.
            return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        return None

    def _warn(self, warning: str) -> None:
        clock = self._state.clock
        if warning:
            logger.warn(warning)
        if not self._state.environments.restored:
            logger.warn("the episodes under way begin anew: the checkpoint lacks the state of their environments")
        if clock.update >= clock.num_updates:
            by_steps = clock.unit == "step"
            total = clock.plan.total_timesteps if by_steps else clock.end
            least = clock.done + (clock.plan.steps_per_update if by_steps else 1)
            logger.warn(
                f"nothing left to train: {clock.done} of {total} {clock.unit}s are done, and the next update needs a "
                f"total of at least {least}"
            )

    def _of(self, directory: str) -> Checkpoints:
        return Checkpoints(os.path.join(directory, "checkpoints"), keep=self._options.keep_checkpoints)

    def _try(self, what: str, save: Callable[[], Any]) -> Any:
        try:
            return save()
        except InUseError:
            raise
        except (OSError, ValueError) as error:
            logger.warn(f"the {what} of update {self._state.clock.update} could not be saved: {error}")
            return None

    def _write(self) -> str | None:
        ranks = self._state.gather()
        writes = self._is_root and self._checkpoints is not None
        try:
            files = positions(self.directory) if writes else None
        finally:
            # All ranks write to these files: none continues before their lengths are known.
            self._state.comm.barrier()
        if not writes:
            return None
        update = self._state.clock.update
        tree = self._model.tree()
        best = self._best if np.isfinite(self._best) else None
        tree["training"] = self._state.tree(ranks) | {"best": best, "files": files}
        path = self._checkpoints.save(update, tree)
        self.saved = update
        if not os.path.exists(os.path.join(self.directory, FILE_NAME)):
            # The directory was deleted meanwhile; without this file it could not be evaluated.
            self._describe()
        mean_reward = self._state.scores.mean_reward
        lost = np.isfinite(mean_reward) and not self._checkpoints.best_path.exists()
        if lost or mean_reward > self._best:
            self._best = mean_reward
            self._checkpoints.mark_best(path)
        return str(path)
