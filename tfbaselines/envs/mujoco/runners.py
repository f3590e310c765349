"""Tasks of running: HalfCheetah, Hopper, Walker2d, Swimmer and Ant."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfbaselines.envs.mujoco.task import MOST, Results, Task, stacked, weighted_squares, whereabouts, without


class HalfCheetah(Task):
    forward = "reward_forward"

    def observed(self) -> list[list[np.ndarray]]:
        return [self.views("qpos", without(1, self.given)), self.qvel]

    def before(self) -> np.ndarray:
        return stacked(self.qpos)[:, 0]

    def after(self, before: np.ndarray, actions: np.ndarray) -> Results:
        x = stacked(self.qpos)[:, 0]
        velocity = (x - before) / self.dt
        forward = self.given.forward_reward_weight * velocity
        cost = weighted_squares(self.given.ctrl_cost_weight, actions)
        columns = {"x_position": x, "x_velocity": velocity, self.forward: forward, "reward_ctrl": -cost}
        return Results(self.observe(), forward - cost, self.never(), columns)


class HalfCheetahV4(HalfCheetah):
    forward = "reward_run"


class Hopper(Task):
    """Hopper, and the base of Walker2d, which has no range of healthy states."""

    def observed(self) -> list[list[np.ndarray]]:
        return [self.views("qpos", without(1, self.given)), self.qvel]

    def observe(self) -> np.ndarray:
        obs = super().observe()
        velocities = obs[:, -len(self.qvel[0]) :]
        np.clip(velocities, -MOST, MOST, out=velocities)
        return obs

    def before(self) -> np.ndarray:
        return stacked(self.qpos)[:, 0]

    def after(self, before: np.ndarray, actions: np.ndarray) -> Results:
        given, qpos = self.given, stacked(self.qpos)
        velocity = (qpos[:, 0] - before) / self.dt
        healthy = self.healthy(qpos)
        survived = self.survived(healthy) * given.healthy_reward
        forward = given.forward_reward_weight * velocity
        cost = weighted_squares(given.ctrl_cost_weight, actions)
        columns = self.columns(qpos, velocity, {"forward": forward, "ctrl": -cost, "survive": survived})
        terminated = ~healthy & bool(given.terminate_when_unhealthy)
        return Results(self.observe(), forward + survived - cost, terminated, columns)

    def healthy(self, qpos: np.ndarray) -> np.ndarray:
        least, most = self.given.healthy_state_range
        states = np.concatenate([qpos[:, 2:], stacked(self.qvel)], axis=1)
        return self.upright(qpos) & np.logical_and(least < states, states < most).all(axis=1)

    def upright(self, qpos: np.ndarray) -> np.ndarray:
        (low, high), (left, right) = self.given.healthy_z_range, self.given.healthy_angle_range
        z, angle = qpos[:, 1], qpos[:, 2]
        return (low < z) & (z < high) & (left < angle) & (angle < right)

    def survived(self, healthy: np.ndarray) -> np.ndarray:
        return healthy

    def columns(self, qpos: np.ndarray, velocity: np.ndarray, rewards: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        lifted = {"z_distance_from_origin": qpos[:, 1] - self.start[1]}
        named = {f"reward_{name}": values for name, values in rewards.items()}
        return {"x_position": qpos[:, 0], **lifted, "x_velocity": velocity, **named}


class HopperV4(Hopper):
    """Version 4 pays for survival in the last step too, and its infos have no parts of the reward."""

    def survived(self, healthy: np.ndarray) -> np.ndarray:
        return (healthy | bool(self.given.terminate_when_unhealthy)).astype(np.float64)

    def columns(self, qpos: np.ndarray, velocity: np.ndarray, rewards: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"x_position": qpos[:, 0], "x_velocity": velocity}


class Walker2d(Hopper):
    def healthy(self, qpos: np.ndarray) -> np.ndarray:
        return self.upright(qpos)


class Walker2dV4(Walker2d, HopperV4):
    """Walker2d with the rewards and infos of version 4."""


class Swimmer(Task):
    def observed(self) -> list[list[np.ndarray]]:
        return [self.views("qpos", without(2, self.given)), self.qvel]

    def before(self) -> np.ndarray:
        return stacked(self.qpos)[:, :2]

    def after(self, before: np.ndarray, actions: np.ndarray) -> Results:
        xy = stacked(self.qpos)[:, :2]
        velocity = (xy - before) / self.dt
        forward = self.given.forward_reward_weight * velocity[:, 0]
        cost = weighted_squares(self.given.ctrl_cost_weight, actions)
        columns = self.columns(whereabouts(xy, velocity), forward, cost)
        return Results(self.observe(), forward - cost, self.never(), columns)

    def columns(self, where: dict[str, np.ndarray], forward: np.ndarray, cost: np.ndarray) -> dict[str, np.ndarray]:
        return where | {"reward_forward": forward, "reward_ctrl": -cost}


class SwimmerV4(Swimmer):
    def columns(self, where: dict[str, np.ndarray], forward: np.ndarray, cost: np.ndarray) -> dict[str, np.ndarray]:
        return {"reward_fwd": forward, "reward_ctrl": -cost} | where | {"forward_reward": forward}


class Ant(Task):
    contacts = True

    def __init__(self, envs: Sequence[Any], arguments: dict[str, Any]) -> None:
        super().__init__(envs, arguments)
        self._torso = self.body(self.given.main_body)
        self._forces = self.views("cfrc_ext")

    def observed(self) -> list[list[np.ndarray]]:
        return [self.views("qpos", without(2, self.given)), self.qvel]

    def before(self) -> np.ndarray:
        return stacked(self._torso)[:, :2]

    def after(self, before: np.ndarray, actions: np.ndarray) -> Results:
        given, qpos, obs = self.given, stacked(self.qpos), self.observe()
        velocity = (stacked(self._torso)[:, :2] - before) / self.dt
        healthy = self.healthy(qpos)
        forward = velocity[:, 0] * given.forward_reward_weight
        survived = healthy * given.healthy_reward
        ctrl, forces = weighted_squares(given.ctrl_cost_weight, actions), self.forces()
        contact = weighted_squares(given.contact_cost_weight, forces)
        if given.include_cfrc_ext_in_observation:
            obs = np.concatenate([obs, forces[:, 6:]], axis=1)
        rewards = {"reward_forward": forward, "reward_ctrl": -ctrl, "reward_contact": -contact}
        columns = whereabouts(qpos[:, :2], velocity) | rewards | {"reward_survive": survived}
        terminated = ~healthy & bool(given.terminate_when_unhealthy)
        return Results(obs, forward + survived - (ctrl + contact), terminated, columns)

    def healthy(self, qpos: np.ndarray) -> np.ndarray:
        low, high = self.given.healthy_z_range
        finite = np.isfinite(qpos).all(axis=1) & np.isfinite(stacked(self.qvel)).all(axis=1)
        return finite & (low <= qpos[:, 2]) & (qpos[:, 2] <= high)

    def forces(self) -> np.ndarray:
        return np.clip(stacked(self._forces), *self.given.contact_force_range)


class AntV4(Ant):
    """Version 4 has contact forces only with use_contact_forces, and those of the world's body too."""

    def __init__(self, envs: Sequence[Any], arguments: dict[str, Any]) -> None:
        super().__init__(envs, arguments | {"main_body": "torso"})
        self.contacts = bool(self.given.use_contact_forces)

    def after(self, before: np.ndarray, actions: np.ndarray) -> Results:
        given, obs = self.given, self.observe()
        xy = stacked(self._torso)[:, :2]
        velocity = (xy - before) / self.dt
        healthy = self.healthy(stacked(self.qpos))
        survived = (healthy | bool(given.terminate_when_unhealthy)).astype(np.float64) * given.healthy_reward
        forward = velocity[:, 0]
        cost = weighted_squares(given.ctrl_cost_weight, actions)
        rewards = {"reward_forward": forward, "reward_ctrl": -cost, "reward_survive": survived}
        if given.use_contact_forces:
            forces = self.forces()
            contact = weighted_squares(given.contact_cost_weight, forces)
            cost = cost + contact
            rewards["reward_ctrl"] = -contact
            obs = np.concatenate([obs, forces], axis=1)
        columns = rewards | whereabouts(xy, velocity) | {"forward_reward": forward}
        terminated = ~healthy & bool(given.terminate_when_unhealthy)
        return Results(obs, forward + survived - cost, terminated, columns)
