"""A small environment of two behaviors in PettingZoo's parallel form, with known results of learning.

It needs no package: `python -m tfbaselines.multi --env=tfbaselines.multi.tiny:guided` trains on it.
"""

from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

Dict = dict[str, Any]


class GuidedEnv:
    """Runners look for the end of a line that only their guides see.

    The guide of each pair observes the side of the goal and says a number; its reward is minus half the squared
    distance of the number to the side. The runner observes what its guide said in the step before, and its own place;
    it moves left or right, with reward 1 at the goal, -1 at the other end and -0.1 elsewhere. A runner is gone when it
    has reached an end. A guide is gone after a random number of steps; its last word stays.

    Args:
        pairs: number of pairs.
        episode_len: steps after which the runners are truncated.
    """

    metadata: ClassVar[Dict] = {"name": "guided"}
    STEP, PENALTY = 0.25, 0.1
    # Probability that a guide is gone after a step, from its third one on.
    LEAVES = 0.2

    def __init__(self, pairs: int = 2, episode_len: int = 20) -> None:
        self._pairs = pairs
        self._length = episode_len
        self.possible_agents = [f"{kind}_{i}" for kind in ("guide", "runner") for i in range(pairs)]
        self.agents: list[str] = []
        self._spaces = {
            "guide": (spaces.Box(-1.0, 1.0, (1,), np.float32), spaces.Box(-1.0, 1.0, (1,), np.float32)),
            "runner": (spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.Discrete(2)),
        }
        self._rng = np.random.default_rng()

    def observation_space(self, agent: str) -> spaces.Space:
        """Return the space of an agent's observations."""
        return self._spaces[agent.split("_")[0]][0]

    def action_space(self, agent: str) -> spaces.Space:
        """Return the space of an agent's actions."""
        return self._spaces[agent.split("_")[0]][1]

    def reset(self, seed: int | None = None, options: Dict | None = None) -> tuple[Dict, Dict]:
        """Begin an episode; return the observations and infos of all agents."""
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self.agents = list(self.possible_agents)
        self._time = 0
        self._goals = self._rng.choice([-1.0, 1.0], self._pairs)
        self._said = np.zeros(self._pairs)
        self._places = np.zeros(self._pairs)
        return {agent: self._observe(agent) for agent in self.agents}, {agent: {} for agent in self.agents}

    def step(self, actions: Dict) -> tuple[Dict, Dict, Dict, Dict, Dict]:
        """Take a step; return observations, rewards, terminations, truncations and infos of the agents that acted."""
        self._time += 1
        rewards, terminated = {}, {}
        for agent in self.agents:
            kind, _, number = agent.partition("_")
            act = self._guide if kind == "guide" else self._run
            rewards[agent], terminated[agent] = act(int(number), actions[agent])
        over = self._time >= self._length
        truncated = {agent: over and not terminated[agent] for agent in self.agents}
        obs = {agent: self._observe(agent) for agent in self.agents}
        infos: Dict = {agent: {} for agent in self.agents}
        self.agents = [agent for agent in self.agents if not (terminated[agent] or truncated[agent])]
        return obs, rewards, terminated, truncated, infos

    def _guide(self, i: int, action: Any) -> tuple[float, bool]:
        self._said[i] = float(np.ravel(action)[0])
        leaves = self._time >= 3 and self._rng.random() < self.LEAVES
        return -0.5 * float((self._said[i] - self._goals[i]) ** 2), bool(leaves)

    def _run(self, i: int, action: Any) -> tuple[float, bool]:
        self._places[i] = np.clip(self._places[i] + self.STEP * (2 * int(action) - 1), -1.0, 1.0)
        if abs(self._places[i]) < 1.0:
            return -self.PENALTY, False
        return 1.0 if self._places[i] == self._goals[i] else -1.0, True

    def _observe(self, agent: str) -> np.ndarray:
        kind, _, number = agent.partition("_")
        i = int(number)
        shown = [self._goals[i]] if kind == "guide" else [self._said[i], self._places[i]]
        return np.array(shown, np.float32)

    def render(self) -> None:
        """Draw nothing."""

    def close(self) -> None:
        """Release nothing."""


def guided(**kwargs: Any) -> GuidedEnv:
    """Make the environment."""
    return GuidedEnv(**kwargs)
