"""Replayed sequences in little memory, each frame of stacked images once and compressed, and as few arrays in a file.

A file may be damaged or come from a stranger.
"""

import math
import zlib
from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.arrays import check_array, check_size
from tfbaselines.envs.vec import VecEnv, VecFrameStack, find_wrapper
from tfbaselines.envs.vec.observations import is_image
from tfbaselines.errors import UsageError

Trajectory = dict[str, np.ndarray]

# Arrays with one entry more than the sequence has steps.
FENCES = ("obs", "episode_start")

NAMES = {"obs", "episode_start", "actions", "rewards", "terminated", "truncated", "mus"}

# Memory of one sequence's Python objects, in bytes, in addition to its numbers.
BYTES_PER_SEQUENCE = 2000

DAMAGED = "the saved replay is damaged"


def check_layout(state: dict[str, Any], wanted: str) -> None:
    """Raise UsageError unless a saved replay has the layout wanted."""
    if state.get("layout") != wanted:
        raise UsageError(f"the saved replay holds {state.get('layout')!s:.80}, this run needs {wanted}")


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


def counts_of(state: dict[str, Any], total: int) -> tuple[list[int], list[int]]:
    """Return the number of pieces of each finished episode, and of the unfinished one of each environment.

    UsageError unless there are `total` pieces in all.
    """
    finished, unfinished = state.get("pieces"), state.get("open")
    fits = all(
        _is_vector(counts) and not np.any((counts < least) | (counts > total))
        for counts, least in ((finished, 1), (unfinished, 0))
    )
    if not fits or finished.sum() + unfinished.sum() != total:
        raise UsageError(f"{DAMAGED}: its episodes do not consist of its {total} pieces")
    return finished.tolist(), unfinished.tolist()


def _arrays(state: dict[str, Any], key: str) -> dict[str, Any]:
    part = state.get(key)
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
        """Copy the observations."""
        return obs.copy()

    def unpack(self, packed: np.ndarray, episode_start: np.ndarray) -> np.ndarray:
        """Return the observations."""
        return packed


Packer = FramePacker | PlainPacker


def make_packer(env: VecEnv) -> Packer:
    """Make the packer for an environment's observations."""
    space = env.observation_space
    if not is_image(space) or not isinstance(space, spaces.Box):
        return PlainPacker()
    stacked = find_wrapper(env, VecFrameStack)
    return FramePacker(space.shape, stacked.nstack if stacked else 1)


def pack(sequence: Trajectory, packer: Packer) -> Trajectory:
    """Copy a sequence, with packed observations."""
    return {name: packer.pack(array) if name == "obs" else array.copy() for name, array in sequence.items()}


def unpack(packed: Trajectory, packer: Packer) -> Trajectory:
    """Restore the sequence that `pack` was given."""
    return packed | {"obs": packer.unpack(packed["obs"], packed["episode_start"])}
