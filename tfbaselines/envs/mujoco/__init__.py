"""Gymnasium's MuJoCo tasks that envs/vec/native_mujoco.py steps: their formulas by entry point, and their arguments."""

import importlib.util
import inspect
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

import numpy as np

from tfbaselines.envs.mujoco import arms, humanoids, runners
from tfbaselines.envs.mujoco.task import Task

_GYMNASIUM = "gymnasium.envs.mujoco"

# Pusher-v4 needs a version of MuJoCo that is older than ours.
TASKS: dict[str, type[Task]] = {
    f"{_GYMNASIUM}.half_cheetah_v5:HalfCheetahEnv": runners.HalfCheetah,
    f"{_GYMNASIUM}.half_cheetah_v4:HalfCheetahEnv": runners.HalfCheetahV4,
    f"{_GYMNASIUM}.hopper_v5:HopperEnv": runners.Hopper,
    f"{_GYMNASIUM}.hopper_v4:HopperEnv": runners.HopperV4,
    f"{_GYMNASIUM}.walker2d_v5:Walker2dEnv": runners.Walker2d,
    f"{_GYMNASIUM}.walker2d_v4:Walker2dEnv": runners.Walker2dV4,
    f"{_GYMNASIUM}.swimmer_v5:SwimmerEnv": runners.Swimmer,
    f"{_GYMNASIUM}.swimmer_v4:SwimmerEnv": runners.SwimmerV4,
    f"{_GYMNASIUM}.ant_v5:AntEnv": runners.Ant,
    f"{_GYMNASIUM}.ant_v4:AntEnv": runners.AntV4,
    f"{_GYMNASIUM}.humanoid_v5:HumanoidEnv": humanoids.Humanoid,
    f"{_GYMNASIUM}.humanoid_v4:HumanoidEnv": humanoids.HumanoidV4,
    f"{_GYMNASIUM}.humanoidstandup_v5:HumanoidStandupEnv": humanoids.HumanoidStandup,
    f"{_GYMNASIUM}.humanoidstandup_v4:HumanoidStandupEnv": humanoids.HumanoidStandupV4,
    f"{_GYMNASIUM}.inverted_pendulum_v5:InvertedPendulumEnv": arms.InvertedPendulum,
    f"{_GYMNASIUM}.inverted_pendulum_v4:InvertedPendulumEnv": arms.InvertedPendulumV4,
    f"{_GYMNASIUM}.inverted_double_pendulum_v5:InvertedDoublePendulumEnv": arms.InvertedDoublePendulum,
    f"{_GYMNASIUM}.inverted_double_pendulum_v4:InvertedDoublePendulumEnv": arms.InvertedDoublePendulumV4,
    f"{_GYMNASIUM}.reacher_v5:ReacherEnv": arms.Reacher,
    f"{_GYMNASIUM}.reacher_v4:ReacherEnv": arms.ReacherV4,
    f"{_GYMNASIUM}.pusher_v5:PusherEnv": arms.Pusher,
}


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_range(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2 and all(map(_is_number, value))


# Arguments that formulas read, or that Gymnasium's constructor alone reads.
ARGUMENTS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("xml_file", "default_camera_config", "main_body"), lambda value: not isinstance(value, bool)),
    **dict.fromkeys(("width", "height", "camera_id", "camera_name", "max_geom", "max_episode_steps"), lambda _: True),
    **dict.fromkeys(("frame_skip", "forward_reward_weight", "ctrl_cost_weight", "contact_cost_weight"), _is_number),
    **dict.fromkeys(("uph_cost_weight", "impact_cost_weight", "reset_noise_scale", "healthy_reward"), _is_number),
    **dict.fromkeys(("reward_near_weight", "reward_dist_weight", "reward_control_weight"), _is_number),
    **dict.fromkeys(("healthy_z_range", "healthy_angle_range", "healthy_state_range"), _is_range),
    **dict.fromkeys(("contact_force_range", "contact_cost_range", "impact_cost_range"), _is_range),
    **dict.fromkeys(("terminate_when_unhealthy", "exclude_current_positions_from_observation"), _is_flag),
    **dict.fromkeys(("include_cinert_in_observation", "include_cvel_in_observation", "use_contact_forces"), _is_flag),
    **dict.fromkeys(("include_qfrc_actuator_in_observation", "include_cfrc_ext_in_observation"), _is_flag),
}


def obstacle(spec: Any, env_kwargs: Mapping[str, Any]) -> str | None:
    """Return why formulas cannot take the place of an environment's steps; None if they can.

    Args:
        spec: the registry's entry.
        env_kwargs: arguments for gymnasium.make.
    """
    if importlib.util.find_spec("mujoco") is None:
        return "MuJoCo is not installed"
    if spec.entry_point not in TASKS:
        return f"{spec.id} is no MuJoCo task of Gymnasium's, v4 or v5"
    if spec.additional_wrappers:
        return f"{spec.id} is registered with wrappers"
    for name, value in {**spec.kwargs, **env_kwargs}.items():
        if name not in ARGUMENTS:
            return f"native {spec.id} takes no argument {name}"
        if not ARGUMENTS[name](value):
            return f"native {spec.id} takes no {name}={value!r:.40}"
    return None


def task_of(envs: list[Any]) -> Task:
    """Return the formulas of made environments, the innermost ones."""
    spec = envs[0].spec
    parameters = inspect.signature(type(envs[0])).parameters
    defaults = {name: one.default for name, one in parameters.items() if one.default is not one.empty}
    return TASKS[spec.entry_point](envs, {**defaults, **spec.kwargs})
