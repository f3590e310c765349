"""Encodings of observations for networks, in the graph and in numpy, and descriptions of spaces for saved files.

A normalizer scales observations by running statistics, which are merged over ranks.
"""

from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.envs.vec.observations import MASK as ACTION_MASK
from tfbaselines.envs.vec.observations import ONLY, is_image, parts_of
from tfbaselines.envs.vec.packed import PackedSpace, opened
from tfbaselines.errors import UsageError, bad_argument, warn
from tfbaselines.parallel import mpi
from tfbaselines.parallel.moments import MpiRunningMeanStd

# Numbers in a one-hot row from which networks over it are slow.
LARGE_ONE_HOT = 100_000


def observation_dtype(space: spaces.Space) -> np.dtype:
    """Choose the type of stored observations, which is also the type for compiled functions."""
    return np.dtype(np.float32) if space.dtype == np.float64 else np.dtype(space.dtype)


def observation_spec(space: spaces.Space, batch: int | None = None) -> Any:
    """Make the signature of a batch of observations for compiled functions; a Dict gives a dictionary."""
    if isinstance(space, spaces.Dict):
        return {name: observation_spec(part, batch) for name, part in space.spaces.items()}
    return tf.TensorSpec((batch, *(space.shape or ())), tf.as_dtype(observation_dtype(space)))


def encoded_shape(space: spaces.Space) -> tuple[int, ...]:
    """Compute the shape of one encoded observation."""
    if isinstance(space, spaces.Discrete):
        return (int(space.n),)
    if isinstance(space, spaces.MultiDiscrete):
        return (int(np.sum(space.nvec)),)
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        return tuple(space.shape)
    raise UsageError(
        f"observation space {space} is not supported: accepted are Box, Discrete, MultiDiscrete and MultiBinary "
        "(Dict and Tuple spaces without images are flattened)"
    )


