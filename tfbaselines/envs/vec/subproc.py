"""Environments in processes of their own, observations through pipes."""

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np

from tfbaselines.envs.vec.base import StepResult, VecEnv
from tfbaselines.envs.vec.checks import NumberChecks
from tfbaselines.envs.vec.dummy import joined_states, separate_states
from tfbaselines.envs.vec.observations import Observations
from tfbaselines.envs.vec.worker import Workers


class SubprocVecEnv(VecEnv):
    """Steps environments in parallel processes: for environments that cost more than a pipe.

    Args:
        env_fns: functions that make the environments; see Workers.
        spaces: accepted for compatibility; the spaces come from the first worker.
        context: how processes are started.
        in_series: environments in each process.
        step_timeout: seconds after which a step or reset counts as hung, and its process is killed; None waits.
        restart_workers: how many workers that crash, raise or hang are replaced. The episode under way is truncated,
            with the last observation seen as its final one and the reason in the info's 'worker_replaced'.
    """

    def __init__(
        self,
        env_fns: Sequence[Callable[[], gymnasium.Env]],
        spaces: Any = None,
        context: str = "spawn",
        in_series: int = 1,
        step_timeout: float | None = None,
        restart_workers: int = 0,
    ) -> None:
        care = {"step_timeout": step_timeout, "replacements": restart_workers}
        self._workers = self._start(env_fns, spaces, context, in_series, care)
        super().__init__(len(env_fns), *self._workers.spaces)
        self._waiting = False
        self._reset_infos: Sequence[dict[str, Any]] = [{}] * self.num_envs
        if not hasattr(self, "_buffer"):
            self._buffer = Observations(self.num_envs, self.observation_space)
        self._checks = NumberChecks(self._workers.names, self._buffer)
        self._keeps_seen = restart_workers > 0
        # A worker that fails may have written into the buffer.
        self._seen: Any = None
        self._example: gymnasium.Env | None = None

    def _start(
        self, env_fns: Sequence[Callable], spaces: Any, context: str, in_series: int, care: dict[str, Any]
    ) -> Workers:
        return Workers(env_fns, context, in_series, **care)

    def reset(self) -> np.ndarray:
        """See VecEnv."""
        if self._waiting:
            self.step_wait()
        self.restored = False
        for number in range(len(self._workers)):
            self._workers.send(number, "reset")
        answers = [self._workers.reset(number) for number in range(len(self._workers))]
        observations, self._reset_infos = zip(*(begun for share in answers for begun in share), strict=True)
        batch = self._gather(observations)
        self._checks.begun()
        return batch

    @property
    def reset_infos(self) -> list[dict[str, Any]]:
        """See VecEnv."""
        return list(self._reset_infos)

    def example(self) -> gymnasium.Env:
        """See VecEnv."""
        if self._example is None:
            self._example = self._workers.example()
        return self._example

    def limit_episodes(self, steps: int) -> None:
        """See VecEnv."""
        self._workers.limit(steps)

    def step_async(self, actions: np.ndarray) -> None:
        """See VecEnv."""
        self.check_actions(actions)
        self._waiting = True
        self._workers.steps = self._checks.steps + 1
        for number, share in enumerate(self._workers.shares(actions)):
            self._workers.send(number, "step", share)

    def step_wait(self) -> StepResult:
        """See VecEnv."""
        self._waiting = False
        answers = [self._workers.step(number, self._last_seen) for number in range(len(self._workers))]
        obs, rewards, dones, infos = zip(*(result for share in answers for result in share), strict=True)
        batch = self._gather(obs)
        rewards = np.array(rewards, np.float64)
        if True in dones:
            for i in np.flatnonzero(dones):
                self._checks.final(i, infos[i])
        self._checks.stepped(rewards, dones)
        return batch, rewards.astype(np.float32), np.array(dones, bool), list(infos)

    def _gather(self, observations: Sequence[Any]) -> Any:
        self._deliver(observations)
        batch = self._buffer.copy()
        if self._keeps_seen:
            self._seen = self._buffer.copy()
        return batch

    def _deliver(self, observations: Sequence[Any]) -> None:
        for i, obs in enumerate(observations):
            self._buffer.put(i, obs)

    def _last_seen(self, i: int) -> Any:
        if isinstance(self._seen, dict):
            return {key: array[i].copy() for key, array in self._seen.items()}
        return self._seen[i].copy()

    def close_extras(self) -> None:
        """See VecEnv."""
        self._workers.end()
        if self._example is not None:
            self._example.close()

    def get_images(self) -> list[np.ndarray]:
        """See VecEnv."""
        return self._workers.ask_all("render")

    def state(self) -> dict[str, Any]:
        """See VecEnv; without episodes once the workers have ended, so that a run that they failed can be saved."""
        states = [] if self._workers.ended else self._workers.ask_all("state")
        return joined_states(states, self._checks.steps)

    def restore(self, state: dict[str, Any]) -> None:
        """See VecEnv."""
        self._checks.steps = state.get("steps", 0)
        own = separate_states(state, self.num_envs)
        self.restored = all(self._workers.ask_all("restore", self._workers.shares(own)))

    def __del__(self) -> None:
        if not self.closed and hasattr(self, "_workers"):
            self.close()
