"""One environment's side of a vector environment: stepping with the same-step reset, and its random streams."""

import copy
from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import TimeLimit

from tfbaselines.envs.monitor import Monitor
from tfbaselines.envs.state import episode_state, restore_episode
from tfbaselines.envs.vec.failures import raise_fault


def step_same(env: gymnasium.Env, action: Any) -> tuple[Any, float, bool, dict[str, Any]]:
    """Take a step, and begin the next episode when it ended this one.

    Returns:
        The observation to act on next, the reward, whether the episode ended, and the info, which then holds the real
        last observation and whether a time limit ended the episode.
    """
    try:
        obs, reward, terminated, truncated, info = env.step(action)
    except (TypeError, ValueError) as error:
        raise_fault(error)
    if terminated or truncated:
        # Some environments hand out the array that they change in reset(), or the same dictionary in every step.
        info = dict(info)
        info["final_observation"] = copy.deepcopy(obs)
        info["TimeLimit.truncated"] = bool(truncated and not terminated)
        obs, info["reset_info"] = env.reset()
        return obs, reward, True, info
    return obs, reward, False, info


def limited(env: gymnasium.Env, steps: int) -> gymnasium.Env:
    """An environment whose episodes are cut off after `steps`, below its Monitor, so that it records them."""
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
        raise ValueError(f"no pictures of {env.unwrapped}: {error}") from None
    except NotImplementedError:
        raise ValueError(f"no pictures of {env.unwrapped}: it cannot be rendered") from None
    if not isinstance(image, np.ndarray):
        reason = "make it with env_kwargs={'render_mode': 'rgb_array'}"
        if env.render_mode == "rgb_array":
            reason = f"its render() gives {type(image).__name__}, not an array"
        raise ValueError(f"no pictures of {env.unwrapped}: {reason}")
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


def full_state(env: gymnasium.Env) -> dict[str, Any]:
    """The random generators of an environment, and its episode under way; None where that cannot be taken."""
    return {"random": random_state(env), "episode": episode_state(env)}


def restore_full_state(env: gymnasium.Env, state: dict[str, Any]) -> bool:
    """Take over what `full_state` gave; whether the episode goes on."""
    restore_random_state(env, state.get("random", {}))
    return state.get("episode") is not None and restore_episode(env, state["episode"])


def joined_states(states: list[dict[str, Any]], steps: int) -> dict[str, Any]:
    """A vector environment's state from that of each environment and the steps taken so far."""
    return {"random": [one["random"] for one in states], "episodes": [one["episode"] for one in states], "steps": steps}


def separate_states(state: dict[str, Any], num_envs: int) -> list[dict[str, Any]]:
    """What `joined_states` was given; a state of other environments, or of none, is an empty one for each.

    Older versions saved random generators alone.
    """
    random, episodes = (state.get(name, []) for name in ("random", "episodes"))
    return [
        {"random": random[i] if i < len(random) else {}, "episode": episodes[i] if len(episodes) == num_envs else None}
        for i in range(num_envs)
    ]
