"""Wrappers of one environment that are not about a particular kind of it."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from tfbaselines.envs.vec.failures import EXAMINE, EnvironmentFault
from tfbaselines.envs.vec.observations import MASK, is_image, unsupported


class ClipActions(gymnasium.Wrapper):
    """Bring actions into the bounds of a Box action space; nan becomes 0.

    Args:
        env: the environment.
    """

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self._low, self._high = env.action_space.low, env.action_space.high

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step with the action brought into its bounds."""
        clipped = np.minimum(np.maximum(action, self._low), self._high)
        # A sum with a nan in it is nan: cheaper than asking every element.
        if not np.isfinite(np.add.reduce(clipped, axis=None)):
            clipped = np.clip(np.nan_to_num(action), self._low, self._high)
        return self.env.step(clipped)


class WholeActions(ClipActions):
    """Bring actions into the bounds of a Box of integers, as the nearest ones and of the space's type."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step with the nearest action of the space."""
        inside = np.clip(np.nan_to_num(action), self._low, self._high)
        return self.env.step(np.rint(inside).astype(self.action_space.dtype))


def clipped(env: gymnasium.Env) -> gymnasium.Env:
    """The environment with actions brought into the bounds of a Box; others as they are."""
    space = env.action_space
    if not isinstance(space, spaces.Box):
        return env
    return ClipActions(env) if space.dtype.kind == "f" else WholeActions(env)


class Discrete(spaces.Discrete):
    """Gymnasium's, with a quick answer for the actions of policies: its environments ask in every step.

    Args:
        space: the space to replace.
    """

    def __init__(self, space: spaces.Discrete) -> None:
        super().__init__(space.n, start=space.start)
        self._first, self._last = int(self.start), int(self.start + self.n - 1)

    def contains(self, x: Any) -> bool:
        """Whether x is an action."""
        if x.__class__ is np.int64:
            return bool(self._first <= x <= self._last)
        return super().contains(x)


def with_quick_actions(env: gymnasium.Env) -> gymnasium.Env:
    """A new environment whose Discrete action space, if it has one, is replaced by the quick one."""
    inner, space = env.unwrapped, env.unwrapped.action_space
    if type(space) is spaces.Discrete and space.dtype == np.int64:
        # An environment may compute its space, which then cannot be set.
        with contextlib.suppress(AttributeError):
            inner.action_space = Discrete(space)
    return env


class RewardScaler(gymnasium.Wrapper):
    """Multiply rewards by a number.

    Args:
        env: the environment.
        scale: the number.

    Attributes:
        scale: the number.
    """

    def __init__(self, env: gymnasium.Env, scale: float = 0.01) -> None:
        super().__init__(env)
        self.scale = scale

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step and scale."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, reward * self.scale, terminated, truncated, info


class TimeLimit(gymnasium.wrappers.TimeLimit):
    """Cut episodes off after some steps, whatever limit the environment came with.

    Args:
        env: the environment.
        max_episode_steps: the limit; None for none.
    """

    def __init__(self, env: gymnasium.Env, max_episode_steps: int | None = None) -> None:
        super().__init__(env, sys.maxsize if max_episode_steps is None else max_episode_steps)


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
    return dict(_leaves(observation, dict | tuple)) if isinstance(observation, dict | tuple) else observation


def named_parts_of(space: spaces.Space) -> spaces.Dict:
    """The space of observations of NamedParts."""
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


def flattened(env: gymnasium.Env) -> gymnasium.Env:
    """The environment with Dict or Tuple observations as one flat Box; others as they are.

    Images and action masks would be lost in it: observations with one of these stay a Dict.
    """
    if not isinstance(env.observation_space, spaces.Dict | spaces.Tuple):
        return env
    parts = named_parts_of(env.observation_space).spaces
    if not parts or not env.observation_space.is_np_flattenable:
        raise unsupported(env.observation_space)
    if MASK in parts or any(map(is_image, parts.values())):
        return with_named_parts(env)
    return gymnasium.wrappers.FlattenObservation(env)
