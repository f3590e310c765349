"""Tasks of pendulums and of arms: InvertedPendulum, InvertedDoublePendulum, Reacher and Pusher."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfbaselines.envs.mujoco.task import MOST, Results, Task, norms, stacked, weighted_squares

LARGEST_ANGLE = 0.2


class InvertedPendulum(Task):
    def after(self, before: None, actions: np.ndarray) -> Results:
        obs = self.observe()
        terminated = ~np.isfinite(obs).all(axis=1) | (np.abs(obs[:, 1]) > LARGEST_ANGLE)
        # Whole rewards make whole returns, also in monitor files.
        rewards = (~terminated).astype(int)
        return Results(obs, rewards, terminated, {"reward_survive": rewards})


class InvertedPendulumV4(InvertedPendulum):
    """Version 4 rewards the last step too."""

    def after(self, before: None, actions: np.ndarray) -> Results:
        results = super().after(before, actions)
        return results._replace(rewards=np.ones(len(actions)), columns={})


class InvertedDoublePendulum(Task):
    # Number of constraint forces in observations; None for all.
    forces: int | None = 1

    def __init__(self, envs: Sequence[Any], arguments: dict[str, Any]) -> None:
        super().__init__(envs, arguments)
        self._tips = self.views("site_xpos", 0)
        self._constraints = self.views("qfrc_constraint")

    def observe(self) -> np.ndarray:
        qpos = stacked(self.qpos)
        # One environment's angles are a row apart from the next one's, so that numpy takes each row as it takes one
        # environment's array: its sines of longer arrays may be others in the last bit.
        angles = qpos[:, 1:]
        inside = [np.clip(stacked(views), -MOST, MOST) for views in (self.qvel, self._constraints)]
        return np.concatenate([qpos[:, :1], np.sin(angles), np.cos(angles), inside[0], inside[1][:, : self.forces]], 1)

    def after(self, before: None, actions: np.ndarray) -> Results:
        obs, tips, qvel = self.observe(), stacked(self._tips), stacked(self.qvel)
        terminated = tips[:, 2] <= 1
        apart = np.array([0.01 * x**2 + (y - 2) ** 2 for x, _, y in tips])
        fast = np.array([1e-3 * v1**2 + 5e-3 * v2**2 for v1, v2 in qvel[:, 1:3]])
        alive = self.alive(terminated)
        columns = {"reward_survive": alive, "distance_penalty": -apart, "velocity_penalty": -fast}
        return Results(obs, alive - apart - fast, terminated, columns)

    def alive(self, terminated: np.ndarray) -> np.ndarray:
        return self.given.healthy_reward * (~terminated).astype(int)


class InvertedDoublePendulumV4(InvertedDoublePendulum):
    """Version 4 rewards the last step too, and shows every constraint force."""

    forces = None

    def alive(self, terminated: np.ndarray) -> np.ndarray:
        return np.full(len(terminated), 10)

    def after(self, before: None, actions: np.ndarray) -> Results:
        return super().after(before, actions)._replace(columns={})


class Reacher(Task):
    # Number of coordinates of the way to the target in observations.
    coordinates = 2

    def __init__(self, envs: Sequence[Any], arguments: dict[str, Any]) -> None:
        super().__init__(envs, arguments)
        self._finger, self._target = self.body("fingertip"), self.body("target")

    def way(self) -> np.ndarray:
        return stacked(self._finger) - stacked(self._target)

    def observe(self) -> np.ndarray:
        qpos, qvel = stacked(self.qpos), stacked(self.qvel)
        # As in InvertedDoublePendulum, the angles of two environments are apart.
        angles = qpos[:, :2]
        way = self.way()[:, : self.coordinates]
        return np.concatenate([np.cos(angles), np.sin(angles), qpos[:, 2:], qvel[:, :2], way], axis=1)

    def after(self, before: None, actions: np.ndarray) -> Results:
        distance = -norms(self.way()) * self.given.reward_dist_weight
        control = negative_squares(actions, self.given.reward_control_weight)
        return self.rewarded(distance, control)

    def rewarded(self, distance: np.ndarray, control: np.ndarray) -> Results:
        columns = {"reward_dist": distance, "reward_ctrl": control}
        return Results(self.observe(), distance + control, self.never(), columns)


class ReacherV4(Reacher):
    """Version 4 rewards the distance before the step."""

    coordinates = 3

    def before(self) -> np.ndarray:
        return self.way()

    def after(self, before: np.ndarray, actions: np.ndarray) -> Results:
        return self.rewarded(-norms(before), negative_squares(actions, 1))


class Pusher(Task):
    def __init__(self, envs: Sequence[Any], arguments: dict[str, Any]) -> None:
        super().__init__(envs, arguments)
        self._tip, self._object, self._goal = (self.body(name) for name in ("tips_arm", "object", "goal"))

    def observed(self) -> list[list[np.ndarray]]:
        bodies = [self.body(name) for name in ("tips_arm", "object", "goal")]
        return [self.views("qpos", slice(7)), self.views("qvel", slice(7)), *bodies]

    def after(self, before: None, actions: np.ndarray) -> Results:
        given, places = self.given, stacked(self._object)
        near = -norms(places - stacked(self._tip)) * given.reward_near_weight
        distance = -norms(places - stacked(self._goal)) * given.reward_dist_weight
        control = negative_squares(actions, given.reward_control_weight)
        columns = {"reward_dist": distance, "reward_ctrl": control, "reward_near": near}
        return Results(self.observe(), distance + control + near, self.never(), columns)


def negative_squares(actions: np.ndarray, weight: float) -> np.ndarray:
    """Return -sum(action ** 2) * weight of every action."""
    return -weighted_squares(weight, actions)
