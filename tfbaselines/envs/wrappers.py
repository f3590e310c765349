"""Wrappers of one environment that are not about a particular kind of it.

Environments with goals: Dict observations of observation, achieved_goal and desired_goal, and `compute_reward`.

Environments whose episodes never end, which would keep those who wait for one for ever.
"""

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from tfbaselines.envs.vec import VecEnv
from tfbaselines.errors import UsageError, bad_argument, warn


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
        raise UsageError(f"hindsight needs Dict observations of {', '.join(GOALS)}, not {space}")


def episode_limit(env: VecEnv) -> int | None:
    """Steps after which a time limit cuts the episodes; None where there is no limit, or it is not known."""
    one, limits = env.unwrapped.example(), []
    while isinstance(one, gymnasium.Wrapper):
        if isinstance(one, gymnasium.wrappers.TimeLimit):
            limits.append(one._max_episode_steps)
        one = one.env
    return min(limits, default=None)


# Steps without an end after which there is a warning, and an error.
LONG_EPISODE, LONGEST_EPISODE = 10**5, 10**6
ADVICE = "give max_ep_len, or max_episode_steps where the environment is registered"


def require_end(steps: int) -> None:
    """ValueError when an episode is too long to ever end, and a warning long before.

    Args:
        steps: of the longest episode so far; called with every number of them.
    """
    if steps == LONG_EPISODE:
        warn(f"an episode has not ended within {steps:,} steps: if it never does, {ADVICE}")
    if steps > LONGEST_EPISODE:
        raise UsageError(f"an episode has not ended within {LONGEST_EPISODE:,} steps: {ADVICE}")
