"""A mass on a line, with numpy alone, and faults inside of it that no wrapper shows."""

import gymnasium
import numpy as np
from gymnasium import spaces

FAULTS = (
    *("late_observations", "late_rewards", "no_velocity", "constant", "ignored", "random_actions", "wide", "choices"),
    *("limit_as_end", "no_end", "one_seed", "large_observations", "large_rewards", "small_rewards", "negative"),
)


class Mass(gymnasium.Env):
    """Push a mass towards 0: reward 1 - |position| in every step; episodes end outside of -2..2.

    Args:
        fault: one of FAULTS, or "".
        length: steps after which the environment itself ends an episode; 0 for never.
    """

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, fault="", length=0):
        self.fault = fault
        self.length = length
        self.observation_space = spaces.Box(-np.inf, np.inf, (1 if fault == "no_velocity" else 3,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        if fault == "wide":
            self.action_space = spaces.Box(-100.0, 100.0, (1,), np.float32)
        elif fault in ("choices", "negative"):
            self.action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=0 if self.fault == "one_seed" and seed is not None else seed)
        self.state = self.np_random.uniform(-0.5, 0.5, 2)
        self.last = self.seen()
        self.earned = 0.0
        self.time = 0
        return self.last, {}

    def seen(self):
        position, velocity = self.state
        obs = np.array([position, velocity, position * velocity], np.float32)
        if self.fault == "constant":
            obs[1] = 0.3
        if self.fault == "large_observations":
            obs *= 1e5
        return obs[:1] if self.fault == "no_velocity" else obs

    def force(self, action):
        if self.fault == "ignored":
            return 0.0
        if self.fault == "random_actions":
            return self.np_random.uniform(-1.0, 1.0)
        if isinstance(self.action_space, spaces.Discrete):
            return float(min(int(action), 1)) - 0.5
        return float(np.clip(np.ravel(action)[0], -1.0, 1.0))

    def step(self, action):
        before, self.time = self.last, self.time + 1
        position, velocity = self.state
        force = self.force(action)
        velocity = velocity + 0.1 * force - 0.05 * position
        position = position + 0.3 * velocity if self.fault != "no_velocity" else position + 0.3 * self.state[1]
        self.state = np.array([position, velocity])
        self.last = self.seen()
        paid = 1.0 - abs(position) - 0.1 * force**2
        scale = {"large_rewards": 1e4, "small_rewards": 1e-4}.get(self.fault, 1.0)
        paid, self.earned = (self.earned, paid) if self.fault == "late_rewards" else (paid, 0.0)
        paid = -1.0 if self.fault == "negative" else paid
        over = abs(position) > 2
        if self.fault == "no_end" and over:
            self.state = np.zeros(2)
        ended = self.length and self.time >= self.length
        terminated = (over and self.fault != "no_end") or (ended and self.fault == "limit_as_end")
        obs = before if self.fault == "late_observations" else self.last
        return obs, paid * scale, bool(terminated), bool(ended and self.fault not in ("limit_as_end", "no_end")), {}


gymnasium.register("tests/Mass-v0", f"{__name__}:Mass", max_episode_steps=100)
