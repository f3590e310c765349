"""Environments with goals: Dict observations of observation, achieved_goal and desired_goal, and `compute_reward`."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.wrappers import RewardScaler
from tfbaselines.errors import bad_argument, warn

OBSERVATION, ACHIEVED, DESIRED = GOALS = "observation", "achieved_goal", "desired_goal"

# From achieved goals [B, ...], desired goals [B, ...] and an empty info to rewards [B].
ComputeReward = Callable[[np.ndarray, np.ndarray, dict[str, Any]], np.ndarray]

# Rows on which batches are compared with single rows.
COMPARED = 8


class GoalReward:
    """An environment's compute_reward for whole batches, called row by row if it does not take them.

    Args:
        compute: from one achieved goal, one desired goal and an info to a reward; most take batches of goals too.
        scale: factor of the rewards.
    """

    def __init__(self, compute: Callable[[np.ndarray, np.ndarray, dict[str, Any]], Any], scale: float = 1.0) -> None:
        self._compute, self._scale = compute, scale
        # Known once there were several rows.
        self._takes_batches: bool | None = None

    def __call__(self, achieved: np.ndarray, desired: np.ndarray, info: dict[str, Any]) -> np.ndarray:
        """See ComputeReward."""
        if self._takes_batches is None and len(achieved) > 1:
            self._takes_batches = self._compare(achieved[:COMPARED], desired[:COMPARED], info)
        rewards = self._compute(achieved, desired, info) if self._takes_batches else self._rows(achieved, desired, info)
        return self._scale * np.asarray(rewards, np.float32)

    def _rows(self, achieved: np.ndarray, desired: np.ndarray, info: dict[str, Any]) -> np.ndarray:
        return np.array([self._compute(*goals, info) for goals in zip(achieved, desired, strict=True)], np.float32)

    def _compare(self, achieved: np.ndarray, desired: np.ndarray, info: dict[str, Any]) -> bool:
        """Whether a batch's rewards are those of its rows."""
        rows = self._rows(achieved, desired, info)
        try:
            batch = np.asarray(self._compute(achieved, desired, info), np.float32)
        except Exception:  # An environment's own code may raise anything.
            batch = None
        if batch is not None and batch.shape == rows.shape and np.allclose(batch, rows):
            return True
        warn("compute_reward does not take batches of goals: it is called for every row, which is slower")
        return False


def goal_reward(env: VecEnv) -> GoalReward:
    """compute_reward of environments with goals, scaled as their rewards are; ValueError where there are no goals."""
    check_goals(env)
    one, scale = env.unwrapped.example(), 1.0
    while isinstance(one, gymnasium.Wrapper) and not hasattr(one, "compute_reward"):
        scale *= one.scale if isinstance(one, RewardScaler) else 1.0
        one = one.env
    if not hasattr(one, "compute_reward"):
        raise bad_argument("env", type(one).__name__, "an environment with goals has a compute_reward")
    return GoalReward(one.compute_reward, scale)


def check_goals(env: VecEnv) -> None:
    """ValueError unless observations have goals."""
    space = env.observation_space
    if not (isinstance(space, spaces.Dict) and set(GOALS) <= set(space.spaces)):
        raise ValueError(f"hindsight needs Dict observations of {', '.join(GOALS)}, not {space}")


def episode_limit(env: VecEnv) -> int | None:
    """Steps after which a time limit cuts the episodes; None where there is no limit, or it is not known."""
    one, limits = env.unwrapped.example(), []
    while isinstance(one, gymnasium.Wrapper):
        if isinstance(one, gymnasium.wrappers.TimeLimit):
            limits.append(one._max_episode_steps)
        one = one.env
    return min(limits, default=None)
