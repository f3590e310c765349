"""Environments in this process, stepped in turn: faster than processes if steps are cheap."""

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np

from tfbaselines.envs.vec.base import StepResult, VecEnv
from tfbaselines.envs.vec.checks import AFTER_RESET, Fit, Misfit, NumberChecks, begin, environment_name, id_of, why
from tfbaselines.envs.vec.observations import Observations
from tfbaselines.envs.vec.worker import (
    full_state,
    joined_states,
    limited,
    picture,
    prepared,
    restore_full_state,
    separate_states,
    step_same,
)
from tfbaselines.errors import NotFiniteError, ObservationError, UsageError, WorkerError


class DummyVecEnv(VecEnv):
    """Steps its environments in turn.

    Args:
        env_fns: functions that make the environments.
    """

    def __init__(self, env_fns: Sequence[Callable[[], gymnasium.Env]]) -> None:
        self.envs = [prepared(make()) for make in env_fns]
        if len({id(env.unwrapped) for env in self.envs}) < len(self.envs):
            raise UsageError("several functions return the same environment: each call must make another one")
        first = self.envs[0]
        super().__init__(len(self.envs), first.observation_space, first.action_space)
        self._names = [environment_name(i, id_of(env)) for i, env in enumerate(self.envs)]
        self._buffer = Observations(self.num_envs, self.observation_space)
        self._fit = Fit(self.observation_space)
        self._checks = NumberChecks(self._names, self._buffer)
        # float64, so that the checks find rewards that overflow float32.
        self._rewards = np.zeros(self.num_envs, np.float64)
        self._dones = np.zeros(self.num_envs, bool)
        self._actions: Any = None
        self._reset_infos: list[dict[str, Any]] = [{} for _ in self.envs]
        # Numbers of the environments that are not at rest.
        self._awake = list(range(self.num_envs))

    def reset(self) -> np.ndarray:
        self.restored = False
        self._awake = list(range(self.num_envs))
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
        return self._reset_infos

    def example(self) -> gymnasium.Env:
        return self.envs[0]

    def limit_episodes(self, steps: int) -> None:
        self.envs = [limited(env, steps) for env in self.envs]

    def rest(self, number: int) -> bool:
        self._awake.remove(number)
        self._rewards[number], self._dones[number] = 0.0, False
        return True

    def step_async(self, actions: np.ndarray) -> None:
        self.check_actions(actions)
        self._actions = actions

    def step_wait(self) -> StepResult:
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
        for env in self.envs:
            env.close()

    def get_images(self) -> list[np.ndarray]:
        return [picture(env) for env in self.envs]

    def state(self) -> dict[str, Any]:
        return joined_states([full_state(env) for env in self.envs], self._checks.steps)

    def restore(self, state: dict[str, Any]) -> None:
        self._checks.steps = state.get("steps", 0)
        states = separate_states(state, self.num_envs)
        continued = [restore_full_state(env, saved) for env, saved in zip(self.envs, states, strict=True)]
        self.restored = all(continued)
