"""Vector environments of Gymnasium, wrapped or native, as baselines' vector environments."""

import copy
import time
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import iterate
from gymnasium.wrappers import TimeLimit

from tfbaselines.envs.monitor import ResultsWriter, success_of
from tfbaselines.envs.vec.base import LAST, StepResult, VecEnv
from tfbaselines.envs.vec.observations import (
    AFTER_RESET,
    Fit,
    NumberChecks,
    Observations,
    flattened,
    with_named_parts,
)
from tfbaselines.envs.vec.worker import check_spaces, environment_name
from tfbaselines.envs.wrappers import clipped
from tfbaselines.errors import warn


class OneOf(gymnasium.Env):
    """Stands for one row of a vector environment: its wrappers convert observations and actions.

    Attributes:
        obs: observation to convert.
        action: converted action.
    """

    def __init__(self, observation_space: gymnasium.Space, action_space: gymnasium.Space, spec: Any = None) -> None:
        self.observation_space = observation_space
        self.action_space = action_space
        self.spec = spec
        self.obs: Any = None
        self.action: Any = None

    def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:
        return self.obs, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.action = action
        return self.obs, 0.0, False, False, {}


class GymnasiumVecEnv(VecEnv):
    """A vector environment of Gymnasium, wrapped or native, in any autoreset mode.

    Where environments cannot be reset one by one (native ones that begin an episode in the step after the last one
    ends), that step is an episode of its own in the data: one step without reward, cut by a time limit, so that its
    action earns nothing. It does not count as an episode in the logs. Episodes cannot be saved.

    Args:
        env: the vector environment.
        seed: seed of the first reset.
        flatten: flatten Dict and Tuple observations to one Box.
        name: the environments' name in errors; None for their id or class.
        writers: a monitor's ResultsWriter for each environment; None writes no files.
    """

    def __init__(
        self,
        env: VectorEnv,
        seed: int | None,
        flatten: bool,
        name: str | None = None,
        writers: Sequence[ResultsWriter] | None = None,
    ) -> None:
        self._one = self._stand_in(env)
        check_spaces(self._one)
        self._shown = flattened(self._one) if flatten else with_named_parts(self._one)
        self._acting = clipped(self._one)
        super().__init__(env.num_envs, self._shown.observation_space, env.single_action_space)
        self.render_fps = env.metadata.get("render_fps")
        self._env = env
        self._seed = seed
        self._mode = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        self._apart = self._mode is AutoresetMode.DISABLED or isinstance(env.unwrapped, SyncVectorEnv | AsyncVectorEnv)
        self._fit = Fit(self.observation_space)
        self._buffer = Observations(self.num_envs, self.observation_space)
        name = name or (self._one.spec.id if self._one.spec is not None else type(env.unwrapped).__name__)
        self._names = [environment_name(i, name) for i in range(self.num_envs)]
        self._checks = NumberChecks(self._names, self._buffer)
        self._writers = writers
        self._begun = writers[0].header.get("t_start", time.time()) if writers else time.time()
        self._infos: list[dict[str, Any]] = []
        warn(self._notice(name))

    def _stand_in(self, env: VectorEnv) -> gymnasium.Env:
        spec = env.spec if isinstance(env.spec, EnvSpec) else None
        return OneOf(env.single_observation_space, env.single_action_space, spec)

    def _notice(self, name: str) -> str:
        return f"{name}: Gymnasium's vector environments cannot be saved: a resumed run begins other episodes"

    def reset(self) -> Any:
        obs, info = self._env.reset(seed=self._seed)
        self._seed = None
        self._infos = self._separate(info)
        self._returns = np.zeros(self.num_envs)
        self._lengths = np.zeros(self.num_envs, int)
        # Environments that the next step resets.
        self._over = np.zeros(self.num_envs, bool)
        self._put(self._rows(obs), AFTER_RESET)
        self._checks.begun()
        return self._buffer.copy()

    @property
    def reset_infos(self) -> list[dict[str, Any]]:
        return self._infos

    def step_async(self, actions: np.ndarray) -> None:
        self.check_actions(actions)
        # All rows at once: bounds are the same for each.
        self._acting.step(np.asarray(actions))
        self._actions = np.asarray(self._one.action, self.action_space.dtype)

    def step_wait(self) -> StepResult:
        obs, rewards, terminated, truncated, info = self._env.step(self._actions)
        rewards = np.array(rewards, np.float64)
        rows, infos, late = self._rows(obs), self._separate(info), self._over
        ended = np.asarray(terminated | truncated, bool)
        self._count(rewards, infos, late)
        last = list(rows)
        if self._mode is AutoresetMode.SAME_STEP:
            for i in np.flatnonzero(ended):
                last[i] = self._converted(infos[i].pop("final_obs"))
                infos[i] = infos[i].pop("final_info", {}) | {"reset_info": infos[i]}
        elif self._apart and np.count_nonzero(ended):
            for i, row, begun_info in self._begin_again(ended.copy()):
                rows[i] = row
                infos[i]["reset_info"] = begun_info
        elif not self._apart:
            self._over = ended
        for i in np.flatnonzero(ended):
            self._end_episode(i, infos[i], last[i], bool(truncated[i] and not terminated[i]))
        for i in np.flatnonzero(late):
            infos[i] |= {LAST: self._row(i), "TimeLimit.truncated": True, "reset_info": dict(infos[i])}
        self._put(rows, "observation")
        self._checks.stepped(rewards, ended | late)
        return self._buffer.copy(), rewards.astype(np.float32), ended | late, infos

    def _count(self, rewards: np.ndarray, infos: list[dict[str, Any]], late: np.ndarray) -> None:
        self._returns += rewards
        self._lengths += ~late

    def _begin_again(self, ended: np.ndarray) -> list[tuple[int, Any, dict[str, Any]]]:
        """Begin the next episode of some environments; return their numbers, first observations and infos."""
        obs, info = self._env.reset(options={"reset_mask": ended})
        rows, infos = self._rows(obs), self._separate(info)
        return [(i, rows[i], infos[i]) for i in np.flatnonzero(ended).tolist()]

    def _end_episode(self, i: int, info: dict[str, Any], last: Any, truncated: bool) -> None:
        # The environments may change their arrays in the next step.
        info[LAST] = copy.deepcopy(last)
        info["TimeLimit.truncated"] = truncated
        self._fit(last, "final observation")
        self._checks.final(i, info)
        self._record(i, info)

    def _record(self, i: int, info: dict[str, Any]) -> None:
        """Put the finished episode into its last info and the monitor's file."""
        seconds = round(time.time() - self._begun, 6)
        episode = {"r": round(float(self._returns[i]), 6), "l": int(self._lengths[i]), "t": seconds}
        if self._writers:
            self._writers[i].write_row(episode)
        success = success_of(info)
        info["episode"] = episode if success is None else episode | {"is_success": success}
        self._returns[i] = 0.0
        self._lengths[i] = 0

    def _rows(self, obs: Any) -> list[Any]:
        return [self._converted(row) for row in iterate(self._env.observation_space, obs)]

    def _converted(self, obs: Any) -> Any:
        self._one.obs = obs
        return self._shown.reset()[0]

    def _separate(self, info: dict[str, Any]) -> list[dict[str, Any]]:
        return separate(info, self.num_envs)

    def _row(self, i: int) -> Any:
        batch = self._buffer.copy()
        return {name: part[i] for name, part in batch.items()} if isinstance(batch, dict) else batch[i]

    def _put(self, rows: list[Any], quantity: str) -> None:
        for i, row in enumerate(rows):
            self._fit(row, quantity)
            self._buffer.put(i, row)

    def example(self) -> gymnasium.Env:
        steps = self._limit()
        return self._one if steps is None else TimeLimit(self._one, steps)

    def limit_episodes(self, steps: int | None = None, reward: float | None = None) -> None:
        limit = self._limit()
        if reward is not None or (steps is not None and (limit is None or limit > steps)):
            super().limit_episodes(steps, reward)

    def _limit(self) -> int | None:
        return None if self._one.spec is None else self._one.spec.max_episode_steps

    def get_images(self) -> list[np.ndarray]:
        images = self._env.render()
        return super().get_images() if images is None else list(images)

    def close_extras(self) -> None:
        self._env.close()
        for writer in self._writers or ():
            writer.close()


def separate(info: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """Split the info of a vector environment into one info for each environment."""
    infos: list[dict[str, Any]] = [{} for _ in range(count)]
    for name, value in info.items():
        if name.startswith("_") and name[1:] in info:
            continue
        there = info.get(f"_{name}", np.ones(count, bool))
        values = separate(value, count) if isinstance(value, dict) else value
        for i in np.flatnonzero(there) if np.shape(there) == (count,) and len(values) == count else ():
            infos[i][name] = values[i]
    return infos
