"""Off-policy learning from sequences: collecting them, keeping them, and putting some together to a batch.

A sequence is a dictionary of arrays: obs [L + 1, ...] and masks [L + 1] (whether each observation is the first of its
episode), actions, rewards, ended, cut [L] (see retrace) and mus [L, P] (parameters of what acted); for recurrent
policies states [S], the memory before the first step. A batch is the same with a leading axis.
"""

from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.envs.vec import VecEnv, VecEnvWrapper, VecFrameStack
from tfbaselines.experience.frames import FramePacker, PlainPacker
from tfbaselines.experience.rollout import Rollout, Runner
from tfbaselines.policy.encoding import is_image

GIB = 2.0**30

Sequence = dict[str, np.ndarray]


class TraceRunner(Runner):
    """Collects sequences of nsteps, with what acted and the observation after the last step."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._mus = np.zeros((self.nsteps, self._env.num_envs, self._head.param_size), np.float32)
        self.episodes: list[dict[str, Any]] = []

    def run(self) -> Sequence:
        """Step every environment nsteps times; the batch [N, ...]."""
        rollout, noise = self._begin()
        for t in range(self.nsteps):
            actions, self._mus[t], states = self._actor.behave(self._obs, self._states, self._dones, noise[t])
            # The states belong to the observation that follows, also when the episode ends here.
            self._states = states
            self._record(rollout, t, actions)
        self.episodes = rollout.episodes
        dones_after = np.concatenate([rollout.dones[1:], self._dones[None]])
        batch = {
            "obs": np.concatenate([rollout.obs, self._obs[None]]),
            "masks": np.concatenate([rollout.dones, self._dones[None]]).astype(np.float32),
            "actions": rollout.actions,
            "rewards": rollout.rewards,
            "ended": (dones_after & ~rollout.timeouts).astype(np.float32),
            "cut": rollout.timeouts.astype(np.float32),
            "mus": self._mus,
        }
        batch = {name: np.ascontiguousarray(array.swapaxes(0, 1)) for name, array in batch.items()}
        return batch | ({} if rollout.states is None else {"states": rollout.states})

    def _value_at_timeout(self, rollout: Rollout, t: int, i: int, last: np.ndarray) -> None:
        """Nothing: the step is cut, and the one before it bootstraps."""


class SequenceReplay:
    """A ring of sequences.

    Args:
        capacity: how many sequences.
        packer: keeps their observations small.
    """

    def __init__(self, capacity: int, packer: FramePacker | PlainPacker) -> None:
        self._capacity, self._packer = capacity, packer
        self._sequences: list[Sequence] = []
        self._next = 0

    def __len__(self) -> int:
        return len(self._sequences)

    def put(self, sequence: Sequence) -> None:
        """Take in a sequence; the oldest one goes when there is no more room."""
        kept = {name: np.array(array) for name, array in sequence.items() if name != "obs"}
        kept["obs"] = self._packer.pack(sequence["obs"])
        if len(self._sequences) < self._capacity:
            self._sequences.append(kept)
        else:
            self._sequences[self._next] = kept
        self._next = (self._next + 1) % self._capacity

    def get(self, number: int) -> Sequence:
        """One sequence, its observations unpacked."""
        kept = self._sequences[number]
        return kept | {"obs": self._packer.unpack(kept["obs"], kept["masks"])}

    @property
    def nbytes(self) -> int:
        """Memory of what is kept now."""
        return sum(array.nbytes for kept in self._sequences for array in kept.values())

    def state(self) -> dict[str, Any]:
        """All sequences: for each array the pieces end to end, and their lengths."""
        names = sorted(self._sequences[0]) if self._sequences else []
        return {
            "next": self._next,
            "arrays": {name: np.concatenate([kept[name] for kept in self._sequences]) for name in names},
            "lengths": {name: np.array([len(kept[name]) for kept in self._sequences]) for name in names},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `state` gave."""
        parts = {
            name: np.split(array, np.cumsum(state["lengths"][name])[:-1]) for name, array in state["arrays"].items()
        }
        count = len(next(iter(state["lengths"].values()), ()))
        self._sequences = [{name: pieces[i].copy() for name, pieces in parts.items()} for i in range(count)]
        self._sequences = self._sequences[-self._capacity :]
        self._next = state["next"] % self._capacity


class RolloutReplay:
    """The latest rollouts of every environment; a batch has one of each environment, drawn independently.

    Args:
        env: the environments.
        size: steps of each environment to keep.
        nsteps: steps of a rollout.
    """

    def __init__(self, env: VecEnv, size: int, nsteps: int) -> None:
        self._count, self._nsteps = env.num_envs, nsteps
        self._slots = max(1, size // nsteps)
        self._sequences = SequenceReplay(self._slots * env.num_envs, make_packer(env))
        self._estimated = False

    def put(self, batch: Sequence) -> str | None:
        """Take in a rollout of all environments; after the first one, words on the memory of a full replay."""
        for i in range(self._count):
            self._sequences.put({name: array[i] for name, array in batch.items()})
        if self._estimated:
            return None
        self._estimated = True
        nbytes = self._sequences.nbytes * self._slots
        check_memory(nbytes)
        return f"replay: about {nbytes / GIB:.2f} GiB when full, {self._slots * self._nsteps} steps of each environment"

    def has_atleast(self, steps: int) -> bool:
        """Whether so many steps of every environment are kept."""
        return len(self._sequences) >= max(1, steps // self._nsteps) * self._count

    def sample(self, rng: np.random.Generator) -> Sequence:
        """A batch [N, ...]."""
        slots = rng.integers(len(self._sequences) // self._count, size=self._count)
        return stack([self._sequences.get(int(slot) * self._count + i) for i, slot in enumerate(slots)])

    def state(self) -> dict[str, Any]:
        """See SequenceReplay."""
        return self._sequences.state()

    def restore(self, state: dict[str, Any]) -> None:
        """See SequenceReplay."""
        self._sequences.restore(state)


def make_packer(env: VecEnv) -> FramePacker | PlainPacker:
    """What fits the environment's observations."""
    space = env.observation_space
    if not is_image(space) or not isinstance(space, spaces.Box):
        return PlainPacker()
    return FramePacker(space.shape, _frames_stacked(env))


def _frames_stacked(env: VecEnv) -> int:
    while isinstance(env, VecEnvWrapper):
        if isinstance(env, VecFrameStack):
            return env.nstack
        env = env.venv
    return 1


def stack(sequences: list[Sequence]) -> Sequence:
    """Sequences of one length as a batch."""
    return {name: np.stack([sequence[name] for sequence in sequences]) for name in sequences[0]}


def check_memory(nbytes: int) -> None:
    """ValueError when the machine has not got so much memory left."""
    available = available_memory()
    if available is not None and nbytes > available:
        raise ValueError(
            f"the replay would take {nbytes / GIB:.1f} GiB and {available / GIB:.1f} GiB are free: lower buffer_size"
        )


def available_memory() -> int | None:
    """Bytes that can still be allocated (Linux); None where the system does not tell."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None
