"""Vector environments of Gymnasium environments, in this process and in processes of their own."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from tfbaselines.envs.episode_limits import limited
from tfbaselines.envs.parameterized import assign_parameters
from tfbaselines.envs.state import full_state, joined_states, restore_full_state, separate_states
from tfbaselines.envs.vec.base import StepResult, VecEnv
from tfbaselines.envs.vec.observations import AFTER_RESET, Fit, NumberChecks, Observations
from tfbaselines.envs.vec.processes import Workers
from tfbaselines.envs.vec.starting import START_METHOD
from tfbaselines.envs.vec.worker import (
    begin,
    close,
    environment_name,
    failure,
    id_of,
    picture,
    prepared,
    step_same,
)
from tfbaselines.errors import NotFiniteError, UsageError


class DummyVecEnv(VecEnv):
    """Steps the environments that `env_fns` make in this process: faster than processes if steps are cheap."""

    def __init__(self, env_fns: Sequence[Callable[[], gymnasium.Env]]) -> None:
        self.envs = [self._made(i, make) for i, make in enumerate(env_fns)]
        if len({id(env.unwrapped) for env in self.envs}) < len(self.envs):
            raise UsageError("several functions return the same environment: each call must make another one")
        first = self.envs[0]
        super().__init__(len(self.envs), first.observation_space, first.action_space)
        self.render_fps = first.metadata.get("render_fps")
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

    def _made(self, i: int, make: Callable[[], gymnasium.Env]) -> gymnasium.Env:
        try:
            return prepared(make())
        except (Exception, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise failure(environment_name(i, None), error) from error

    def reset(self) -> np.ndarray:
        self.restored = False
        self._awake = list(range(self.num_envs))
        for i, env in enumerate(self.envs):
            try:
                obs, self._reset_infos[i] = begin(env)
                self._fit(obs, AFTER_RESET)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                raise failure(self._names[i], error) from error
            self._buffer.put(i, obs)
        self._checks.begun()
        return self._buffer.copy()

    @property
    def reset_infos(self) -> list[dict[str, Any]]:
        return self._reset_infos

    def example(self) -> gymnasium.Env:
        return self.envs[0]

    def limit_episodes(self, steps: int | None = None, reward: float | None = None) -> None:
        self.envs = [limited(env, steps, reward) for env in self.envs]

    def set_parameters(self, values: Mapping[str, Any]) -> None:
        for env in self.envs:
            assign_parameters(env, values)

    def rest(self, number: int) -> bool:
        self._awake.remove(number)
        self._rewards[number], self._dones[number] = 0.0, False
        return True

    def step_async(self, actions: np.ndarray) -> None:
        self.check_actions(actions)
        # An environment may change its action in place, and the caller stores it after the step.
        self._actions = actions.copy() if isinstance(actions, np.ndarray) else actions

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
        except (NotFiniteError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise failure(self._names[i], error) from error
        if len(infos) < self.num_envs:
            awake = dict(zip(self._awake, infos, strict=True))
            infos = [awake.get(i, {}) for i in range(self.num_envs)]
        self._checks.stepped(rewards, dones)
        return self._buffer.copy(), rewards.astype(np.float32), dones.copy(), infos

    def close_extras(self) -> None:
        for env, name in zip(self.envs, self._names, strict=True):
            close(env, name)

    def get_images(self) -> list[np.ndarray]:
        return [picture(env) for env in self.envs]

    def state(self) -> dict[str, Any]:
        return joined_states([full_state(env) for env in self.envs], self._checks.steps)

    def restore(self, state: dict[str, Any]) -> None:
        self._checks.steps = state.get("steps", 0)
        states = separate_states(state, self.num_envs)
        continued = [restore_full_state(env, saved) for env, saved in zip(self.envs, states, strict=True)]
        self.restored = all(continued)


class SubprocVecEnv(VecEnv):
    """Steps environments in parallel processes: for environments that cost more than a message between processes.

    Observations travel through shared memory, or through pipes where the system cannot share memory.

    Args:
        env_fns: functions that make the environments; see Workers.
        spaces: accepted for compatibility; the first worker returns the spaces.
        context: start method of multiprocessing: 'forkserver' (the default on Linux), 'spawn' or 'fork'.
        in_series: environments in each process.
        step_timeout: seconds after which a step or reset counts as hung and its process is killed; None waits.
        restart_workers: number of workers that are replaced if they crash, raise or hang. The current episode is
            truncated: the final observation is the last one received, and the info's 'worker_replaced' has the reason.
    """

    def __init__(
        self,
        env_fns: Sequence[Callable[[], gymnasium.Env]],
        spaces: Any = None,
        context: str = START_METHOD,
        in_series: int = 1,
        step_timeout: float | None = None,
        restart_workers: int = 0,
    ) -> None:
        self._workers = Workers(env_fns, context, in_series, step_timeout, restart_workers)
        super().__init__(len(env_fns), *self._workers.spaces)
        self.render_fps = self._workers.render_fps
        self._waiting = False
        self._reset_infos: Sequence[dict[str, Any]] = [{}] * self.num_envs
        memory = self._workers.share_memory(self.observation_space)
        self._shared = memory is not None
        self._buffer = Observations(self.num_envs, self.observation_space, memory)
        self._checks = NumberChecks(self._workers.names, self._buffer)
        # A copy of the last observations, since a worker that fails may have written into the buffer.
        self._keeps_seen = restart_workers > 0
        self._seen: Any = None
        self._example: gymnasium.Env | None = None

    def reset(self) -> np.ndarray:
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
        return list(self._reset_infos)

    def example(self) -> gymnasium.Env:
        if self._example is None:
            self._example = self._workers.example()
        return self._example

    def limit_episodes(self, steps: int | None = None, reward: float | None = None) -> None:
        self._workers.limit(steps, reward)

    def set_parameters(self, values: Mapping[str, Any]) -> None:
        self._workers.set_parameters(values)

    def step_async(self, actions: np.ndarray) -> None:
        self.check_actions(actions)
        self._waiting = True
        self._workers.steps = self._checks.steps + 1
        for number, share in enumerate(self._workers.shares(actions)):
            self._workers.send(number, "step", share)

    def step_wait(self) -> StepResult:
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
        if not self._shared:
            for i, obs in enumerate(observations):
                self._buffer.put(i, obs)
        batch = self._buffer.copy()
        if self._keeps_seen:
            self._seen = self._buffer.copy()
        return batch

    def _last_seen(self, i: int) -> Any:
        if isinstance(self._seen, dict):
            return {key: array[i].copy() for key, array in self._seen.items()}
        return self._seen[i].copy()

    def close_extras(self) -> None:
        self._workers.end()
        if self._example is not None:
            close(self._example, "the example of the environments")

    def get_images(self) -> list[np.ndarray]:
        return self._workers.ask_all("render")

    def state(self) -> dict[str, Any]:
        # After the workers have ended a run can still be saved, without its episodes.
        states = [] if self._workers.ended else self._workers.ask_all("state")
        return joined_states(states, self._checks.steps)

    def restore(self, state: dict[str, Any]) -> None:
        self._checks.steps = state.get("steps", 0)
        states = separate_states(state, self.num_envs)
        self.restored = all(self._workers.ask_all("restore", self._workers.shares(states)))

    def __del__(self) -> None:
        if not self.closed and hasattr(self, "_workers"):
            self.close()


class ShmemVecEnv(SubprocVecEnv):
    """SubprocVecEnv by the name that baselines has for shared memory."""
