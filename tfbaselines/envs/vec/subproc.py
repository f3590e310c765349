"""Environments in processes of their own, observations through pipes."""

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np

from tfbaselines.envs.vec.base import StepResult, VecEnv
from tfbaselines.envs.vec.observations import Observations
NON_FINITE=''
from tfbaselines.envs.vec.worker import Workers, stack_infos


class SubprocVecEnv(VecEnv):
    """Steps environments in parallel processes: for environments that cost more than a pipe.

    Args:
        env_fns: functions that make the environments.
        spaces: accepted for compatibility; the first worker tells its spaces.
        context: how processes are started.
        in_series: environments in each process.
    """

    def __init__(
        self,
        env_fns: Sequence[Callable[[], gymnasium.Env]],
        spaces: Any = None,
        context: str = "spawn",
        in_series: int = 1,
    ) -> None:
        self._workers = self._start(env_fns, spaces, context, in_series)
        super().__init__(len(env_fns), *self._workers.spaces)
        self._waiting = False
        self._reset_infos: Sequence[dict[str, Any]] = [{}] * self.num_envs
        if not hasattr(self, "_buffer"):
            self._buffer = Observations(self.num_envs, self.observation_space)

    def _start(self, env_fns: Sequence[Callable], spaces: Any, context: str, in_series: int) -> Workers:
        return Workers(env_fns, context, in_series)

    def reset(self) -> np.ndarray:
        """See VecEnv."""
        if self._waiting:
            self.step_wait()
        observations, self._reset_infos = zip(*self._workers.ask_all("reset"), strict=True)
        return self._gather(observations)

    @property
    def reset_infos(self) -> list[dict[str, Any]]:
        """See VecEnv."""
        return list(self._reset_infos)

    def limit_episodes(self, steps: int) -> None:
        """See VecEnv."""
        self._workers.ask_all("limit", self._workers.shares([steps] * self.num_envs))

    def step_async(self, actions: np.ndarray) -> None:
        """See VecEnv."""
        self.check_actions(actions)
        self._waiting = True
        for number, share in enumerate(self._workers.shares(actions)):
            self._workers.send(number, "step", share)

    def step_wait(self) -> StepResult:
        """See VecEnv."""
        self._waiting = False
        answers = [self._workers.receive(number) for number in range(len(self._workers))]
        obs, rewards, dones, infos = stack_infos([result for share in answers for result in share])
        batch = self._gather(obs)
        if not self._buffer.finite(rewards):
            raise ValueError(NON_FINITE.format(self._buffer.first_not_finite(rewards)))
        return batch, rewards, dones, infos

    def _gather(self, observations: Sequence[Any]) -> Any:
        for i, obs in enumerate(observations):
            self._buffer.put(i, obs)
        return self._buffer.copy()

    def close_extras(self) -> None:
        """See VecEnv."""
        self._workers.end()

    def get_images(self) -> list[np.ndarray]:
        """See VecEnv."""
        return self._workers.ask_all("render")

    def state(self) -> dict[str, Any]:
        """See VecEnv."""
        return {"random": self._workers.ask_all("state")}

    def restore(self, state: dict[str, Any]) -> None:
        """See VecEnv."""
        if len(state.get("random", [])) == self.num_envs:
            self._workers.ask_all("restore", self._workers.shares(state["random"]))

    def __del__(self) -> None:
        if not self.closed and hasattr(self, "_workers"):
            self.close()
