"""MuJoCo tasks of capsules nearer to their second version, on which the originals' numbers were measured.

``python -m tfbaselines.run --alg=trpo_mpi --env=tfbaselines.bench.older_tasks:OlderSwimmer-v2`` runs the
fourth version, which has the observations and rewards of the second, with the older bodies and limits:

- until MuJoCo 2.1 a capsule weighed as a cylinder, longer than its middle by half the radius at both ends; now it has
  its own mass and inertia, up to a tenth and a third more;
- the originals took a time limit for a failure;
- they did not clip actions to their bounds, and computed the control cost of the unclipped actions.
"""

from typing import Any

import gymnasium
import mujoco
import numpy as np
from gymnasium.envs.registration import WrapperSpec

# MuJoCo's default density of bodies, in kg/m^3.
DENSITY = 1000.0
EPISODE = 1000
TASKS = {
    "InvertedDoublePendulum-v2": "inverted_double_pendulum_v4:InvertedDoublePendulumEnv",
    "InvertedPendulum-v2": "inverted_pendulum_v4:InvertedPendulumEnv",
    "Swimmer-v2": "swimmer_v4:SwimmerEnv",
}


class CylinderInertia(gymnasium.Wrapper):
    """Capsules, each the only one of its body, with the mass and inertia that MuJoCo gave them until 2.1."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        model = env.unwrapped.model
        for geom in np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_CAPSULE):
            body = model.geom_bodyid[geom]
            # The world's own capsules do not move.
            if body > 0:
                radius, half = model.geom_size[geom, :2]
                model.body_mass[body], across, along = cylinder(radius, 2 * half + radius)
                model.body_inertia[body] = across, across, along
        mujoco.mj_setConst(model, env.unwrapped.data)


class UnboundedActions(gymnasium.Wrapper):
    """Actions as the policy draws them: MuJoCo bounds its forces by itself, and the reward counts what they cost."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.action_space = gymnasium.spaces.Box(-np.inf, np.inf, env.action_space.shape, env.action_space.dtype)


class LimitsFail(gymnasium.Wrapper):
    """Time limits that end an episode as failures do."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, reward, terminated or truncated, False, info


def cylinder(radius: float, length: float) -> tuple[float, float, float]:
    """Compute the mass of a cylinder, and its moments of inertia across its axis and along it."""
    mass = DENSITY * np.pi * radius**2 * length
    return mass, mass * (3 * radius**2 + length**2) / 12, mass * radius**2 / 2


for _name, _entry_point in TASKS.items():
    gymnasium.register(
        f"Older{_name}",
        entry_point=f"gymnasium.envs.mujoco.{_entry_point}",
        max_episode_steps=EPISODE,
        additional_wrappers=tuple(
            WrapperSpec(kind.__name__, f"{__name__}:{kind.__name__}", {})
            for kind in (CylinderInertia, UnboundedActions, LimitsFail)
        ),
    )
