"""The base of MuJoCo tasks: formulas of Gymnasium's environments, v5 and v4, for several environments at once.

Numbers equal Gymnasium's bit for bit. Sums therefore go over one environment's values in their order, a squared norm is
a dot product, and a weight multiplies a sum of float32 actions as numpy multiplies two numbers. `x**2` of a number
calls the C library's pow, which differs from x * x in the last bit of some results.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

# Whether the product of a float32 and a Python number is a float32, as it is for arrays: since numpy 2.
WEAK = (np.float32(1) * 1.0).dtype == np.float32

# Bounds of velocities and constraint forces in observations.
MOST = 10


class Results(NamedTuple):
    """A step of N environments; `columns` has an array [N, ...] for each entry of the infos."""

    obs: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    columns: dict[str, np.ndarray]


class Task(ABC):
    """The formulas of one task. Gymnasium's environments hold the simulations and begin the episodes.

    Args:
        envs: the innermost environments, of one model.
        arguments: all arguments of their constructor.

    Attributes:
        contacts: whether the formulas read contact forces, which MuJoCo computes on request.
    """

    contacts = False

    def __init__(self, envs: Sequence[Any], arguments: dict[str, Any]) -> None:
        self.given = SimpleNamespace(**arguments)
        self.dt = envs[0].dt
        self.start = envs[0].init_qpos.copy()
        self._datas = [env.data for env in envs]
        self.qpos, self.qvel = self.views("qpos"), self.views("qvel")
        self._seen = [view for parts in zip(*self.observed(), strict=True) for view in parts]

    def views(self, name: str, part: Any = ...) -> list[np.ndarray]:
        """Return a part of an array of every simulation, as rows that later steps change in place."""
        return [getattr(data, name)[part].reshape(-1) for data in self._datas]

    def body(self, name: str | int) -> list[np.ndarray]:
        """Return the positions of a body, as `views` does."""
        return [data.body(name).xpos for data in self._datas]

    def observed(self) -> list[list[np.ndarray]]:
        """Return the views that an observation consists of."""
        return [self.qpos, self.qvel]

    def observe(self) -> np.ndarray:
        return np.concatenate(self._seen).reshape(len(self._datas), -1)

    def never(self) -> np.ndarray:
        return np.zeros(len(self._datas), bool)

    def before(self) -> Any:
        """Read what `after` needs from before the step."""
        return None

    @abstractmethod
    def after(self, before: Any, actions: np.ndarray) -> Results:
        """Return the results of a step with clipped actions [N, A]."""


def stacked(views: Sequence[np.ndarray]) -> np.ndarray:
    """Copy one row of each environment into an array [N, ...]."""
    return np.concatenate(views).reshape(len(views), -1)


def weighted_squares(weight: float, rows: np.ndarray) -> np.ndarray:
    """Return weight * sum(row ** 2) of every row."""
    totals = np.add.reduce(np.square(rows), axis=1)
    return weight * totals if WEAK else np.array([weight * total for total in totals])


def norms(rows: np.ndarray) -> np.ndarray:
    return np.sqrt([row.dot(row) for row in rows])


def without(count: int, given: SimpleNamespace) -> slice:
    """Return the part of the positions that observations have."""
    return slice(count if given.exclude_current_positions_from_observation else 0, None)


def whereabouts(xy: np.ndarray, velocity: np.ndarray, **others: np.ndarray) -> dict[str, np.ndarray]:
    """Return the columns of positions and velocities in the plane, with other columns after the positions."""
    columns = {"x_position": xy[:, 0], "y_position": xy[:, 1], **others, "distance_from_origin": norms(xy)}
    return columns | {"x_velocity": velocity[:, 0], "y_velocity": velocity[:, 1]}
