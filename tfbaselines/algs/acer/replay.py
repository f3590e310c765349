"""Trajectories: a runner that collects them, and the replay memory of rollouts.

A trajectory is a dictionary of arrays: obs [L + 1, ...] and episode_start [L + 1] (1 where an observation is the first
of its episode), actions, rewards, terminated and truncated [L] (see loss.py) and mus [L, P], the parameters of the
distributions that actions were drawn from; for recurrent policies states [L, S] before each step. A replay keeps the
first state only. A batch has a leading axis.
"""

import os
from collections import deque
from typing import Any

import numpy as np

from tfbaselines.algs.acer.saved import (
    FramePacker,
    Trajectory,
    check_layout,
    flatten,
    make_packer,
    pack,
    unflatten,
    unpack,
)
from tfbaselines.arrays import in_units, require_memory
from tfbaselines.envs.vec import VecEnv
from tfbaselines.errors import UsageError
from tfbaselines.logs import logger
from tfbaselines.rollout.rollout import Runner
from tfbaselines.training.checkpoint import TreeFile


class TrajectoryRunner(Runner):
    """Collects nsteps of every environment, with the parameters mu that actions were drawn from, but no values.

    Attributes:
        episodes: the infos' 'episode' entries of the episodes that ended in the latest run.

    Args:
        reward_clip: bound of the rewards' magnitude; None for none.
        args: positional arguments of Runner.
    """

    def __init__(self, *args: Any, reward_clip: float | None = None) -> None:
        super().__init__(*args)
        self._reward_clip = reward_clip
        shape = (self.nsteps, self._env.num_envs)
        self._mus = np.zeros((*shape, self._head.param_size), np.float32)
        self._states_before = None if self._states is None else np.zeros((*shape, self._states.shape[1]), np.float32)
        self.episodes: list[dict[str, Any]] = []

    def run(self) -> Trajectory:
        """Step every environment nsteps times and return the batch [N, ...]."""
        rollout, noise = self._begin()
        for t in range(self.nsteps):
            if self._states is not None:
                self._states_before[t] = self._states
            actions, self._mus[t], self._states = self._actor.behave(
                self._obs, self._states, self._episode_start, noise[t]
            )
            # Truncated steps need no value: Retrace bootstraps at the step before them.
            self._record(rollout, t, actions)
        self.episodes = rollout.episodes
        rollout.last_episode_start = self._episode_start
        bound, rewards = self._reward_clip, rollout.rewards
        batch = {
            "obs": np.concatenate([rollout.obs, self._obs[None]]),
            "episode_start": np.concatenate([rollout.episode_start, self._episode_start[None]]).astype(np.float32),
            "actions": rollout.actions,
            "rewards": rewards if bound is None else np.clip(rewards, -bound, bound),
            "terminated": (rollout.ended & ~rollout.truncated).astype(np.float32),
            "truncated": rollout.truncated.astype(np.float32),
            "mus": self._mus,
        }
        if self._states is not None:
            batch["states"] = self._states_before
        return {name: array.swapaxes(0, 1).copy() for name, array in batch.items()}


class RolloutReplay:
    """The latest rollouts of every environment; a batch has one of each environment, drawn independently.

    Args:
        env: the environments.
        size: steps of each environment to keep.
        nsteps: steps of a rollout.
    """

    def __init__(self, env: VecEnv, size: int, nsteps: int) -> None:
        self._count = env.num_envs
        self._nsteps = nsteps
        self._slots = max(1, size // nsteps)
        self._packer = make_packer(env)
        self._spaces = env.observation_space, env.action_space
        self._rollouts: deque[list[Trajectory]] = deque(maxlen=self._slots)
        self._layout = f"rollouts of {nsteps} steps of {env.num_envs} environments"
        self._announced = False

    def put(self, batch: Trajectory) -> None:
        """Store a rollout of all environments, and log the memory of the full replay after the first one."""
        if "states" in batch:
            batch = batch | {"states": batch["states"][:, :1]}
        self._rollouts.append([pack(part_of(batch, i), self._packer) for i in range(self._count)])
        if self._announced:
            return
        self._announced = True
        nbytes = sum(map(size_of, self._rollouts[-1])) * self._slots
        require_memory(nbytes, "buffer_size")
        steps = self._slots * self._nsteps
        logger.info(f"replay: about {in_units(nbytes)} when full, {steps} steps of each environment")

    def has_atleast(self, steps: int) -> bool:
        """Return whether this many steps of every environment are kept, in whole rollouts."""
        return len(self._rollouts) >= max(1, steps // self._nsteps)

    def sample(self, rng: np.random.Generator) -> Trajectory:
        """Draw a batch [N, ...]."""
        slots = rng.integers(len(self._rollouts), size=self._count)
        return stack([unpack(self._rollouts[slot][i], self._packer) for i, slot in enumerate(slots)])

    def state(self) -> dict[str, Any]:
        """Return all trajectories."""
        return flatten([sequence for rollout in self._rollouts for sequence in rollout]) | {"layout": self._layout}

    def restore(self, state: dict[str, Any]) -> None:
        """Load the result of `state`; UsageError when it holds other rollouts."""
        check_layout(state, self._layout)
        sequences = unflatten(state, *self._spaces, packed=isinstance(self._packer, FramePacker))
        count = self._count
        if len(sequences) % count or any(len(one["rewards"]) != self._nsteps for one in sequences):
            raise UsageError(f"the saved replay is damaged: not {self._layout}")
        self._rollouts.clear()
        self._rollouts.extend(sequences[start : start + count] for start in range(0, len(sequences), count))

    def forget_unfinished(self) -> None:
        """Do nothing: rollouts do not depend on how their episodes continue."""


class ReplayFile(TreeFile):
    """Saves a replay beside the checkpoints.

    Args:
        replay: has state(), restore() and forget_unfinished().
    """

    def __init__(self, replay: Any) -> None:
        super().__init__(replay)
        self._replay = replay

    def load(self, path: str | os.PathLike, episodes_continue: bool = False) -> None:
        """Read a saved replay; keep its unfinished episodes only if the environments continue them."""
        super().load(path)
        if not episodes_continue:
            self._replay.forget_unfinished()


def part_of(batch: Trajectory, number: int) -> Trajectory:
    """Take one trajectory out of a batch."""
    return {name: array[number] for name, array in batch.items()}


def stack(sequences: list[Trajectory]) -> Trajectory:
    """Make a batch of trajectories of one length."""
    return {name: np.stack([sequence[name] for sequence in sequences]) for name in sequences[0]}


def size_of(sequence: Trajectory) -> int:
    """Return the bytes of a trajectory's arrays."""
    return sum(array.nbytes for array in sequence.values())


def valid_steps(batch: Trajectory) -> float:
    """Count the steps of a batch that losses are means over; see loss.py."""
    return max(1.0, float(np.sum(1.0 - batch["truncated"])))


def observations_of(batch: Trajectory) -> np.ndarray:
    """Return the observations [B, ...] of a batch that were acted on."""
    seen = batch["obs"][:, :-1]
    return seen.reshape(-1, *seen.shape[2:])
