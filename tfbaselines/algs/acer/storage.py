"""Sequences as few arrays for a file, and back; what is read may be damaged or come from a stranger.

Sequences of stacked images in little memory: every frame once, compressed; stacks are rebuilt on reading.
"""

import math
import zlib
from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.arrays import check_size
from tfbaselines.errors import UsageError

Sequence = dict[str, np.ndarray]

# Arrays with an entry more than the sequence has steps.
FENCES = ("obs", "episode_start")

NAMES = {"obs", "episode_start", "actions", "rewards", "terminated", "truncated", "mus"}

# Names of arrays in replays saved by older versions.
OLD_NAMES = {"masks": "episode_start", "ended": "terminated", "cut": "truncated"}

# Bytes that the objects of one sequence take beside its numbers.
BYTES_PER_SEQUENCE = 2000

DAMAGED = "the saved replay is damaged"


def check_layout(state: dict[str, Any], wanted: str) -> None:
    """ValueError unless a saved replay has the layout wanted."""
    if state.get("layout") != wanted:
        raise UsageError(f"the saved replay is of {state.get('layout')!s:.80}, this one of {wanted}")


def flatten(sequences: list[Sequence]) -> dict[str, Any]:
    """Sequences as few arrays: for each name the concatenated pieces, and their lengths."""
    names = sorted(sequences[0]) if sequences else []
    return {
        "arrays": {name: np.concatenate([sequence[name] for sequence in sequences]) for name in names},
        "lengths": {name: np.array([len(sequence[name]) for sequence in sequences]) for name in names},
    }


def unflatten(state: dict[str, Any], observation: spaces.Space, action: spaces.Space, packed: bool) -> list[Sequence]:
    """The sequences that `flatten` was given; arrays of older versions get their present names.

    Args:
        state: what `flatten` returned.
        observation: space of the observations.
        action: space of the actions.
        packed: observations are bytes.

    Returns:
        The sequences; ValueError when they do not fit together, or are of other spaces.
    """
    arrays, lengths = (
        {OLD_NAMES.get(name, name): part for name, part in _named(state, key).items()} for key in ("arrays", "lengths")
    )
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
    """How many pieces each whole episode has, and each that has not ended, by environment.

    Older versions did not save those that have not ended. ValueError unless there are `total` pieces in all.
    """
    whole, going_on = state.get("pieces"), state.get("open", np.zeros(0, np.int64))
    fits = all(
        _is_vector(counts) and not np.any((counts < least) | (counts > total))
        for counts, least in ((whole, 1), (going_on, 0))
    )
    if not fits or whole.sum() + going_on.sum() != total:
        raise UsageError(f"{DAMAGED}: its episodes do not have the {total} pieces that there are")
    return whole.tolist(), going_on.tolist()


def _named(state: dict[str, Any], key: str) -> dict[str, Any]:
    part = state.get(key)
    if not isinstance(part, dict) or not all(isinstance(array, np.ndarray) and array.ndim for array in part.values()):
        raise UsageError(f"{DAMAGED}: its {key} are missing")
    return part


def _is_vector(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.ndim == 1 and np.issubdtype(array.dtype, np.integer)


def _check_lengths(arrays: Sequence, lengths: Sequence, packed: bool) -> None:
    steps = lengths["rewards"]
    for name, own in lengths.items():
        fits = _is_vector(own) and own.shape == steps.shape and not np.any((own < 1) | (own > len(arrays[name])))
        if fits and name == "states":
            fits = bool(np.all((own == 1) | (own == steps)))
        elif fits and not (name == "obs" and packed):
            fits = np.array_equal(own, steps + (name in FENCES))
        if not fits or own.sum() != len(arrays[name]):
            raise UsageError(f"{DAMAGED}: the lengths of {name} do not fit")


def _check_shapes(arrays: Sequence, observation: spaces.Space, action: spaces.Space, packed: bool) -> None:
    wanted = dict.fromkeys(("episode_start", "rewards", "terminated", "truncated"), ())
    wanted |= {"obs": () if packed else observation.shape, "actions": action.shape}
    for name, array in arrays.items():
        tail = array.shape[1:]
        if array.dtype.kind not in "biuf" or (tail != wanted[name] if name in wanted else len(tail) != 1):
            raise UsageError(f"{DAMAGED}, or of other environments: {name} has shape {array.shape}, {array.dtype}")
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
        shape: of one observation [rows, columns, C]: the latest C frames along the last axis, or one picture.
        nstack: frames in an observation; 1 keeps observations whole.
    """

    def __init__(self, shape: tuple[int, ...], nstack: int) -> None:
        # A stack of colour frames shifts by one channel a step, as in the original: it has no frames to take apart.
        self._nstack = nstack if shape[-1] == nstack else 1
        self._shape = shape

    def pack(self, obs: np.ndarray) -> np.ndarray:
        """Observations [L, ...] of successive steps as bytes."""
        return np.frombuffer(zlib.compress(self._frames(obs).tobytes(), COMPRESSION_LEVEL), np.uint8)

    def unpack(self, packed: np.ndarray, episode_start: np.ndarray) -> np.ndarray:
        """The observations that were packed.

        Args:
            packed: the result of `pack`.
            episode_start: [L], whether each observation is the first of an episode: earlier frames are zero.
        """
        if self._nstack == 1:
            return self._decompressed(packed, (len(episode_start), *self._shape))
        frames = self._decompressed(packed, (len(episode_start) + self._nstack - 1, *self._shape[:-1]))
        obs = np.empty((len(episode_start), *self._shape), np.uint8)
        for k in range(self._nstack):
            obs[..., k] = frames[k : k + len(episode_start)]
        # The first observation was packed whole; in those after it, frames of an earlier episode are zero.
        for start in np.flatnonzero(episode_start[1:]) + 1:
            for t in range(start, min(start + self._nstack - 1, len(episode_start))):
                obs[t, ..., : self._nstack - 1 - (t - start)] = 0
        return obs

    @staticmethod
    def _decompressed(packed: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Frames; ValueError when there are not as many as the shape has, before more than these are decompressed."""
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
        """A copy of the observations."""
        return obs.copy()

    def unpack(self, packed: np.ndarray, episode_start: np.ndarray) -> np.ndarray:
        """The observations."""
        return packed
