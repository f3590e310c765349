"""Environments in this process, stepped one after the other: for environments cheaper than a pipe."""

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np

from tfbaselines.envs.vec.base import StepResult, VecEnv
from tfbaselines.envs.vec.observations import Observations
from tfbaselines.envs.vec.stepping import (
    NON_FINITE,
    limited,
    picture,
    random_state,
    restore_random_state,
    step_same,
)


class DummyVecEnv(VecEnv):
    """Steps its environments in turn.

    Args:
        env_fns: functions that make the environments.
    """

    def __init__(self, env_fns: Sequence[Callable[[], gymnasium.Env]]) -> None:
        self.envs = [make() for make in env_fns]
        first = self.envs[0]
        super().__init__(len(self.envs), first.observation_space, first.action_space)
        self._buffer = Observations(self.num_envs, self.observation_space)
        self._rewards = np.zeros(self.num_envs, np.float32)
        self._dones = np.zeros(self.num_envs, bool)
        self._actions: Any = None
        self._reset_infos: list[dict[str, Any]] = [{} for _ in self.envs]

    def reset(self) -> np.ndarray:
        """See VecEnv."""
        for i, env in enumerate(self.envs):
            obs, self._reset_infos[i] = env.reset()
            self._buffer.put(i, obs)
        return self._buffer.copy()

    @property
    def reset_infos(self) -> list[dict[str, Any]]:
        """See VecEnv."""
        return self._reset_infos

    def limit_episodes(self, steps: int) -> None:
        """See VecEnv."""
        self.envs = [limited(env, steps) for env in self.envs]

    def step_async(self, actions: np.ndarray) -> None:
        """See VecEnv."""
        self.check_actions(actions)
        self._actions = actions

    def step_wait(self) -> StepResult:
        """See VecEnv."""
        infos = []
        put, rewards, dones = self._buffer.put, self._rewards, self._dones
        for i, (env, action) in enumerate(zip(self.envs, self._actions, strict=True)):
            obs, reward, done, info = step_same(env, action)
            put(i, obs)
            rewards[i] = reward
            dones[i] = done
            infos.append(info)
        if not self._buffer.finite(rewards):
            raise ValueError(NON_FINITE.format(self._buffer.first_not_finite(rewards)))
        return self._buffer.copy(), rewards.copy(), dones.copy(), infos

    def close_extras(self) -> None:
        """See VecEnv."""
        for env in self.envs:
            env.close()

    def get_images(self) -> list[np.ndarray]:
        """See VecEnv."""
        return [picture(env) for env in self.envs]

    def state(self) -> dict[str, Any]:
        """See VecEnv."""
        return {"random": [random_state(env) for env in self.envs]}

    def restore(self, state: dict[str, Any]) -> None:
        """See VecEnv."""
        for env, own in zip(self.envs, state.get("random", []), strict=False):
            restore_random_state(env, own)
