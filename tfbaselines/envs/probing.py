"""Tiny environments with known answers: the first one that a configuration fails shows where its fault lies.

The import of this module registers them as ``tfbaselines/Probe...-v0``, also for the command line:
``--env=tfbaselines.envs.probing:tfbaselines/ProbeLaterReward-v0``. `tfbaselines doctor RUN --probe` trains a run's
configuration on them; docs/doctor.md explains their use for algorithms of your own.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from tfbaselines.envs.vec.observations import is_image

# The best number of continuous actions is this far from 0.
AIM = 0.5


def like(action_space: spaces.Space) -> spaces.Space:
    """Return the smallest action space of the same kind with a right and a wrong action."""
    if isinstance(action_space, spaces.Box):
        return spaces.Box(-1.0, 1.0, (1,), np.float32)
    if isinstance(action_space, spaces.MultiDiscrete):
        return spaces.MultiDiscrete([2])
    if isinstance(action_space, spaces.MultiBinary):
        return spaces.MultiBinary(1)
    return spaces.Discrete(2)


class ProbeEnv(gymnasium.Env):
    """Episodes of `length` steps; observations show one number from -1 to 1.

    A subclass defines `number`, shown in each step, and `pay`, the reward of an action.

    Attributes:
        taken: for each step so far the number that was shown and the action, as numbers.

    Args:
        actions: kind of action space; None for Discrete.
        observations: an image space for observations of that shape; any other space, or None, for one number.
        continuous: actions are numbers, without `actions`.
    """

    length = 1

    def __init__(
        self,
        actions: spaces.Space | None = None,
        observations: spaces.Space | None = None,
        continuous: bool = False,
    ) -> None:
        image = observations is not None and is_image(observations)
        self.observation_space = observations if image else spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = like(actions or (spaces.Box(-1.0, 1.0, (1,)) if continuous else spaces.Discrete(2)))
        self.taken: list[tuple[float, float]] = []
        self._time = 0
        self._cue = 1.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._time = 0
        self._cue = float(self.np_random.choice([-1.0, 1.0]))
        return self.show(self.number()), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.taken.append((self.number(), float(np.ravel(action)[0])))
        reward = self.pay(action)
        self._time += 1
        return self.show(self.number()), float(reward), self._time >= self.length, False, {}

    def number(self) -> float:
        """Return the number that the present observation shows."""
        return 0.0

    def pay(self, action: Any) -> float:
        """Return the reward of an action."""
        return 1.0

    def show(self, number: float) -> np.ndarray:
        """Return the observation that shows a number: the number itself, or the brightness of a picture."""
        space = self.observation_space
        shown = number if space.dtype.kind == "f" else round(128 + 100 * number)
        return np.full(space.shape, shown, space.dtype)

    def right(self, action: Any, cue: float) -> float:
        """Return 1 for the best action for a cue of -1 or 1, and less for others."""
        first = float(np.ravel(action)[0])
        if isinstance(self.action_space, spaces.Box):
            return 1.0 - (first - AIM * cue) ** 2
        return float(first == (1.0 if cue > 0 else 0.0))


class ProbeConstantEnv(ProbeEnv):
    """Reward 1 for every action in episodes of one step: the value is 1."""


class ProbeObservationEnv(ProbeEnv):
    """The observation is -1 or 1, and so is the reward: the value is the observation."""

    def number(self) -> float:
        return self._cue

    def pay(self, action: Any) -> float:
        return self._cue


class ProbeLaterRewardEnv(ProbeEnv):
    """Reward 1 in the third and last step: the first observation has the value gamma squared."""

    length = 3

    def number(self) -> float:
        return min(self._time, 2) - 1.0

    def pay(self, action: Any) -> float:
        return float(self._time == self.length - 1)


class ProbeActionEnv(ProbeEnv):
    """The same action is best in every step: 1, or 0.5 for continuous actions."""

    def pay(self, action: Any) -> float:
        return self.right(action, 1.0)


class ProbeActionFromObservationEnv(ProbeEnv):
    """The observation, -1 or 1, shows which action is best: 0 or 1, and -0.5 or 0.5 for continuous actions."""

    def number(self) -> float:
        return self._cue

    def pay(self, action: Any) -> float:
        return self.right(action, self._cue)


class ProbeMemoryEnv(ProbeActionFromObservationEnv):
    """The first observation shows which action is best in the second step, when it can no longer be seen."""

    length = 2

    def number(self) -> float:
        return self._cue if self._time == 0 else 0.0

    def pay(self, action: Any) -> float:
        return self.right(action, self._cue) if self._time == 1 else 0.0


class RecordedEnv(gymnasium.Env):
    """Recorded observations in episodes of one step, with a fixed reward for each: its value is this reward.

    Args:
        space: space of the observations.
        observations: the observations.
        rewards: rewards of the observations.
        actions: the action space.
    """

    def __init__(self, space: spaces.Space, observations: Any, rewards: Any, actions: spaces.Space) -> None:
        self.observation_space = space
        self.action_space = actions
        self._observations = observations
        self._rewards = rewards
        self._place = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._place = int(self.np_random.integers(len(self._rewards)))
        return self._observations[self._place], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self._observations[self._place], float(self._rewards[self._place]), True, False, {}


ENVIRONMENTS = {
    "ProbeConstant": ProbeConstantEnv,
    "ProbeObservation": ProbeObservationEnv,
    "ProbeLaterReward": ProbeLaterRewardEnv,
    "ProbeAction": ProbeActionEnv,
    "ProbeActionFromObservation": ProbeActionFromObservationEnv,
    "ProbeMemory": ProbeMemoryEnv,
}

for _name, _kind in ENVIRONMENTS.items():
    _entry = f"{__name__}:{_kind.__name__}"
    gymnasium.register(f"tfbaselines/{_name}-v0", _entry)
    gymnasium.register(f"tfbaselines/{_name}Continuous-v0", _entry, kwargs={"continuous": True})
