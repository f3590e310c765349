"""Wrappers of one environment that are not about a particular kind of it."""

import contextlib
import sys
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


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
