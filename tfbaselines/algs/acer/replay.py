"""Trajectories: a runner that collects them, their packed form in memory and in files, and the replay of rollouts.

A trajectory is a dictionary of arrays: obs [L + 1, ...] and episode_start [L + 1] (1 where an observation is the first
of its episode), actions, rewards, terminated and truncated [L] (see loss.py) and mus [L, P], the parameters of the
distributions that actions were drawn from; for recurrent policies states [L, S] before each step. A replay keeps the
first state only. A batch has a leading axis.

In memory each frame of stacked images is kept once, compressed. A file has few arrays; it may be damaged or come from a
stranger.
"""

import itertools
import math
import zlib
from collections import deque
from collections.abc import Iterable
from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.envs.vec import VecEnv, shared_frames
from tfbaselines.envs.vec.observations import is_image
from tfbaselines.errors import UsageError
from tfbaselines.files import check_array, check_size, in_units, require_memory
from tfbaselines.logs import logger
from tfbaselines.replay.storage import clip_rewards
from tfbaselines.rollout.rollout import Runner

Trajectory = dict[str, np.ndarray]

# Arrays with one entry more than the sequence has steps.
FENCES = ("obs", "episode_start")

NAMES = {"obs", "episode_start", "actions", "rewards", "terminated", "truncated", "mus"}

# Memory of one sequence's Python objects, in bytes, in addition to its numbers.
BYTES_PER_SEQUENCE = 2000

DAMAGED = "the saved replay is damaged"


def check_layout(state: dict[str, Any], wanted: str) -> None:
    """Raise UsageError unless a saved replay has the layout wanted."""
    layout = state.get("layout") if isinstance(state, dict) else None
    if layout != wanted:
        raise UsageError(f"the saved replay holds {layout!s:.80}, this run needs {wanted}")


def counter(state: dict[str, Any], name: str) -> int:
    """Return a number of a saved replay; UsageError if it is missing."""
    number = state.get(name)
    if type(number) is not int or number < 0:
        raise UsageError(f"{DAMAGED}: '{name}' is missing")
    return number


def flatten(sequences: list[Trajectory]) -> dict[str, Any]:
    """Concatenate the arrays of all sequences by name, and keep their lengths."""
    names = sorted(sequences[0]) if sequences else []
    return {
        "arrays": {name: np.concatenate([sequence[name] for sequence in sequences]) for name in names},
        "lengths": {name: np.array([len(sequence[name]) for sequence in sequences]) for name in names},
    }


def unflatten(state: dict[str, Any], observation: spaces.Space, action: spaces.Space, packed: bool) -> list[Trajectory]:
    """Restore the sequences that `flatten` was given.

    Args:
        state: the result of `flatten`.
        observation: space of the observations.
        action: space of the actions.
        packed: observations are bytes.

    Returns:
        The sequences. UsageError when they do not fit together or come from other spaces.
    """
    arrays, lengths = _arrays(state, "arrays"), _arrays(state, "lengths")
    if not arrays and not lengths:
        return []
    if arrays.keys() != lengths.keys() or arrays.keys() - {"states"} != NAMES:
        raise UsageError(f"{DAMAGED}: it has the arrays {', '.join(sorted(arrays))[:200]}")
    _check_lengths(arrays, lengths, packed)
    _check_shapes(arrays, observation, action, packed)
    count = len(lengths["rewards"])
    check_size(BYTES_PER_SEQUENCE * count)
    parts = {name: np.split(array, np.cumsum(lengths[name])[:-1]) for name, array in arrays.items()}
    return [{name: pieces[i].copy() for name, pieces in parts.items()} for i in range(count)]


def counts_of(state: dict[str, Any], total: int, least: int) -> list[int]:
    """Return the number of pieces of each episode, at least `least`; UsageError unless there are `total` in all."""
    counts = state.get("counts")
    if not _is_vector(counts) or np.any((counts < least) | (counts > total)) or counts.sum() != total:
        raise UsageError(f"{DAMAGED}: its episodes do not consist of its {total} pieces")
    return counts.tolist()


def _arrays(state: dict[str, Any], key: str) -> dict[str, Any]:
    part = state.get(key) if isinstance(state, dict) else None
    if not isinstance(part, dict) or not all(isinstance(array, np.ndarray) and array.ndim for array in part.values()):
        raise UsageError(f"{DAMAGED}: its {key} are missing")
    return part


