"""Environments in this process, stepped one after the other: for environments cheaper than a pipe.

One environment's side of a vector environment: stepping with the same-step reset, and its random streams.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import TimeLimit

from tfbaselines.envs.monitor import Monitor
from tfbaselines.envs.state import episode_state, restore_episode
from tfbaselines.envs.vec.base import StepResult, VecEnv
from tfbaselines.envs.vec.checks import AFTER_RESET, Fit, Misfit, NumberChecks, environment_name, id_of
from tfbaselines.envs.vec.failures import begin, raise_fault, why
from tfbaselines.envs.vec.observations import Observations, with_named_parts
from tfbaselines.errors import NotFiniteError, ObservationError, UsageError, WorkerError


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
        raise UsageError(f"no pictures of {env.unwrapped}: {error}") from None
    except NotImplementedError:
        raise UsageError(f"no pictures of {env.unwrapped}: it cannot be rendered") from None
    if not isinstance(image, np.ndarray):
        reason = "make it with env_kwargs={'render_mode': 'rgb_array'}"
        if env.render_mode == "rgb_array":
            reason = f"its render() gives {type(image).__name__}, not an array"
        raise UsageError(f"no pictures of {env.unwrapped}: {reason}")
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


class DummyVecEnv(VecEnv):
    """Steps its environments in turn.

    Args:
        env_fns: functions that make the environments.
    """

    def __init__(self, env_fns: Sequence[Callable[[], gymnasium.Env]]) -> None:
        self.envs = [with_named_parts(make()) for make in env_fns]
        if len({id(env.unwrapped) for env in self.envs}) < len(self.envs):
            raise UsageError("several functions give the same environment: each must make one of its own when called")
        first = self.envs[0]
        super().__init__(len(self.envs), first.observation_space, first.action_space)
        self._names = [environment_name(i, id_of(env)) for i, env in enumerate(self.envs)]
        self._buffer = Observations(self.num_envs, self.observation_space)
        self._fit, self._checks = Fit(self.observation_space), NumberChecks(self._names, self._buffer)
        # Of twice the width: what overflows float32 is found by the checks.
        self._rewards = np.zeros(self.num_envs, np.float64)
        self._dones = np.zeros(self.num_envs, bool)
        self._actions: Any = None
        self._reset_infos: list[dict[str, Any]] = [{} for _ in self.envs]
        # The environments that are stepped.
        self._awake = list(range(self.num_envs))

    def reset(self) -> np.ndarray:
        """See VecEnv."""
        self.restored, self._awake = False, list(range(self.num_envs))
        for i, env in enumerate(self.envs):
            try:
                obs, self._reset_infos[i] = begin(env)
                self._fit(obs, AFTER_RESET)
            except Exception as error:
                raise self._failure(i, error) from error
            self._buffer.put(i, obs)
        self._checks.begun()
        return self._buffer.copy()

    @property
    def reset_infos(self) -> list[dict[str, Any]]:
        """See VecEnv."""
        return self._reset_infos

    def example(self) -> gymnasium.Env:
        """See VecEnv."""
        return self.envs[0]

    def limit_episodes(self, steps: int) -> None:
        """See VecEnv."""
        self.envs = [limited(env, steps) for env in self.envs]

    def rest(self, number: int) -> bool:
        """See VecEnv."""
        self._awake.remove(number)
        self._rewards[number], self._dones[number] = 0.0, False
        return True

    def step_async(self, actions: np.ndarray) -> None:
        """See VecEnv."""
        self.check_actions(actions)
        self._actions = actions

    def step_wait(self) -> StepResult:
        """See VecEnv."""
        infos: list[dict[str, Any]] = []
        put, rewards, dones, envs, actions = self._buffer.put, self._rewards, self._dones, self.envs, self._actions
        fit = self._fit.step
        i = 0
        try:
            for i in self._awake:
                obs, reward, done, info = step_same(envs[i], actions[i])
                fit(obs, done, info)
                put(i, obs)
                rewards[i] = reward
                dones[i] = done
                infos.append(info)
                if done:
                    self._checks.final(i, info)
        except NotFiniteError:
            raise
        except Exception as error:
            raise self._failure(i, error) from error
        if len(infos) < self.num_envs:
            awake = dict(zip(self._awake, infos, strict=True))
            infos = [awake.get(i, {}) for i in range(self.num_envs)]
        self._checks.stepped(rewards, dones)
        return self._buffer.copy(), rewards.astype(np.float32), dones.copy(), infos

    def _failure(self, i: int, error: Exception) -> Exception:
        if isinstance(error, Misfit):
            return ObservationError(f"{self._names[i]}: {error}")
        return WorkerError(f"{self._names[i]} failed: {why(error)}")

    def close_extras(self) -> None:
        """See VecEnv."""
        for env in self.envs:
            env.close()

    def get_images(self) -> list[np.ndarray]:
        """See VecEnv."""
        return [picture(env) for env in self.envs]

    def state(self) -> dict[str, Any]:
        """See VecEnv."""
        return joined_states([full_state(env) for env in self.envs], self._checks.steps)

    def restore(self, state: dict[str, Any]) -> None:
        """See VecEnv."""
        self._checks.steps = state.get("steps", 0)
        own = separate_states(state, self.num_envs)
        continued = [restore_full_state(env, one) for env, one in zip(self.envs, own, strict=True)]
        self.restored = all(continued)
