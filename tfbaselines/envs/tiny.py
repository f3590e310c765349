"""Tiny environments with known results of learning, for tests and documentation.

The import of this module registers them as ``tfbaselines/...``, also for the command line:
``--env=tfbaselines.envs.tiny:tfbaselines/DiscreteIdentity-v0``. Their `episode_len` is the number of steps in an
episode, after which it is terminated or, with a time limit, truncated.
"""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

Step = tuple[Any, float, bool, bool, dict[str, Any]]


class _Tiny(gymnasium.Env):
    """Episodes of a fixed length. A subclass defines `_begin() -> obs` and `_react(action) -> (obs, reward)`.

    Args:
        episode_len: steps in an episode.
        timeout: a time limit truncates the episode; otherwise its end is terminal.
    """

    def __init__(self, episode_len: int, timeout: bool = False) -> None:
        self.episode_len = episode_len
        self._timeout = timeout
        self._time = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._time = 0
        return self._begin(), {}

    def step(self, action: Any) -> Step:
        obs, reward = self._react(action)
        self._time += 1
        over = self._time >= self.episode_len
        terminated = self._solved() or (over and not self._timeout)
        return obs, float(reward), terminated, over and not terminated, {}

    def _solved(self) -> bool:
        return False


class _Identity(_Tiny):
    """The observation is the best action. A subclass defines `_draw`, which draws the next one."""

    def __init__(self, space: spaces.Space, episode_len: int) -> None:
        super().__init__(episode_len)
        self.observation_space = self.action_space = space

    def _begin(self) -> Any:
        self._wanted = self._draw()
        return self._wanted

    def _react(self, action: Any) -> tuple[Any, float]:
        reward = self._reward(action)
        return self._begin(), reward

    def _reward(self, action: Any) -> float:
        return float(np.all(np.asarray(action) == self._wanted))


class DiscreteIdentityEnv(_Identity):
    """Reward 1 for repeating the observed number."""

    def __init__(self, dim: int = 10, episode_len: int = 100) -> None:
        super().__init__(spaces.Discrete(dim), episode_len)

    def _draw(self) -> int:
        return int(self.np_random.integers(self.action_space.n))


class MultiDiscreteIdentityEnv(_Identity):
    """Reward 1 for repeating all observed numbers."""

    def __init__(self, dims: Sequence[int] = (3, 3), episode_len: int = 100) -> None:
        super().__init__(spaces.MultiDiscrete(list(dims)), episode_len)

    def _draw(self) -> np.ndarray:
        return self.np_random.integers(self.action_space.nvec)


class MultiBinaryIdentityEnv(_Identity):
    """Reward the share of the observed bits that the action repeats."""

    def __init__(self, n: int = 3, episode_len: int = 100) -> None:
        super().__init__(spaces.MultiBinary(n), episode_len)

    def _draw(self) -> np.ndarray:
        return self.np_random.integers(0, 2, self.action_space.shape, dtype=np.int8)

    def _reward(self, action: Any) -> float:
        return float(np.mean(np.asarray(action) == self._wanted))


class BoxIdentityEnv(_Identity):
    """Reward minus half the squared distance to the observed point."""

    def __init__(self, shape: Sequence[int] = (1,), episode_len: int = 100) -> None:
        super().__init__(spaces.Box(-1.0, 1.0, tuple(shape), np.float32), episode_len)

    def _draw(self) -> np.ndarray:
        return self.np_random.uniform(-1.0, 1.0, self.action_space.shape).astype(np.float32)

    def _reward(self, action: Any) -> float:
        return -0.5 * float(np.square(action - self._wanted).sum())


class FixedSequenceEnv(_Tiny):
    """Reward 1 for each right action of a fixed sequence. Observations are constant, so memory is needed."""

    def __init__(self, n_actions: int = 10, episode_len: int = 5) -> None:
        super().__init__(episode_len)
        self.observation_space = spaces.Discrete(1)
        self.action_space = spaces.Discrete(n_actions)
        self._sequence = np.random.default_rng(0).integers(n_actions, size=episode_len)

    def _begin(self) -> int:
        return 0

    def _react(self, action: Any) -> tuple[int, float]:
        return 0, float(action == self._sequence[self._time])


