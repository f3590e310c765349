"""Rows of deepq's logs, under the names of baselines."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tfbaselines.logs.episodes import safe_mean


class DeepQRows:
    """A row whenever some number of episodes ended; see Plan.log_episodes.

    Args:
        run: the OffPolicyRun whose rows they are.
        epsilon: the share of random actions, a function of the step.
    """

    def __init__(self, run: Any, epsilon: Callable[[int], float]) -> None:
        self._run, self._epsilon = run, epsilon

    def collected(self, episodes: list[dict[str, Any]]) -> None:
        """The run remembers the episodes."""

    def learnt(self, statistics: dict[str, np.ndarray]) -> None:
        """baselines logs no statistics of gradient steps."""

    def __call__(self) -> dict[str, Any]:
        """The row."""
        run = self._run
        row = {
            "steps": run.timesteps,
            "episodes": run.episodes.count,
            "mean 100 episode reward": run.episodes.mean_reward,
            "% time spent exploring": int(100 * self._epsilon(run.timesteps)),
        }
        if run.eval_env is not None:
            row["mean test reward"] = safe_mean([episode["r"] for episode in run.test()])
        return row
