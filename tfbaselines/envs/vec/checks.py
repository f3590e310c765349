"""Checks of what environments return: observations that do not fit their space, numbers that are not finite."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from tfbaselines.envs.vec.observations import ONLY, Observations, parts_of, parts_of_obs
from tfbaselines.errors import NotFiniteError, ObservationError

# Losses square rewards in float32.
MOST_SQUARED = float(np.finfo(np.float32).max)
MOST = MOST_SQUARED**0.5


def environment_name(number: int, env_id: str | None) -> str:
    """What errors call an environment."""
    return f"environment {number} ({env_id})" if env_id else f"environment {number}"


def id_of(env: gymnasium.Env) -> str:
    """An environment's id, or its class's name."""
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__


def check_fits(name: str, space: spaces.Space, obs: Any, quantity: str = "observation after reset") -> None:
    """ObservationError unless an observation has its space's shape and a dtype that can be cast to the space's."""
    shown = parts_of_obs(obs)
    for key, part in parts_of(space).items():
        what = quantity if key == ONLY else f"{quantity}, part '{key}',"
        if key not in shown:
            raise ObservationError(f"{name}: {what} is missing")
        array = np.asarray(shown[key])
        if part.shape is not None and array.shape != part.shape:
            raise ObservationError(f"{name}: {what} has shape {array.shape}, its space has shape {part.shape}")
        if part.dtype is not None and not _castable(array.dtype, part.dtype):
            raise ObservationError(f"{name}: {what} has dtype {array.dtype}, its space has dtype {part.dtype}")


def _castable(given: np.dtype, wanted: np.dtype) -> bool:
    integers = "biu"
    return np.can_cast(given, wanted, "same_kind") or (given.kind in integers and wanted.kind in integers)


class NumberChecks:
    """Checks that the numbers of a vector environment are finite, and rewards small enough to be squared in float32.

    Args:
        names: what errors call each environment.
        observations: the present ones.

    Attributes:
        steps: taken so far, of each environment.
    """

    def __init__(self, names: Sequence[str], observations: Observations) -> None:
        self._names, self._observations = names, observations
        self.steps = 0

    def begun(self) -> None:
        """After a reset of every environment."""
        if not self._observations.finite():
            raise self._error("observation after reset", self._observations.first_not_finite())

    def final(self, i: int, info: dict[str, Any]) -> None:
        """After the last step of environment i's episode; `stepped` follows."""
        for part in parts_of_obs(info["final_observation"]).values():
            array = np.asarray(part)
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                self.steps += 1
                raise self._error("final observation", i)

    def stepped(self, rewards: np.ndarray, dones: Sequence[bool]) -> None:
        """After a step of every environment; rewards are float64."""
        self.steps += 1
        if not rewards.dot(rewards) <= MOST_SQUARED:
            self._check_rewards(rewards)
        if not self._observations.finite():
            i = self._observations.first_not_finite()
            raise self._error("observation after reset" if dones[i] else "observation", i)

    def _check_rewards(self, rewards: np.ndarray) -> None:
        for i, reward in enumerate(rewards):
            if not np.isfinite(reward):
                raise self._error("reward", i)
            if abs(reward) > MOST:
                raise NotFiniteError(
                    f"{self._names[i]}: reward {reward:g} at step {self.steps} is not a finite number when squared in "
                    f"float32: at most {MOST:.2g}"
                )

    def _error(self, quantity: str, i: int) -> NotFiniteError:
        return NotFiniteError(f"{self._names[i]}: {quantity} at step {self.steps} is not a finite number")
