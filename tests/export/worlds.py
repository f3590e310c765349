"""Environments of the table of exports: observations of several parts, an image among them, and action masks."""

import gymnasium
import numpy as np
from gymnasium import spaces


class Parts(gymnasium.Env):
    """Observations of several parts, drawn at random; masks allow some of the choices; episodes of 20 steps.

    Args:
        actions: space of actions.
        image: one part is an image.
        masked: one part is an action mask.
    """

    def __init__(self, actions, image=False, masked=False):
        self.action_space = actions
        parts = {"place": spaces.Box(-9.0, 9.0, (3,), np.float64), "kind": spaces.Discrete(3)}
        parts |= {"camera": spaces.Box(0, 255, (40, 40, 1), np.uint8)} if image else {}
        parts |= {"action_mask": spaces.MultiBinary(int(actions.n))} if masked else {}
        self.observation_space = spaces.Dict(parts)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self._steps = 0
        return self._shown(), {}

    def step(self, action):
        self._steps += 1
        reward = float(np.sum(action)) * (1.0 if self._obs["kind"] else -1.0)
        return self._shown(), reward, self._steps == 20, False, {}

    def _shown(self):
        self._obs = dict(self.observation_space.sample())
        if "action_mask" in self._obs:
            self._obs["action_mask"][self.np_random.integers(len(self._obs["action_mask"]))] = 1
        return self._obs


def _parts(**kwargs):
    # Gymnasium's own checks of masks and images are not about these.
    return Parts(**kwargs)


BOX = spaces.Box(-2.0, 2.0, (2,), np.float32)
WORLDS = {
    "Camera": {"actions": spaces.Discrete(4), "image": True},
    "Masked": {"actions": spaces.Discrete(4), "masked": True},
    "Parts": {"actions": BOX},
    "Numbers": {"actions": spaces.MultiDiscrete([3, 2])},
    "Bits": {"actions": spaces.MultiBinary(3)},
}
for _name, _kwargs in WORLDS.items():
    gymnasium.register(f"{_name}-v0", entry_point=_parts, kwargs=_kwargs)
