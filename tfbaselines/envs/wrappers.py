"""Wrappers of one environment, rewards of environments with goals, and limits of episodes.

Environments with goals have Dict observations of observation, achieved_goal and desired_goal, and `compute_reward`.
"""

import contextlib
import inspect
import math
import sys
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from tfbaselines.envs import layers_of
from tfbaselines.envs.vec.base import VecEnv
from tfbaselines.errors import UsageError, bad_argument, warn


class ClipActions(gymnasium.Wrapper):
    """Clip actions to the bounds of a Box action space; NaN becomes 0."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self._low = env.action_space.low
        self._high = env.action_space.high

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        clipped = np.minimum(np.maximum(action, self._low), self._high)
        # A sum of squares with a NaN is NaN: cheaper than a test of every element.
        if not math.isfinite(np.vdot(clipped, clipped)):
            clipped = np.clip(np.nan_to_num(action), self._low, self._high)
        return self.env.step(clipped)


class WholeActions(ClipActions):
    """Clip and round actions to a Box of integers."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        inside = np.clip(np.nan_to_num(action), self._low, self._high)
        return self.env.step(np.rint(inside).astype(self.action_space.dtype))


def clipped(env: gymnasium.Env) -> gymnasium.Env:
    """Wrap an environment so that its Box actions are clipped; other actions stay the same."""
    space = env.action_space
    if not isinstance(space, spaces.Box):
        return env
    return ClipActions(env) if space.dtype.kind == "f" else WholeActions(env)


class Discrete(spaces.Discrete):
    """Gymnasium's Discrete with a fast `contains` for policies' actions: environments call it in every step."""

    def __init__(self, space: spaces.Discrete) -> None:
        super().__init__(space.n, start=space.start)
        self._first = int(self.start)
        self._last = int(self.start + self.n - 1)

    def contains(self, x: Any) -> bool:
        if x.__class__ is np.int64:
            return bool(self._first <= x <= self._last)
        return super().contains(x)


def with_quick_actions(env: gymnasium.Env) -> gymnasium.Env:
    """Replace the Discrete action space of a new environment, if it has one, by the fast one."""
    inner, space = env.unwrapped, env.unwrapped.action_space
    if type(space) is spaces.Discrete and space.dtype == np.int64:
        # A property cannot be set.
        with contextlib.suppress(AttributeError):
            inner.action_space = Discrete(space)
    return env


class OldGym(gymnasium.Env):
    """An environment of gym's old interface: reset returns the observation, step four values, and seed seeds.

    `TimeLimit.truncated` in the info separates time limits from other ends. Values of Gymnasium's form pass unchanged.
    """

    def __init__(self, env: Any) -> None:
        self._env = env
        self._seeds = "seed" in inspect.signature(env.reset).parameters
        self.observation_space = _converted(env.observation_space)
        self.action_space = _converted(env.action_space)
        self.metadata = getattr(env, "metadata", None) or {}
        self.spec = getattr(env, "spec", None)
        self.render_mode = "rgb_array"

    @property
    def np_random(self) -> Any:
        rng = getattr(self._env, "np_random", None)
        return rng if isinstance(rng, np.random.Generator | np.random.RandomState) else super().np_random

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None and not self._seeds and hasattr(self._env, "seed"):
            self._env.seed(seed)
        begun = self._env.reset(**({"seed": seed} if self._seeds else {}))
        is_pair = isinstance(begun, tuple) and len(begun) == 2 and isinstance(begun[1], dict)
        return begun if is_pair else (begun, {})

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        result = self._env.step(action)
        if len(result) != 4:
            return result
        obs, reward, done, info = result
        truncated = bool(done and info.get("TimeLimit.truncated", False))
        return obs, reward, bool(done) and not truncated, truncated, info

    def render(self) -> Any:
        takes_mode = "mode" in inspect.signature(self._env.render).parameters
        return self._env.render(**({"mode": "rgb_array"} if takes_mode else {}))

    def close(self) -> None:
        self._env.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"'{type(self).__name__}' has no attribute '{name}'")
        return getattr(self._env, name)


def _converted(space: Any) -> spaces.Space:
    """Convert a space of the package gym, which has the same names; others stay the same."""
    if isinstance(space, spaces.Space):
        return space
    kind = type(space).__name__
    if kind == "Box":
        return spaces.Box(space.low, space.high, dtype=space.dtype)
    if kind == "Discrete":
        return spaces.Discrete(int(space.n), start=int(getattr(space, "start", 0)))
    if kind in ("MultiDiscrete", "MultiBinary"):
        return getattr(spaces, kind)(space.nvec if kind == "MultiDiscrete" else space.n)
    if kind == "Dict":
        return spaces.Dict({name: _converted(part) for name, part in space.spaces.items()})
    if kind == "Tuple":
        return spaces.Tuple([_converted(part) for part in space.spaces])
    raise UsageError(f"the space {space!s:.100} of an environment of gym's old interface is not supported")


def is_environment(env: Any) -> bool:
    """Return whether an object has the parts of an environment, of Gymnasium's or of gym's old interface."""
    named = all(hasattr(env, name) for name in ("reset", "step", "observation_space", "action_space"))
    # A class, which may have its spaces already, is a function that makes environments.
    return named and not isinstance(env, type)


