"""Environments and faults of the threads in tests/doctor/threads.py, made anew as small ones."""

import gymnasium
import numpy as np
from gymnasium import spaces


class Effort(gymnasium.Env):
    """A place on a line: each push toward its end costs, and only the end pays.

    Args:
        limit: steps of an episode.
        told: how the limit is reported, "terminated" or "truncated".
    """

    def __init__(self, limit=20, told="truncated"):
        self.observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._limit = limit
        self._told = told

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._place = float(self.np_random.uniform(0.0, 1.0))
        self._steps = 0
        return self._observation(), {}

    def step(self, action):
        push = int(action) == 1
        self._place = float(np.clip(self._place + (0.1 if push else -0.1), 0.0, 1.0))
        self._steps += 1
        reward = (0.5 if self._place == 1.0 else 0.0) - (0.2 if push else 0.0)
        over = self._steps == self._limit
        return self._observation(), reward, over and self._told == "terminated", over and self._told == "truncated", {}

    def _observation(self):
        return np.array([self._place], np.float32)


class StillPoint(gymnasium.Env):
    """A point that should move to the origin, and does not move: the place is never updated.

    Args:
        moves: update the place.
    """

    def __init__(self, moves=False):
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Box(-0.1, 0.1, (2,), np.float32)
        self._moves = moves

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._place = self.np_random.uniform(-1.0, 1.0, 2)
        return self._place.astype(np.float32), {}

    def step(self, action):
        if self._moves:
            self._place = self._place + np.clip(action, self.action_space.low, self.action_space.high)
        distance = float(np.linalg.norm(self._place))
        return self._place.astype(np.float32), -distance, distance < 0.05, False, {}


class EndReward(gymnasium.Wrapper):
    """Pay -1 at the end of an episode, whatever ended it, and nothing before."""

    def step(self, action):
        observation, _, terminated, truncated, info = self.env.step(action)
        return observation, -1.0 if terminated or truncated else 0.0, terminated, truncated, info


gymnasium.register("tests/Effort-v0", Effort)
gymnasium.register("tests/StillPoint-v0", StillPoint, max_episode_steps=50)
