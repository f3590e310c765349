"""Exercise 4, solved: a wrapper that repeats every action."""

from typing import Any

import gymnasium


class Repeat(gymnasium.Wrapper):
    """Take every action `times` times, and return the sum of the rewards."""

    def __init__(self, env: gymnasium.Env, times: int) -> None:
        super().__init__(env)
        self.times = times

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Return the last observation, the sum of the rewards, and how the steps ended."""
        total = 0.0
        for _ in range(self.times):
            obs, reward, terminated, truncated, info = self.env.step(action)
            total += reward
            if terminated or truncated:
                # No step after the end: the environment would raise, or begin another episode.
                break
        return obs, total, terminated, truncated, info
