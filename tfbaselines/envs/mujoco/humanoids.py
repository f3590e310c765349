"""Tasks of the humanoid: Humanoid, which walks, and HumanoidStandup."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfbaselines.envs.mujoco.task import Results, Task, stacked, weighted_squares, whereabouts, without

# Arrays of an observation after positions and velocities, and the first row that version 5 shows: rows before it are
# of the world's body and of the free joint, which are constant.
SHOWN = {"cinert": 1, "cvel": 1, "qfrc_actuator": 6, "cfrc_ext": 1}


class Humanoid(Task):
    contacts = True

    def __init__(self, envs: Sequence[Any], arguments: dict[str, Any]) -> None:
        super().__init__(envs, arguments)
        self._masses = envs[0].model.body_mass.copy()
        self._mass = self._masses.sum()
        self._centers = self.views("xipos")
        self._ctrl, self._forces = self.views("ctrl"), self.views("cfrc_ext")
        self._tendons = {f"tendon_{name}": self.views(f"ten_{name}") for name in ("length", "velocity")}

    def observed(self) -> list[list[np.ndarray]]:
        shown = {name: row for name, row in SHOWN.items() if getattr(self.given, f"include_{name}_in_observation")}
        parts = [self.views(name, slice(row, None)) for name, row in shown.items()]
        return [self.views("qpos", without(2, self.given)), self.qvel, *parts]

    def before(self) -> np.ndarray:
        """Return the centers of mass in the plane."""
        centers = stacked(self._centers).reshape(len(self._centers), -1, 3)
        return (np.einsum("b,nbj->nj", self._masses, centers) / self._mass)[:, :2]

    def after(self, before: np.ndarray, actions: np.ndarray) -> Results:
        given, qpos = self.given, stacked(self.qpos)
        velocity = (self.before() - before) / self.dt
        healthy = self.healthy(qpos)
        survived = healthy * given.healthy_reward
        forward = given.forward_reward_weight * velocity[:, 0]
        ctrl = weighted_squares(given.ctrl_cost_weight, stacked(self._ctrl))
        contact = self.contact_cost(given.contact_cost_weight, given.contact_cost_range)
        columns = whereabouts(qpos[:, :2], velocity, **self.tendons())
        columns |= {"reward_survive": survived, "reward_forward": forward}
        columns |= {"reward_ctrl": -ctrl, "reward_contact": -contact}
        terminated = ~healthy & bool(given.terminate_when_unhealthy)
        return Results(self.observe(), forward + survived - (ctrl + contact), terminated, columns)

    def healthy(self, qpos: np.ndarray) -> np.ndarray:
        low, high = self.given.healthy_z_range
        return (low < qpos[:, 2]) & (qpos[:, 2] < high)

    def contact_cost(self, weight: float, bounds: tuple[float, float]) -> np.ndarray:
        return np.clip(weighted_squares(weight, stacked(self._forces)), *bounds)

    def tendons(self) -> dict[str, np.ndarray]:
        return {name: stacked(views) for name, views in self._tendons.items()}


class HumanoidV4(Humanoid):
    """Version 4 shows whole arrays, pays for survival in the last step too, and contacts cost nothing."""

    def observed(self) -> list[list[np.ndarray]]:
        return [self.views("qpos", without(2, self.given)), self.qvel, *map(self.views, SHOWN)]

    def after(self, before: np.ndarray, actions: np.ndarray) -> Results:
        given, xy = self.given, self.before()
        velocity = (xy - before) / self.dt
        healthy = self.healthy(stacked(self.qpos))
        survived = (healthy | bool(given.terminate_when_unhealthy)).astype(np.float64) * given.healthy_reward
        forward = given.forward_reward_weight * velocity[:, 0]
        cost = weighted_squares(given.ctrl_cost_weight, stacked(self._ctrl))
        columns = {"reward_linvel": forward, "reward_quadctrl": -cost, "reward_alive": survived}
        columns |= whereabouts(xy, velocity) | {"forward_reward": forward}
        terminated = ~healthy & bool(given.terminate_when_unhealthy)
        return Results(self.observe(), forward + survived - cost, terminated, columns)


class HumanoidStandup(Humanoid):
    def __init__(self, envs: Sequence[Any], arguments: dict[str, Any]) -> None:
        super().__init__(envs, arguments)
        self._timestep = envs[0].model.opt.timestep

    def before(self) -> None:
        return None

    def after(self, before: None, actions: np.ndarray) -> Results:
        given, qpos = self.given, stacked(self.qpos)
        raised = (qpos[:, 2] - 0) / self._timestep
        ctrl = weighted_squares(given.ctrl_cost_weight, stacked(self._ctrl))
        impact = self.contact_cost(given.impact_cost_weight, given.impact_cost_range)
        rewards = {"reward_linup": raised, "reward_quadctrl": -ctrl, "reward_impact": -impact}
        columns = self.columns(qpos) | rewards
        return Results(self.observe(), raised - ctrl - impact + 1, self.never(), columns)

    def columns(self, qpos: np.ndarray) -> dict[str, np.ndarray]:
        lifted = {"z_distance_from_origin": qpos[:, 2] - self.start[2]}
        return {"x_position": qpos[:, 0], "y_position": qpos[:, 1]} | lifted | self.tendons()


class HumanoidStandupV4(HumanoidStandup):
    """Version 4 has no arguments."""

    def __init__(self, envs: Sequence[Any], arguments: dict[str, Any]) -> None:
        fixed = {"ctrl_cost_weight": 0.1, "impact_cost_weight": 0.5e-6, "impact_cost_range": (-np.inf, 10)}
        super().__init__(envs, arguments | fixed)

    def observed(self) -> list[list[np.ndarray]]:
        return [self.views("qpos", slice(2, None)), self.qvel, *map(self.views, SHOWN)]

    def columns(self, qpos: np.ndarray) -> dict[str, np.ndarray]:
        return {}
