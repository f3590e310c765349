"""Exercise 4: wrap an environment so that every action is repeated."""

from typing import Any

import gymnasium


class Repeat(gymnasium.Wrapper):
    """Take every action `times` times, and return the sum of the rewards."""

    def __init__(self, env: gymnasium.Env, times: int) -> None:
        super().__init__(env)
        self.times = times

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Return the last observation, the sum of the rewards, and how the steps ended."""
        # Your code.
        return self.env.step(action)
