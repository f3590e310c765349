"""Sequences of stacked images kept small: every frame once, compressed, and the stacks rebuilt when they are needed."""

import math
import zlib

import numpy as np

# Level 1 takes half the time of the others and Atari frames shrink some tenfold all the same.
COMPRESSION_LEVEL = 1


class FramePacker:
    """Packs the observations of a sequence of steps.

    Args:
        shape: of one observation [rows, columns, C]: the latest C frames along the last axis, or one picture.
        nstack: how many frames an observation stacks; 1 keeps it as it is.
    """

    def __init__(self, shape: tuple[int, ...], nstack: int) -> None:
        # A stack of colour frames moves by one channel a step, as in the original, and cannot be taken apart.
        self._nstack = nstack if shape[-1] == nstack else 1
        self._shape = shape

    def pack(self, obs: np.ndarray) -> np.ndarray:
        """Observations [L, ...] of successive steps as bytes."""
        return np.frombuffer(zlib.compress(self._frames(obs).tobytes(), COMPRESSION_LEVEL), np.uint8)

    def unpack(self, packed: np.ndarray, first: np.ndarray) -> np.ndarray:
        """The observations again.

        Args:
            packed: what `pack` gave.
            first: [L], whether each observation is the first of an episode: older frames than that are zero.
        """
        if self._nstack == 1:
            return self._decompressed(packed, (len(first), *self._shape))
        frames = self._decompressed(packed, (len(first) + self._nstack - 1, *self._shape[:-1]))
        obs = np.empty((len(first), *self._shape), np.uint8)
        for k in range(self._nstack):
            obs[..., k] = frames[k : k + len(first)]
        # What the first observation shows is as it was; after it, stacks are cut where an episode began.
        for start in np.flatnonzero(first[1:]) + 1:
            for t in range(start, min(start + self._nstack - 1, len(first))):
                obs[t, ..., : self._nstack - 1 - (t - start)] = 0
        return obs

    @staticmethod
    def _decompressed(packed: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Frames; ValueError when there are not as many as the shape has, before more than these are decompressed."""
        size, stream = math.prod(shape), zlib.decompressobj()
        try:
            data = stream.decompress(packed.tobytes(), size + 1)
        except zlib.error as error:
            raise ValueError(f"packed frames are damaged ({error})") from None
        if len(data) != size:
            raise ValueError(f"packed frames are damaged: not the {size} bytes of {shape}")
        return np.frombuffer(data, np.uint8).reshape(shape)

    def _frames(self, obs: np.ndarray) -> np.ndarray:
        if self._nstack == 1:
            return obs
        return np.concatenate([np.moveaxis(obs[0], -1, 0)[:-1], obs[..., -1]])


class PlainPacker:
    """Keeps observations that are not images as they are."""

    def pack(self, obs: np.ndarray) -> np.ndarray:
        """A copy of the observations."""
        return obs.copy()

    def unpack(self, packed: np.ndarray, first: np.ndarray) -> np.ndarray:
        """The observations."""
        return packed
