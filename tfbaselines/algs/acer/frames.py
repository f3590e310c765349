"""Observations of a replayed sequence in little memory: each frame of stacked images once, compressed."""

import math
import zlib

import numpy as np
from gymnasium import spaces

from tfbaselines.algs.acer.saved import Trajectory
from tfbaselines.envs.vec import VecEnv, VecFrameStack, find_wrapper
from tfbaselines.envs.vec.observations import is_image
from tfbaselines.errors import UsageError

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