def in_new_form(env: Any) -> Any:
    """Wrap the innermost environment in OldGym if its reset follows gym's old interface."""
    inner = env.unwrapped if isinstance(env, gymnasium.Env) else env
    try:
        parameters = inspect.signature(inner.reset).parameters
    except (TypeError, ValueError):
        # Functions of compiled modules may have no signature.
        return env
    open_ended = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    if isinstance(inner, gymnasium.Env) and "return_info" not in parameters and ("seed" in parameters or open_ended):
        return env
    name = type(inner).__name__
    warn(f"{name} has gym's old interface: it is used through tfbaselines.compat.old_gym")
    if inner is env:
        return OldGym(env)
    *_, layer = (layer for layer in layers_of(env) if isinstance(layer, gymnasium.Wrapper))
    layer.env = OldGym(inner)
    return env


class RewardScaler(gymnasium.Wrapper):
    """Multiply rewards by a number."""

    def __init__(self, env: gymnasium.Env, scale: float = 0.01) -> None:
        super().__init__(env)
        self.scale = scale

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, reward * self.scale, terminated, truncated, info


class TimeLimit(gymnasium.wrappers.TimeLimit):
    """Truncate episodes after some steps, in addition to a limit of the environment; None for no limit."""

    def __init__(self, env: gymnasium.Env, max_episode_steps: int | None = None) -> None:
        super().__init__(env, sys.maxsize if max_episode_steps is None else max_episode_steps)


OBSERVATION, ACHIEVED, DESIRED = GOALS = "observation", "achieved_goal", "desired_goal"

# Maps achieved goals [B, ...], desired goals [B, ...] and an empty info to rewards [B].
ComputeReward = Callable[[np.ndarray, np.ndarray, dict[str, Any]], np.ndarray]

# Number of rows that are compared with a batch.
COMPARED = 8


class GoalReward:
    """An environment's compute_reward for batches; one that does not accept batches is called row by row."""

    def __init__(self, compute: Callable[[np.ndarray, np.ndarray, dict[str, Any]], Any], scale: float = 1.0) -> None:
        self._compute = compute
        self._scale = scale
        # Unknown until the first call with several rows.
        self._takes_batches: bool | None = None

    def __call__(self, achieved: np.ndarray, desired: np.ndarray, info: dict[str, Any]) -> np.ndarray:
        if self._takes_batches is None and len(achieved) > 1:
            self._takes_batches = self._compare(achieved[:COMPARED], desired[:COMPARED], info)
        rewards = self._compute(achieved, desired, info) if self._takes_batches else self._rows(achieved, desired, info)
        return self._scale * np.asarray(rewards, np.float32)

    def _rows(self, achieved: np.ndarray, desired: np.ndarray, info: dict[str, Any]) -> np.ndarray:
        return np.array([self._compute(*goals, info) for goals in zip(achieved, desired, strict=True)], np.float32)

    def _compare(self, achieved: np.ndarray, desired: np.ndarray, info: dict[str, Any]) -> bool:
        """Return whether a batch has the same rewards as its rows."""
        rows = self._rows(achieved, desired, info)
        try:
            batch = np.asarray(self._compute(achieved, desired, info), np.float32)
        except Exception:  # An environment's own code may raise anything.
            batch = None
        if batch is not None and batch.shape == rows.shape and np.allclose(batch, rows):
            return True
        warn("compute_reward does not support batches of goals: it is called for every row, which is slower")
        return False


def goal_reward(env: VecEnv) -> GoalReward:
    """Return the compute_reward of environments, with the scale of their rewards; UsageError without goals."""
    check_goals(env)
    scale = 1.0
    for layer in layers_of(env.unwrapped.example()):
        if hasattr(layer, "compute_reward"):
            return GoalReward(layer.compute_reward, scale)
        scale *= layer.scale if isinstance(layer, RewardScaler) else 1.0
    raise bad_argument("env", type(layer).__name__, "an environment with goals needs compute_reward")


def check_goals(env: VecEnv) -> None:
    """Raise a UsageError unless observations have goals."""
    space = env.observation_space
    if not (isinstance(space, spaces.Dict) and set(GOALS) <= set(space.spaces)):
        raise UsageError(f"hindsight needs Dict observations of {', '.join(GOALS)}, not {space}")


def episode_limit(env: VecEnv) -> int | None:
    """Return the steps after which a time limit truncates episodes; None without a known limit."""
    limits = [one for one in layers_of(env.unwrapped.example()) if isinstance(one, gymnasium.wrappers.TimeLimit)]
    return min((limit._max_episode_steps for limit in limits), default=None)


# Steps without an end of the episode before a warning, and before an error.
LONG_EPISODE, LONGEST_EPISODE = 10**5, 10**6
ADVICE = "give max_ep_len, or max_episode_steps where the environment is registered"


def require_end(steps: int) -> None:
    """Raise a UsageError for an episode that seems endless, after an early warning; call it with every length."""
    if steps == LONG_EPISODE:
        warn(f"an episode has not ended within {steps:,} steps: if it never does, {ADVICE}")
    if steps > LONGEST_EPISODE:
        raise UsageError(f"an episode has not ended within {LONGEST_EPISODE:,} steps: {ADVICE}")
