"""Observations as networks take them, in the graph and in numpy; spaces as saved files describe them."""

from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.envs.vec.observations import MASK as ACTION_MASK
from tfbaselines.envs.vec.observations import ONLY, is_image, parts_of
from tfbaselines.envs.vec.packed import PackedSpace, opened
from tfbaselines.errors import UsageError


def observation_dtype(space: spaces.Space) -> np.dtype:
    """The type in which observations are stored and passed to compiled functions."""
    return np.dtype(np.float32) if space.dtype == np.float64 else np.dtype(space.dtype)


def observation_spec(space: spaces.Space, batch: int | None = None) -> Any:
    """The signature of a batch of observations for compiled functions; of a Dict a dictionary of them."""
    if isinstance(space, spaces.Dict):
        return {name: observation_spec(part, batch) for name, part in space.spaces.items()}
    return tf.TensorSpec((batch, *(space.shape or ())), tf.as_dtype(observation_dtype(space)))


def encoded_shape(space: spaces.Space) -> tuple[int, ...]:
    """Shape of one encoded observation."""
    if isinstance(space, spaces.Discrete):
        return (int(space.n),)
    if isinstance(space, spaces.MultiDiscrete):
        return (int(np.sum(space.nvec)),)
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        return tuple(space.shape)
    raise UsageError(
        f"observation space {space} is not supported: accepted are Box, Discrete, MultiDiscrete and MultiBinary "
        "(of Dict and Tuple, those without images: they are flattened)"
    )


def encode(obs: Any, space: spaces.Space) -> Any:
    """Observations [B, ...] as float32 [B, *encoded_shape]; pixels keep their type.

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
    """The parts of packed observations [B, bytes]; observations that are not packed stay as they are."""
    if isinstance(rows, dict):
        return rows
    parts = {}
    for name, (start, end, dtype, shape) in space.places.items():
        several = () if dtype.itemsize == 1 else (dtype.itemsize,)
        part = tf.reshape(rows[:, start:end], (-1, *shape, *several))
        parts[name] = tf.bitcast(part, tf.as_dtype(dtype))
    return parts


def encode_numpy(obs: np.ndarray, space: spaces.Space) -> np.ndarray:
    """`encode` in numpy, for every space but Dict."""
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        return obs if is_image(space) else np.asarray(obs, np.float32)
    if isinstance(space, spaces.Discrete):
        return np.eye(int(space.n), dtype=np.float32)[np.asarray(obs, np.int64) - int(space.start)]
    parts, starts = space.nvec.ravel(), np.ravel(space.start)
    columns = np.asarray(obs, np.int64).reshape(-1, len(parts)) - starts
    offsets = np.concatenate([[0], np.cumsum(parts)[:-1]])
    encoded = np.zeros((len(columns), int(parts.sum())), np.float32)
    encoded[np.arange(len(columns))[:, None], columns + offsets] = 1.0
    return encoded


def describe_space(space: spaces.Space) -> dict[str, Any]:
    """A space as JSON, for saved files."""
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
    """An error message's words for the difference of two described spaces; None when they are equal."""
    if saved == present:
        return None
    return f"{in_words(saved)} was saved, this environment has {in_words(present)}"


def in_words(description: dict[str, Any]) -> str:
    """A described space on one line, without bounds, which may take many."""
    rest = ", ".join(f"{key}={value}" for key, value in description.items() if key != "type")
    return f"{description['type']}({rest})"


# Added to the logits, or values, of actions that the action mask forbids.
FORBIDDEN = -1e9


def without_mask(space: spaces.Space) -> spaces.Space:
    """The observation space of the networks: all parts but the action mask."""
    parts = parts_of(space)
    if ACTION_MASK not in parts:
        return space
    rest = {name: part for name, part in parts.items() if name != ACTION_MASK}
    return rest[ONLY] if list(rest) == [ONLY] else spaces.Dict(rest)


def networks_part(encoded: Any, seen: spaces.Space) -> Any:
    """What the networks take of observations as `encode` gives them: all parts but the action mask.

    Args:
        encoded: [B, ...], or a dictionary.
        seen: the space of what they take, by `without_mask`.
    """
    if not isinstance(encoded, dict):
        return encoded
    rest = {name: part for name, part in encoded.items() if name != ACTION_MASK}
    return rest if isinstance(seen, spaces.Dict) else rest[ONLY]


def seen_in_numpy(policy: Any) -> tuple[bool, spaces.Space | None]:
    """Whether numpy can take a policy's observations apart, and what is left without the mask; None without one.

    Args:
        policy: of observations whose parts its networks take, and perhaps of a mask.
    """
    space = opened(policy.observation_space)
    if not policy.masked:
        return not isinstance(space, spaces.Dict), None
    rest = without_mask(space)
    # Statistics of a Dict are those of each of its parts.
    return not (isinstance(rest, spaces.Dict) or policy.normalizer), rest