def _is_vector(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.ndim == 1 and np.issubdtype(array.dtype, np.integer)


def _check_lengths(arrays: Trajectory, lengths: Trajectory, packed: bool) -> None:
    steps = lengths["rewards"]
    for name, own in lengths.items():
        fits = _is_vector(own) and own.shape == steps.shape and not np.any((own < 1) | (own > len(arrays[name])))
        if fits and name == "states":
            fits = bool(np.all((own == 1) | (own == steps)))
        elif fits and not (name == "obs" and packed):
            fits = np.array_equal(own, steps + (name in FENCES))
        if not fits or own.sum() != len(arrays[name]):
            raise UsageError(f"{DAMAGED}: the lengths of {name} do not fit")


def _check_shapes(arrays: Trajectory, observation: spaces.Space, action: spaces.Space, packed: bool) -> None:
    wanted = dict.fromkeys(("episode_start", "rewards", "terminated", "truncated"), ())
    wanted |= {"obs": () if packed else observation.shape, "actions": action.shape}
    try:
        for name, array in arrays.items():
            check_array(name, array, ("T", *wanted.get(name, ("width",))))
    except ValueError as error:
        raise UsageError(f"{DAMAGED}, or of other environments: {error}") from None
    if packed and arrays["obs"].dtype != np.uint8:
        raise UsageError(f"{DAMAGED}: packed observations are {arrays['obs'].dtype}")
    if isinstance(action, spaces.Discrete):
        numbers = arrays["actions"] - action.start
        if numbers.dtype.kind == "f" or np.any((numbers < 0) | (numbers >= action.n)):
            raise UsageError(f"{DAMAGED}, or of other environments: it has actions that {action} has not")


# Level 1 takes half the time of the others and still shrinks Atari frames about tenfold.
COMPRESSION_LEVEL = 1


class FramePacker:
    """Packs the observations of a sequence of steps.

    Args:
        shape: shape of one observation [rows, columns, C]: the latest C frames along the last axis, or one picture.
        nstack: frames in an observation; 1 keeps observations whole.
    """

    def __init__(self, shape: tuple[int, ...], nstack: int) -> None:
        # A stack of color frames shifts by one channel a step, as in the original: it cannot be split into frames.
        self._nstack = nstack if shape[-1] == nstack else 1
        self._shape = shape

    def pack(self, obs: np.ndarray) -> np.ndarray:
        """Pack observations [L, ...] of successive steps into bytes."""
        return np.frombuffer(zlib.compress(self._frames(obs).tobytes(), COMPRESSION_LEVEL), np.uint8)

    def unpack(self, packed: np.ndarray, episode_start: np.ndarray) -> np.ndarray:
        """Rebuild the observations that were packed.

        Args:
            packed: the result of `pack`.
            episode_start: [L], 1 where an observation is the first of an episode: earlier frames are zero.
        """
        if self._nstack == 1:
            return self._decompressed(packed, (len(episode_start), *self._shape))
        frames = self._decompressed(packed, (len(episode_start) + self._nstack - 1, *self._shape[:-1]))
        obs = np.empty((len(episode_start), *self._shape), np.uint8)
        for k in range(self._nstack):
            obs[..., k] = frames[k : k + len(episode_start)]
        # The first observation was packed whole; in later ones, frames of an earlier episode are zero.
        for start in np.flatnonzero(episode_start[1:]) + 1:
            for t in range(start, min(start + self._nstack - 1, len(episode_start))):
                obs[t, ..., : self._nstack - 1 - (t - start)] = 0
        return obs

    @staticmethod
    def _decompressed(packed: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Unzip frames; refuse data of another size without unzipping the rest of it."""
        size, stream = math.prod(shape), zlib.decompressobj()
        try:
            data = stream.decompress(packed.tobytes(), size + 1)
        except zlib.error as error:
            raise UsageError(f"packed frames are damaged ({error})") from None
        if len(data) != size:
            raise UsageError(f"packed frames are damaged: not the {size} bytes of {shape}")
        return np.frombuffer(data, np.uint8).reshape(shape)

    def _frames(self, obs: np.ndarray) -> np.ndarray:
        if self._nstack == 1:
            return obs
        return np.concatenate([np.moveaxis(obs[0], -1, 0)[:-1], obs[..., -1]])


class PlainPacker:
    """Keeps observations that are not images unchanged."""

    def pack(self, obs: np.ndarray) -> np.ndarray:
        return obs.copy()

    def unpack(self, packed: np.ndarray, episode_start: np.ndarray) -> np.ndarray:
        return packed


Packer = FramePacker | PlainPacker


def make_packer(env: VecEnv) -> Packer:
    """Make the packer for an environment's observations."""
    space = env.observation_space
    if not is_image(space) or not isinstance(space, spaces.Box):
        return PlainPacker()
    return FramePacker(space.shape, shared_frames(env))


def pack(sequence: Trajectory, packer: Packer) -> Trajectory:
    """Copy a sequence, with packed observations."""
    return {name: packer.pack(array) if name == "obs" else array.copy() for name, array in sequence.items()}


def unpack(packed: Trajectory, packer: Packer) -> Trajectory:
    """Restore the sequence that `pack` was given."""
    return packed | {"obs": packer.unpack(packed["obs"], packed["episode_start"])}


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
            self._step(rollout, t, actions)
        self.episodes = rollout.episodes
        rollout.last_episode_start = self._episode_start
        batch = {
            "obs": np.concatenate([rollout.obs, self._obs[None]]),
            "episode_start": np.concatenate([rollout.episode_start, self._episode_start[None]]).astype(np.float32),
            "actions": rollout.actions,
            "rewards": clip_rewards(rollout.rewards, self._reward_clip),
            "terminated": (rollout.ended & ~rollout.truncated).astype(np.float32),
            "truncated": rollout.truncated.astype(np.float32),
            "mus": self._mus,
        }
        if self._states is not None:
            batch["states"] = self._states_before
        return {name: array.swapaxes(0, 1).copy() for name, array in batch.items()}

    def _bootstrap(self, *_: Any) -> None:
        """Compute no value for a truncated step: Retrace bootstraps at the step before it."""


class RolloutReplay:
    """The latest rollouts of every environment; a batch has one of each environment, drawn independently.

    It is kept beside checkpoints by training/kept_replay.py, which describes `span`, `items`, `state` and `rebuild`.

    `size` steps of each environment are kept, in rollouts of `nsteps`.
    """

    def __init__(self, env: VecEnv, size: int, nsteps: int) -> None:
        self._count = env.num_envs
        self._nsteps = nsteps
        self._slots = max(1, size // nsteps)
        self._packer = make_packer(env)
        self._spaces = env.observation_space, env.action_space
        self._rollouts: deque[list[Trajectory]] = deque(maxlen=self._slots)
        self._layout = f"rollouts of {nsteps} steps of {env.num_envs} environments"
        self._stored = 0
        self.item_nbytes = 0

    def put(self, batch: Trajectory) -> None:
        """Store a rollout of all environments, and log the memory of the full replay after the first one."""
        if "states" in batch:
            batch = batch | {"states": batch["states"][:, :1]}
        self._rollouts.append([pack(part_of(batch, i), self._packer) for i in range(self._count)])
        self._stored += 1
        if self.item_nbytes:
            return
        self.item_nbytes = sum(map(size_of, self._rollouts[-1]))
        nbytes = self.item_nbytes * self._slots
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

    def span(self) -> tuple[int, int]:
        return self._stored - len(self._rollouts), self._stored

    def items(self, first: int, last: int) -> dict[str, Any]:
        begin, _ = self.span()
        rollouts = itertools.islice(self._rollouts, first - begin, last - begin)
        return flatten([sequence for rollout in rollouts for sequence in rollout])

    def state(self) -> dict[str, Any]:
        return {"layout": self._layout, "stored": self._stored}

    def rebuild(
        self, state: dict[str, Any], pieces: Iterable[tuple[int, dict[str, Any]]], episodes_continue: bool
    ) -> None:
        # Rollouts do not depend on how their episodes continue.
        check_layout(state, self._layout)
        stored, count = counter(state, "stored"), self._count
        rollouts = []
        for _, piece in pieces:
            sequences = unflatten(piece, *self._spaces, packed=isinstance(self._packer, FramePacker))
            if len(sequences) % count or any(len(one["rewards"]) != self._nsteps for one in sequences):
                raise UsageError(f"the saved replay is damaged: not {self._layout}")
            rollouts += [sequences[start : start + count] for start in range(0, len(sequences), count)]
        self._stored = stored
        self._rollouts.clear()
        self._rollouts.extend(rollouts)


def part_of(batch: Trajectory, number: int) -> Trajectory:
    """Take one trajectory out of a batch."""
    return {name: array[number] for name, array in batch.items()}


def stack(sequences: list[Trajectory]) -> Trajectory:
    """Make a batch of trajectories of one length."""
    return {name: np.stack([sequence[name] for sequence in sequences]) for name in sequences[0]}


def size_of(sequence: Trajectory) -> int:
    """Count the bytes of a trajectory's arrays."""
    return sum(array.nbytes for array in sequence.values())


def valid_steps(batch: Trajectory) -> float:
    """Count the steps of a batch that losses are means over; see loss.py."""
    return max(1.0, float(np.sum(1.0 - batch["truncated"])))


def observations_of(batch: Trajectory) -> np.ndarray:
    """Return the observations [B, ...] of a batch that were acted on."""
    seen = batch["obs"][:, :-1]
    return seen.reshape(-1, *seen.shape[2:])