class CueMemoryEnv(_Tiny):
    """Observe one of n_cues in the first step only; reward 1 for repeating it in the last step."""

    def __init__(self, n_cues: int = 2, episode_len: int = 5) -> None:
        super().__init__(episode_len)
        self.observation_space = spaces.Box(0.0, 1.0, (n_cues + 1,), np.float32)
        self.action_space = spaces.Discrete(n_cues)

    def _begin(self) -> np.ndarray:
        self._cue = int(self.np_random.integers(self.action_space.n))
        return self._show(self._cue)

    def _react(self, action: Any) -> tuple[np.ndarray, float]:
        last = self._time == self.episode_len - 1
        return self._show(None), float(last and action == self._cue)

    def _show(self, cue: int | None) -> np.ndarray:
        obs = np.zeros(self.observation_space.shape, np.float32)
        obs[self.action_space.n if cue is None else cue] = 1.0
        return obs


class Target1DEnv(_Tiny):
    """Reach the observed end of a line: reward 1 there, -1 at the other end, and a small penalty for each step.

    Args:
        continuous: actions are numbers in [-1, 1] in place of left and right.
        episode_len: steps after which the episode is truncated.
    """

    STEP, PENALTY = 0.2, 0.1

    def __init__(self, continuous: bool = False, episode_len: int = 50) -> None:
        super().__init__(episode_len, timeout=True)
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32) if continuous else spaces.Discrete(2)
        self._continuous = continuous

    def _begin(self) -> np.ndarray:
        self._goal = float(self.np_random.choice([-1.0, 1.0]))
        self._position = 0.0
        return self._observe()

    def _react(self, action: Any) -> tuple[np.ndarray, float]:
        move = float(np.ravel(action)[0]) if self._continuous else float(2 * int(action) - 1)
        self._position = float(np.clip(self._position + self.STEP * np.clip(move, -1, 1), -1.0, 1.0))
        arrival = 1.0 if self._position * self._goal > 0 else -1.0
        return self._observe(), arrival if self._solved() else -self.PENALTY

    def _solved(self) -> bool:
        return abs(self._position) >= 1.0 - 1e-6

    def _observe(self) -> np.ndarray:
        return np.array([self._goal, self._position], np.float32)


class ImageClassificationEnv(_Tiny):
    """Reward 1 for the number of a noisy picture of size x size pixels."""

    def __init__(self, episode_len: int = 100, size: int = 36, n_classes: int = 10) -> None:
        super().__init__(episode_len)
        self.observation_space = spaces.Box(0, 255, (size, size, 1), np.uint8)
        self.action_space = spaces.Discrete(n_classes)
        coarse = np.random.default_rng(0).integers(0, 2, (n_classes, 6, 6, 1)) * 200
        self._pictures = coarse.repeat(size // 6, axis=1).repeat(size // 6, axis=2)

    def _begin(self) -> np.ndarray:
        self._shown = int(self.np_random.integers(self.action_space.n))
        noise = self.np_random.integers(0, 55, self.observation_space.shape)
        return (self._pictures[self._shown] + noise).astype(np.uint8)

    def _react(self, action: Any) -> tuple[np.ndarray, float]:
        reward = float(action == self._shown)
        return self._begin(), reward


class SparseMazeEnv(_Tiny):
    """A square of size x size rooms with reward 1 in the far corner and 0 elsewhere; a time limit ends the episode.

    Args:
        size: rooms in a row and in a column.
        episode_len: steps after which the episode is truncated.
        distance: moves from the first room to the far corner, for a curriculum; the first room is any of the rooms
            this far away. None begins in the near corner.
    """

    MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))

    def __init__(self, size: int = 5, episode_len: int = 100, distance: float | None = None) -> None:
        super().__init__(episode_len, timeout=True)
        self._distance = 2 * (size - 1) if distance is None else min(max(1, round(distance)), 2 * (size - 1))
        self.observation_space = spaces.MultiDiscrete([size, size])
        self.action_space = spaces.Discrete(4)
        self._size = size

    def _begin(self) -> np.ndarray:
        # The distance from the far corner is what is missing in the row and in the column.
        least, most = max(0, self._distance - self._size + 1), min(self._distance, self._size - 1)
        missing = least if least == most else int(self.np_random.integers(least, most + 1))
        self._room = self._size - 1 - np.array([missing, self._distance - missing])
        return self._room.copy()

    def _react(self, action: Any) -> tuple[np.ndarray, float]:
        self._room = np.clip(self._room + self.MOVES[int(action)], 0, self._size - 1)
        return self._room.copy(), float(self._solved())

    def _solved(self) -> bool:
        return bool((self._room == self._size - 1).all())


