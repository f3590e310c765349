"""Environments of small runs, which count or stand still."""

import gymnasium
import numpy as np
from gymnasium import spaces
from helpers import vec

from tfbaselines.envs import tiny

# Steps of an episode: an update, or a cycle, of small runs.
CYCLE = 10


class Counting(gymnasium.Env):
    """Shows how many steps were taken since it was made, and pays as much; the first of an episode as less than zero.

    Args:
        length: steps in an episode; None for no end.
        first: where counting begins.
        timeout: a time limit ends the episodes.
        actions: what it takes.
    """

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)

    def __init__(self, length=5, first=0, timeout=False, actions=None):
        self.length, self.first, self.count, self.timeout = length, first, first, timeout
        self.action_space = actions or spaces.Box(-1.0, 3.0, (2,), np.float32)
        self.taken = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.array([-self.count], np.float32), {}

    def step(self, action):
        self.taken.append(np.array(action))
        self.count += 1
        over = self.length is not None and (self.count - self.first) % self.length == 0
        shown = np.array([self.count], np.float32)
        return shown, float(self.count - 1), over and not self.timeout, over and self.timeout, {}


class Still(gymnasium.Env):
    """Always the same is shown and nothing is random, so that a run can be stopped and resumed without a trace.

    Args:
        actions: what it takes.
        length: steps in an episode.
    """

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def __init__(self, actions=None, length=CYCLE):
        self.action_space = actions or spaces.Box(-2.0, 2.0, (2,), np.float32)
        self.length, self.time, self.taken = length, 0, []
        # For a curriculum: it is added to every reward.
        self.bonus = 0.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.full(2, 0.5, np.float32), {}

    def step(self, action):
        self.taken.append(np.array(action))
        self.time += 1
        return np.full(2, 0.5, np.float32), float(np.sum(action)) + self.bonus, self.time >= self.length, False, {}


class Seeing(gymnasium.Env):
    """Shows samples of a space and refuses actions that are not in its own; episodes of three steps.

    Args:
        observation_space: what it draws from.
        action_space: what it takes.
    """

    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.time = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        self.time += 1
        # What is done counts a little: a search learns nothing from equal returns.
        return self.observation_space.sample(), 1.0 + 0.1 * float(np.sum(action)), self.time >= 3, False, {}


class Goals(gymnasium.Wrapper):
    """What an environment shows, and as goals the first numbers of the last action, and those it is to have.

    Args:
        env: the environment.
    """

    DESIRED = np.array([0.5, 0.25], np.float32)

    def __init__(self, env):
        super().__init__(env)
        goal = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.observation_space = spaces.Dict(observation=env.observation_space, achieved_goal=goal, desired_goal=goal)

    def reset(self, **kwargs):
        obs, info = self.env.reset(**kwargs)
        return self._shown(obs, np.zeros(2)), info

    def step(self, action):
        obs, _, terminated, truncated, info = self.env.step(action)
        obs = self._shown(obs, np.ravel(action))
        reward = self.compute_reward(obs["achieved_goal"], self.DESIRED, {})
        return obs, reward, terminated, truncated, info | {"is_success": reward == 0}

    def compute_reward(self, achieved, desired, info):
        return -np.any(np.abs(achieved - desired) > 0.5, axis=-1).astype(np.float32)

    def _shown(self, obs, action):
        achieved = np.resize(action, 2).astype(np.float32)
        return {"observation": obs, "achieved_goal": achieved, "desired_goal": self.DESIRED}


class Masked(Seeing):
    """Tells which of its choices are allowed, at least one of each kind, and refuses the others."""

    def _told(self):
        space = self.action_space
        widths = [space.n] if isinstance(space, spaces.Discrete) else space.nvec
        self.masks = [self.np_random.integers(0, 2, width, dtype=np.int8) for width in widths]
        for mask in self.masks:
            mask[self.np_random.integers(len(mask))] = 1
        return {"action_mask": self.masks[0] if len(self.masks) == 1 else tuple(self.masks)}

    def reset(self, **kwargs):
        return super().reset(**kwargs)[0], self._told()

    def step(self, action):
        choices = np.ravel(action) - np.ravel(self.action_space.start)
        assert all(mask[choice] for mask, choice in zip(self.masks, choices, strict=True)), (action, self.masks)
        *step, _ = super().step(action)
        return *step, self._told()


def counting(count=1, **kwargs):
    return vec(lambda: Counting(**kwargs), count)


def still(count=1, **kwargs):
    return vec(lambda: Still(**kwargs), count)


def box(count=1, seed=0):
    return vec(lambda: tiny.BoxIdentityEnv((2,), episode_len=10), count, seed)


def identity(count=1, seed=0, dim=4):
    return vec(lambda: tiny.DiscreteIdentityEnv(dim, episode_len=10), count, seed)


def taken(env, i=0):
    """The actions that were taken in one of the environments."""
    return np.array(env.envs[i].unwrapped.taken)
