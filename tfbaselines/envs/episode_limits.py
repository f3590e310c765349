"""Limits of episodes, a number of steps or a return: both truncate, so the value of the last observation counts."""

from typing import Any, SupportsFloat

import gymnasium
from gymnasium.wrappers import TimeLimit

from tfbaselines.envs.monitor import Monitor


class ReturnLimit(gymnasium.Wrapper):
    """Truncate an episode when the sum of its rewards reaches a limit.

    Args:
        env: the environment.
        limit: return at which an episode is truncated.
    """

    def __init__(self, env: gymnasium.Env, limit: float) -> None:
        super().__init__(env)
        self._limit = limit
        self._return = 0.0

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        self._return = 0.0
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        reached = self.count(reward)
        return obs, reward, terminated, truncated or reached, info

    def count(self, reward: SupportsFloat) -> bool:
        """Add a reward to the return; return whether the limit is reached."""
        self._return += float(reward)
        return self._return >= self._limit


def limited(env: gymnasium.Env, steps: int | None = None, reward: float | None = None) -> gymnasium.Env:
    """Truncate episodes inside the Monitor, so that the Monitor records the end; None for no limit.

    Args:
        env: the environment.
        steps: largest number of steps in an episode.
        reward: return at which an episode ends.
    """
    spec = env.spec
    if steps is not None and not (spec and spec.max_episode_steps is not None and spec.max_episode_steps <= steps):
        env = _inside_monitor(env, _time_limit, steps)
    return env if reward is None else _inside_monitor(env, ReturnLimit, reward)


def _time_limit(env: gymnasium.Env, steps: int) -> gymnasium.Env:
    limit = TimeLimit(env, steps)
    # The steps of an episode that has already begun count from here.
    limit._elapsed_steps = 0
    return limit


def _inside_monitor(env: gymnasium.Env, wrapper: Any, limit: float) -> gymnasium.Env:
    monitor = env
    while isinstance(monitor, gymnasium.Wrapper) and not isinstance(monitor, Monitor):
        monitor = monitor.env
    if not isinstance(monitor, Monitor):
        return wrapper(env, limit)
    monitor.env = wrapper(monitor.env, limit)
    return env
