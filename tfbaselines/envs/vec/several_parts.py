"""Observations of several parts: a Tuple, and a Dict inside of another one, as one Dict, or as one array."""

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from tfbaselines.envs.vec.failures import EXAMINE, EnvironmentFault
from tfbaselines.envs.vec.observations import MASK, in_a_row, is_image, unsupported


class NamedParts(gymnasium.ObservationWrapper):
    """Tuple and nested observations as a Dict of their parts, named by their places: '0', '1', 'camera.left'.

    Args:
        env: the environment.
    """

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.observation_space = named_parts_of(env.observation_space)

    def observation(self, observation: Any) -> dict[str, Any]:
        """The parts of an observation by name."""
        return named_parts(observation)


def named_parts(observation: Any) -> Any:
    """A Tuple or nested observation as a dictionary of its parts; any other as it is."""
    if not isinstance(observation, dict | tuple):
        return observation
    if isinstance(observation, dict) and isinstance(mask := observation.get(MASK), tuple):
        observation = observation | {MASK: in_a_row(mask)}
    return dict(_leaves(observation, dict | tuple))


def named_parts_of(space: spaces.Space) -> spaces.Dict:
    """The space of observations of NamedParts; an action mask of several parts, as of MultiDiscrete, is one part."""
    if isinstance(space, spaces.Dict) and isinstance(mask := space.spaces.get(MASK), spaces.Tuple):
        width = sum(int(np.prod(part.shape)) for part in mask.spaces)
        space = spaces.Dict({**space.spaces, MASK: spaces.MultiBinary(width)})
    return spaces.Dict(dict(_leaves(space, spaces.Dict | spaces.Tuple)))


def _leaves(value: Any, kinds: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if not isinstance(value, kinds):
        yield name, value
        return
    for key, inner in value.items() if isinstance(value, dict | spaces.Dict) else enumerate(value):
        yield from _leaves(inner, kinds, f"{name}.{key}" if name else str(key))


def check_spaces(env: gymnasium.Env) -> None:
    """EnvironmentFault unless an environment has the spaces of its observations and actions."""
    for name in ("observation_space", "action_space"):
        if not isinstance(getattr(env, name, None), spaces.Space):
            text = f"environment {type(env.unwrapped).__name__} has no {name}: give it one of gymnasium.spaces"
            raise EnvironmentFault(f"{text}: {EXAMINE}")


def with_named_parts(env: gymnasium.Env) -> gymnasium.Env:
    """The environment with NamedParts around it where its observations are a Tuple or nested."""
    check_spaces(env)
    space = env.observation_space
    nested = isinstance(space, spaces.Dict) and any(
        isinstance(part, spaces.Dict | spaces.Tuple) for part in space.spaces.values()
    )
    return NamedParts(env) if nested or isinstance(space, spaces.Tuple) else env


class DiscreteParts(gymnasium.ObservationWrapper):
    """Observations whose parts are all Discrete or MultiDiscrete as one MultiDiscrete, in the order of NamedParts.

    Networks take the same numbers as of a flat Box, and a table finds a cell for each value.

    Args:
        env: whose observations are a Dict or Tuple of such parts.
    """

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self._parts = named_parts_of(env.observation_space).spaces
        parts = self._parts.values()
        counts = [np.ravel(part.nvec if isinstance(part, spaces.MultiDiscrete) else part.n) for part in parts]
        starts = [np.ravel(part.start) for part in parts]
        self.observation_space = spaces.MultiDiscrete(np.concatenate(counts), start=np.concatenate(starts))

    def observation(self, observation: Any) -> np.ndarray:
        """The numbers of all parts, one after the other."""
        parts = named_parts(observation)
        # Of a Dict the environment may give them in another order.
        return np.concatenate([np.ravel(parts[name]) for name in self._parts])


def flattened(env: gymnasium.Env) -> gymnasium.Env:
    """The environment with Dict or Tuple observations as one flat Box; others as they are.

    Those of discrete parts alone become a MultiDiscrete. Images and action masks would be lost in a Box: observations
    with one of these stay a Dict.
    """
    if not isinstance(env.observation_space, spaces.Dict | spaces.Tuple):
        return env
    parts = named_parts_of(env.observation_space).spaces
    if not parts or not env.observation_space.is_np_flattenable:
        raise unsupported(env.observation_space)
    if MASK in parts or any(map(is_image, parts.values())):
        return with_named_parts(env)
    if all(isinstance(part, spaces.Discrete | spaces.MultiDiscrete) for part in parts.values()):
        return DiscreteParts(env)
    return gymnasium.wrappers.FlattenObservation(env)