class PointReachEnv(_Tiny):
    """Move a point in a square to a goal: reward 0 near the goal, -1 elsewhere; a time limit ends the episode."""

    STEP, NEAR = 0.2, 0.05

    def __init__(self, episode_len: int = 15) -> None:
        super().__init__(episode_len, timeout=True)
        place = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.observation_space = spaces.Dict(observation=place, achieved_goal=place, desired_goal=place)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Any) -> np.ndarray:
        """Return the rewards [...] of achieved and desired goals [..., 2]."""
        return -(np.linalg.norm(achieved_goal - desired_goal, axis=-1) > self.NEAR).astype(np.float32)

    def step(self, action: Any) -> Step:
        """Move the point; the info's is_success shows whether it reached the goal."""
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated, truncated, info | {"is_success": reward == 0.0}

    def _begin(self) -> dict[str, np.ndarray]:
        self._goal = self.np_random.uniform(-1.0, 1.0, 2).astype(np.float32)
        self._position = np.zeros(2, np.float32)
        return self._observe()

    def _react(self, action: Any) -> tuple[dict[str, np.ndarray], float]:
        moved = self._position + self.STEP * np.clip(action, -1.0, 1.0)
        self._position = np.clip(moved, -1.0, 1.0).astype(np.float32)
        return self._observe(), self.compute_reward(self._position, self._goal, {})

    def _observe(self) -> dict[str, np.ndarray]:
        shown = {"observation": self._position, "achieved_goal": self._position, "desired_goal": self._goal}
        return {name: part.copy() for name, part in shown.items()}


class ConstantRewardEnv(_Tiny):
    """Reward 1 for every action, until a time limit: every state has the value 1 / (1 - gamma)."""

    def __init__(self, episode_len: int = 10) -> None:
        super().__init__(episode_len, timeout=True)
        self.observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = spaces.Discrete(2)

    def _begin(self) -> np.ndarray:
        return np.zeros(1, np.float32)

    def _react(self, action: Any) -> tuple[np.ndarray, float]:
        return np.zeros(1, np.float32), 1.0


class NaNEnv(ConstantRewardEnv):
    """Return NaN as observation from step `after` on."""

    def __init__(self, after: int = 20) -> None:
        super().__init__(episode_len=10 * after)
        self._after = after

    def _react(self, action: Any) -> tuple[np.ndarray, float]:
        return np.full(1, np.nan if self._time + 1 >= self._after else 0.0, np.float32), 1.0


class CrashingEnv(ConstantRewardEnv):
    """Raise an error in step `after`."""

    def __init__(self, after: int = 20) -> None:
        super().__init__(episode_len=10 * after)
        self._after = after

    def _react(self, action: Any) -> tuple[np.ndarray, float]:
        if self._time + 1 >= self._after:
            raise RuntimeError("the simulator gave up")
        return super()._react(action)


ENVIRONMENTS = {
    "DiscreteIdentity": DiscreteIdentityEnv,
    "MultiDiscreteIdentity": MultiDiscreteIdentityEnv,
    "MultiBinaryIdentity": MultiBinaryIdentityEnv,
    "BoxIdentity": BoxIdentityEnv,
    "FixedSequence": FixedSequenceEnv,
    "CueMemory": CueMemoryEnv,
    "Target1D": Target1DEnv,
    "ImageClassification": ImageClassificationEnv,
    "SparseMaze": SparseMazeEnv,
    "PointReach": PointReachEnv,
    "ConstantReward": ConstantRewardEnv,
    "NaN": NaNEnv,
    "Crashing": CrashingEnv,
}

# Time limits that algorithms depend on.
LIMITS = {"PointReach": 15}

for _name, _kind in ENVIRONMENTS.items():
    gymnasium.register(f"tfbaselines/{_name}-v0", f"{__name__}:{_kind.__name__}", max_episode_steps=LIMITS.get(_name))
gymnasium.register("tfbaselines/Target1DContinuous-v0", f"{__name__}:Target1DEnv", kwargs={"continuous": True})
