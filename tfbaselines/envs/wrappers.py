"""Wrappers of one environment that are not about a particular kind of it."""

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


def flattened(env: gymnasium.Env) -> gymnasium.Env:
    """The environment with Dict or Tuple observations as one flat Box; others as they are."""
    if isinstance(env.observation_space, spaces.Dict | spaces.Tuple):
        return gymnasium.wrappers.FlattenObservation(env)
    return env
