"""One environment's side of a vector environment: stepping with the same-step reset, and its random streams."""

import copy
from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import TimeLimit

from tfbaselines.envs.monitor import Monitor

NON_FINITE = "environment {} returned an observation or reward that is not a finite number"


def step_same(env: gymnasium.Env, action: Any) -> tuple[Any, float, bool, dict[str, Any]]:
    """Take a step, and begin the next episode when it ended this one.

    Returns:
        The observation to act on next, the reward, whether the episode ended, and the info, which then holds the real
        last observation and whether a time limit ended the episode.
    """
    obs, reward, terminated, truncated, info = env.step(action)
    if terminated or truncated:
        # Some environments hand out the array that they change in reset().
        info["final_observation"] = copy.deepcopy(obs)
        info["TimeLimit.truncated"] = bool(truncated and not terminated)
        obs, info["reset_info"] = env.reset()
        return obs, reward, True, info
    return obs, reward, False, info


def limited(env: gymnasium.Env, steps: int) -> gymnasium.Env:
    """An environment whose episodes are cut off after so many steps, below its Monitor, which then tells of them."""
    spec = env.spec
    if spec is not None and spec.max_episode_steps is not None and spec.max_episode_steps <= steps:
        return env
    monitor = env
    while isinstance(monitor, gymnasium.Wrapper) and not isinstance(monitor, Monitor):
        monitor = monitor.env
    limit = TimeLimit(monitor.env if isinstance(monitor, Monitor) else env, steps)
    # An episode may be going on: it counts from here.
    limit._elapsed_steps = 0
    if not isinstance(monitor, Monitor):
        return limit
    monitor.env = limit
    return env


def picture(env: gymnasium.Env) -> np.ndarray:
    """What an environment made with render_mode='rgb_array' looks like, [rows, columns, 3]."""
    try:
        image = env.render()
    except (ImportError, gymnasium.error.DependencyNotInstalled) as error:
        raise ValueError(f"no pictures of {env.unwrapped}: {error}: pip install 'tfbaselines[plot]'") from None
    except NotImplementedError:
        raise ValueError(f"no pictures of {env.unwrapped}: it cannot be rendered") from None
    if not isinstance(image, np.ndarray):
        raise ValueError(f"no pictures of {env.unwrapped}: make it with env_kwargs={{'render_mode': 'rgb_array'}}")
    return image


def random_state(env: gymnasium.Env) -> dict[str, Any]:
    """The states of the random generators of an environment and of its action space."""
    generators = {"env": getattr(env.unwrapped, "_np_random", None), "actions": env.action_space._np_random}
    return {name: rng.bit_generator.state for name, rng in generators.items() if isinstance(rng, np.random.Generator)}


def restore_random_state(env: gymnasium.Env, state: dict[str, Any]) -> None:
    """Take over what `random_state` gave."""
    if "env" in state:
        env.unwrapped.np_random.bit_generator.state = state["env"]
    if "actions" in state:
        env.action_space.np_random.bit_generator.state = state["actions"]