def encode(obs: Any, space: spaces.Space) -> Any:
    """Encode observations [B, ...] as float32 [B, *encoded_shape]; pixels keep their type.

    Discrete becomes one-hot, MultiDiscrete a row of one-hots, and a Dict, packed or not, a dictionary of encoded parts.
    """
    if isinstance(space, PackedSpace):
        return encode(parts_in(obs, space), space.parts)
    if isinstance(space, spaces.Dict):
        return {name: encode(obs[name], part) for name, part in space.spaces.items()}
    if is_image(space):
        return obs
    if isinstance(space, spaces.Discrete):
        return tf.one_hot(tf.cast(obs, tf.int32) - int(space.start), int(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        parts, starts = space.nvec.ravel().tolist(), np.ravel(space.start).tolist()
        columns = tf.unstack(tf.reshape(tf.cast(obs, tf.int32), (-1, len(parts))), axis=-1)
        one_hots = [tf.one_hot(c - int(s), int(n)) for c, s, n in zip(columns, starts, parts, strict=True)]
        return tf.concat(one_hots, axis=-1)
    return tf.cast(obs, tf.float32)


def parts_in(rows: tf.Tensor | dict[str, tf.Tensor], space: PackedSpace) -> dict[str, tf.Tensor]:
    """Unpack observations [B, bytes] into their parts; observations that are not packed stay unchanged."""
    if isinstance(rows, dict):
        return rows
    parts = {}
    for name, (start, end, dtype, shape) in space.places.items():
        several = () if dtype.itemsize == 1 else (dtype.itemsize,)
        part = tf.reshape(rows[:, start:end], (-1, *shape, *several))
        parts[name] = tf.bitcast(part, tf.as_dtype(dtype))
    return parts


def encode_numpy(obs: np.ndarray, space: spaces.Space) -> np.ndarray:
    """Compute `encode` in numpy, for every space except Dict."""
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        return obs if is_image(space) else np.asarray(obs, np.float32)
    if isinstance(space, spaces.Discrete):
        # A row of the identity, which itself may not fit into memory.
        index = np.asarray(obs, np.int64) - int(space.start)
        encoded = np.zeros((index.size, int(space.n)), np.float32)
        encoded[np.arange(index.size), index.ravel()] = 1.0
        return encoded.reshape(*index.shape, -1)
    parts, starts = space.nvec.ravel(), np.ravel(space.start)
    columns = np.asarray(obs, np.int64).reshape(-1, len(parts)) - starts
    offsets = np.concatenate([[0], np.cumsum(parts)[:-1]])
    encoded = np.zeros((len(columns), int(parts.sum())), np.float32)
    encoded[np.arange(len(columns))[:, None], columns + offsets] = 1.0
    return encoded


def announce_size(name: str, space: spaces.Space) -> None:
    """Warn of discrete values that make very wide layers; `name` says what they are."""
    for part in parts_of(space).values():
        width = encoded_shape(part)[0] if isinstance(part, spaces.Discrete | spaces.MultiDiscrete) else 0
        if width > LARGE_ONE_HOT:
            layer = f"each is a row of {width:,} numbers, and each update changes {width:,} weights for every unit"
            warn(f"the {name} {part!s:.60} make wide layers ({layer}): a Box or MultiDiscrete of fewer trains faster")


def describe_space(space: spaces.Space) -> dict[str, Any]:
    """Describe a space as JSON, for saved files."""
    space = opened(space)
    if isinstance(space, spaces.Dict):
        return {"type": "Dict", "spaces": {name: describe_space(part) for name, part in space.spaces.items()}}
    if isinstance(space, spaces.Box):
        return {"type": "Box", "shape": list(space.shape), "dtype": str(space.dtype)}
    if isinstance(space, spaces.Discrete):
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        return {"type": "MultiDiscrete", "nvec": space.nvec.tolist(), "start": space.start.tolist()}
    if isinstance(space, spaces.MultiBinary):
        return {"type": "MultiBinary", "shape": list(space.shape)}
    raise UsageError(f"space {space} is not supported")


def spaces_differ(saved: dict[str, Any], present: dict[str, Any]) -> str | None:
    """Compare two described spaces; return words for an error message, or None if they are equal."""
    if saved == present:
        return None
    return f"{in_words(saved)} was saved, this environment has {in_words(present)}"


def in_words(description: dict[str, Any]) -> str:
    """Write a described space on one line, without its bounds."""
    rest = ", ".join(f"{key}={value}" for key, value in description.items() if key != "type")
    return f"{description['type']}({rest})"


# The logits, or values, of forbidden actions are lowered by this.
FORBIDDEN = -1e9


def without_mask(space: spaces.Space) -> spaces.Space:
    """Remove the action mask from an observation space; the networks take the rest."""
    parts = parts_of(space)
    if ACTION_MASK not in parts:
        return space
    rest = {name: part for name, part in parts.items() if name != ACTION_MASK}
    return rest[ONLY] if list(rest) == [ONLY] else spaces.Dict(rest)


def networks_part(encoded: Any, seen: spaces.Space) -> Any:
    """Remove the action mask from encoded observations; the networks take the rest."""
    if not isinstance(encoded, dict):
        return encoded
    rest = {name: part for name, part in encoded.items() if name != ACTION_MASK}
    return rest if isinstance(seen, spaces.Dict) else rest[ONLY]


def seen_in_numpy(policy: Any, rows: bool = False) -> tuple[bool, spaces.Space | None]:
    """Check whether numpy can process a policy's observations, and return their space without the action mask.

    The space is None if observations have one part and no mask.

    Args:
        rows: the networks take the parts of a Dict side by side, as rows of numbers.
    """
    space = opened(policy.observation_space)
    rest = without_mask(space)
    return rows or not isinstance(rest, spaces.Dict), rest if isinstance(space, spaces.Dict) else None


# TD3+BC adds it to the standard deviation of a data set.
ADDED_STD = 1e-3


class Normalizer:
    """Running mean and standard deviation of observations, copied to variables that compiled functions read."""

    def __init__(self, shape: tuple[int, ...], comm: mpi.Communicator | None, **start: float) -> None:
        self._statistics = MpiRunningMeanStd(shape=shape, comm=mpi.wrap(comm), **start)
        self._mean = tf.Variable(self._statistics.mean, dtype=tf.float32, trainable=False)
        self._std = tf.Variable(self._statistics.std, dtype=tf.float32, trainable=False)

    @property
    def variables(self) -> list[tf.Variable]:
        return [self._mean, self._std]

    @property
    def mean(self) -> np.ndarray:
        """Mean of all observations so far, in their shape."""
        return self._statistics.mean

    @property
    def std(self) -> np.ndarray:
        """Standard deviation of all observations so far, in their shape."""
        return self._statistics.std

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of one observation, under its name in `parts_of`."""
        return {ONLY: self.mean.shape}

    @property
    def moments(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Mean and standard deviation of all observations so far, under their name in `parts_of`."""
        return {ONLY: (self.mean, self.std)}

    def apply(self, x: tf.Tensor) -> tf.Tensor:
        return (tf.cast(x, tf.float32) - self._mean) / self._std

    def update(self, observations: np.ndarray) -> None:
        """Merge this rank's batch [B, ...] and the other ranks' into the statistics."""
        self._statistics.update(observations)
        self._refresh()

    def add(self, total: dict[str, np.ndarray], squares: dict[str, np.ndarray], count: float) -> None:
        """Add sums by name that are equal on every rank; see MpiRunningMeanStd.add."""
        self._statistics.add(total[ONLY], squares[ONLY], count)
        self._refresh()

    def fit(self, observations: np.ndarray) -> None:
        """Use the statistics of a data set [B, ...] that is equal on every rank; see MpiRunningMeanStd.fit."""
        self._statistics.fit(observations, ADDED_STD)
        self._refresh()

    def state(self) -> dict[str, Any]:
        """Save the statistics."""
        return self._statistics.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Load a state that `state` returned."""
        self._statistics.restore(state)
        self._refresh()

    def _refresh(self) -> None:
        self._mean.assign(self._statistics.mean)
        self._std.assign(self._statistics.std)


class DictNormalizer:
    """A Normalizer for each numeric part of Dict observations."""

    def __init__(self, space: spaces.Dict, comm: mpi.Communicator | None, **start: float) -> None:
        self._parts = {
            name: Normalizer(encoded_shape(part), comm, **start) for name, part in numeric_parts(space).items()
        }

    def __getitem__(self, name: str) -> Normalizer:
        return self._parts[name]

    def __contains__(self, name: str) -> bool:
        return name in self._parts

    @property
    def variables(self) -> list[tf.Variable]:
        return [variable for part in self._parts.values() for variable in part.variables]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: part.mean.shape for name, part in self._parts.items()}

    @property
    def moments(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        return {name: (part.mean, part.std) for name, part in self._parts.items()}

    def apply(self, obs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Normalize the numeric parts of a batch; the others stay unchanged."""
        return obs | {name: part.apply(obs[name]) for name, part in self._parts.items()}

    def add(self, total: dict[str, np.ndarray], squares: dict[str, np.ndarray], count: float) -> None:
        for name, part in self._parts.items():
            part.add({ONLY: total[name]}, {ONLY: squares[name]}, count)

    def update(self, observations: dict[str, np.ndarray]) -> None:
        for name, part in self._parts.items():
            part.update(observations[name])

    def state(self) -> dict[str, Any]:
        return {name: part.state() for name, part in self._parts.items()}

    def restore(self, state: dict[str, Any]) -> None:
        for name, part in self._parts.items():
            part.restore(state[name])


def make_normalizer(space: spaces.Space, comm: mpi.Communicator | None) -> Normalizer | DictNormalizer:
    """Make the normalizer of an observation space; raise an error if it has no numbers to normalize."""
    if isinstance(space, spaces.Dict):
        return DictNormalizer(space, comm)
    if not isinstance(space, spaces.Box):
        raise bad_argument("normalize_observations", True, f"needs Box observations, not {space}")
    return Normalizer(encoded_shape(space), comm)


def numeric_parts(space: spaces.Dict) -> dict[str, spaces.Box]:
    """Select the Box parts of a Dict that are neither images nor action masks."""
    numeric = {name: part for name, part in space.items() if isinstance(part, spaces.Box) and not is_image(part)}
    return {name: part for name, part in numeric.items() if name != ACTION_MASK}
