"""The latest episodes of a run, over which the means of the logs go."""

from collections import deque
from typing import Any

import numpy as np

EPISODES_IN_MEAN = 100


def safe_mean(values: Any) -> float:
    """The mean, or nan of nothing."""
    return float(np.mean(values)) if len(values) else float("nan")


class Episodes:
    """The latest episodes' returns and lengths, over which the logs' means go.

    Args:
        in_mean: how many they are.
    """

    def __init__(self, in_mean: int = EPISODES_IN_MEAN) -> None:
        self._latest: deque[tuple[float, float]] = deque(maxlen=in_mean)
        # Of all there ever were.
        self.count = 0
        self._mean_reward: float | None = None

    def extend(self, episodes: list[dict[str, Any]]) -> None:
        """Take in infos' 'episode' entries."""
        if not episodes:
            return
        self._mean_reward = None
        self.count += len(episodes)
        self._latest.extend((float(episode["r"]), float(episode["l"])) for episode in episodes)

    @property
    def rewards(self) -> list[float]:
        """Returns of the latest episodes."""
        return [reward for reward, _ in self._latest]

    @property
    def mean_reward(self) -> float:
        """Mean return of the latest episodes; nan before the first one ends."""
        if self._mean_reward is None:
            self._mean_reward = safe_mean(self.rewards)
        return self._mean_reward

    @property
    def full(self) -> bool:
        """Whether the means go over as many episodes as they ever do."""
        return len(self._latest) == self._latest.maxlen

    @property
    def std_reward(self) -> float:
        """Standard deviation of the returns of the latest episodes; nan before the first one ends."""
        return float(np.std(self.rewards)) if self._latest else float("nan")

    @property
    def mean_length(self) -> float:
        """Mean length of the latest episodes; nan before the first one ends."""
        return safe_mean([length for _, length in self._latest])

    def state(self) -> dict[str, Any]:
        """The episodes."""
        return {"latest": np.asarray(self._latest, np.float64).reshape(-1, 2), "count": self.count}

    def restore(self, state: dict[str, Any]) -> None:
        """Take them back."""
        self._mean_reward = None
        self._latest.clear()
        self._latest.extend(tuple(row) for row in state["latest"].tolist())
        self.count = state.get("count", len(self._latest))
