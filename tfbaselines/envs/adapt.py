"""Turn the environments that users pass to learn() into a VecEnv, and describe them for config.json."""

import copy
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import iterate
from gymnasium.wrappers import TimeLimit

from tfbaselines.envs import env_type_of
from tfbaselines.envs.make import OWN_TYPE, RANKS_APART, build_env, make_env
from tfbaselines.envs.monitor import success_of
from tfbaselines.envs.vec import DummyVecEnv, VecEnv
from tfbaselines.envs.vec.base import LAST, StepResult, share_environments
from tfbaselines.envs.vec.observations import (
    AFTER_RESET,
    Fit,
    NumberChecks,
    Observations,
    flattened,
    with_named_parts,
)
from tfbaselines.envs.vec.worker import check_spaces, environment_name
from tfbaselines.envs.wrappers import clipped, is_environment
from tfbaselines.errors import UsageError, bad_argument, warn
from tfbaselines.parallel import mpi

ACCEPTED = "a VecEnv, a Gymnasium environment, an id, a function that makes one, or a list of such functions"


def as_vec_env(
    env: Any,
    seed: int | None = None,
    flatten: bool = True,
    name: str = "env",
    normalize: bool = False,
    training: bool = True,
) -> Any:
    """Return the environments as algorithms accept them.

    A monitor records episodes, actions are clipped to their bounds, and Dict and Tuple observations are flattened for
    algorithms without an encoder. A VecEnv, or a list of VecEnvs of several workers, stays the same.

    Args:
        env: see ACCEPTED, or a vector environment of Gymnasium.
        seed: seed of the first environment; None for any. A VecEnv keeps its seed.
        flatten: flatten Dict and Tuple observations to one Box.
        name: name of the argument, for errors.
        normalize: wrap a MuJoCo environment that an id names in VecNormalize.
        training: False freezes the statistics of VecNormalize.
    """
    if _is_vec_env(env) or (isinstance(env, list | tuple) and env and all(map(_is_vec_env, env))):
        return env
    if isinstance(env, str):
        # make_vec_env adds the rank to the seed.
        config = {"env": env, "seed": seed, "flatten": flatten, "normalize": normalize}
        return build_env(config, training, mpi_rank=mpi.world().rank)
    if isinstance(env, gymnasium.Env) or (is_environment(env) and not isinstance(env, VectorEnv)):
        return _together([lambda: env], seed, flatten)
    if isinstance(env, VectorEnv):
        # The functions that made environments make ones that can be saved, but inside a wrapper they lose its effect.
        makers = getattr(env, "env_fns", None) if env.unwrapped is env else None
        if makers is None:
            return GymnasiumVecEnv(env, None if seed is None else seed + RANKS_APART * mpi.world().rank, flatten)
        env = makers
    if isinstance(env, list | tuple) and env and all(map(callable, env)):
        return _together(env, seed, flatten)
    if callable(env):
        made = env()
        return made if _is_vec_env(made) else _together([lambda: made], seed, flatten)
    if isinstance(env, list | tuple) and env:
        kinds = " and ".join(sorted({type(one).__name__ for one in env if not callable(one)}))
        raise UsageError(f"{name}=[...] has {kinds} where it needs functions that make environments")
    raise bad_argument(name, env if env is None or isinstance(env, list | tuple) else type(env).__name__, ACCEPTED)


def check_apart(env: Any, tests: VecEnv, name: str) -> None:
    """Raise a UsageError if tests would step the environments of training, which would disturb its episodes.

    `env` is a list for several workers, `name` the argument with the test environments.
    """
    if any(share_environments(one, tests) for one in (env if isinstance(env, list | tuple) else [env])):
        raise UsageError(f"{name} has the environments of training: tests need other environments")


def _is_vec_env(env: Any) -> bool:
    return isinstance(env, VecEnv) or (hasattr(env, "step_wait") and not isinstance(env, VectorEnv))


def _together(makers: Sequence[Callable[[], Any]], seed: int | None, flatten: bool) -> DummyVecEnv:
    seed = None if seed is None else seed + RANKS_APART * mpi.world().rank
    make = partial(make_env, env_type=OWN_TYPE, seed=seed, flatten_dict_observations=flatten)
    return DummyVecEnv([partial(make, maker, subrank=i) for i, maker in enumerate(makers)])


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
    """

    def __init__(self, env: VectorEnv, seed: int | None, flatten: bool) -> None:
        self._one = OneOf(env.single_observation_space, env.single_action_space, env.spec)
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
        name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
        self._names = [environment_name(i, name) for i in range(self.num_envs)]
        self._checks = NumberChecks(self._names, self._buffer)
        self._begun = time.time()
        self._infos: list[dict[str, Any]] = []
        warn(f"{name}: Gymnasium's vector environments cannot be saved: a resumed run begins other episodes")

    def reset(self) -> Any:
        obs, info = self._env.reset(seed=self._seed)
        self._seed = None
        self._infos = _separate(info, self.num_envs)
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
        dtype, converted = self.action_space.dtype, []
        for action in actions:
            self._acting.step(action)
            converted.append(np.asarray(self._one.action, dtype))
        self._actions = np.stack(converted)

    def step_wait(self) -> StepResult:
        obs, rewards, terminated, truncated, info = self._env.step(self._actions)
        rewards = np.array(rewards, np.float64)
        rows, infos, late = self._rows(obs), _separate(info, self.num_envs), self._over
        ended = np.asarray(terminated | truncated, bool)
        self._returns += rewards
        self._lengths += ~late
        last = list(rows)
        if self._mode is AutoresetMode.SAME_STEP:
            for i in np.flatnonzero(ended):
                last[i] = self._converted(infos[i].pop("final_obs"))
                infos[i] = infos[i].pop("final_info", {}) | {"reset_info": infos[i]}
        elif self._apart and ended.any():
            begun, info = self._env.reset(options={"reset_mask": ended.copy()})
            begun, reset_infos = self._rows(begun), _separate(info, self.num_envs)
            for i in np.flatnonzero(ended):
                rows[i] = begun[i]
                infos[i]["reset_info"] = reset_infos[i]
        elif not self._apart:
            self._over = ended
        for i in np.flatnonzero(ended):
            self._end_episode(i, infos[i], last[i], bool(truncated[i] and not terminated[i]))
        for i in np.flatnonzero(late):
            infos[i] |= {LAST: self._row(i), "TimeLimit.truncated": True, "reset_info": dict(infos[i])}
        self._put(rows, "observation")
        self._checks.stepped(rewards, ended | late)
        return self._buffer.copy(), rewards.astype(np.float32), ended | late, infos

    def _end_episode(self, i: int, info: dict[str, Any], last: Any, truncated: bool) -> None:
        seconds = round(time.time() - self._begun, 6)
        episode = {"r": round(float(self._returns[i]), 6), "l": int(self._lengths[i]), "t": seconds}
        success = success_of(info)
        info["episode"] = episode if success is None else episode | {"is_success": success}
        # The environments may change their arrays in the next step.
        info[LAST] = copy.deepcopy(last)
        info["TimeLimit.truncated"] = truncated
        self._fit(last, "final observation")
        self._checks.final(i, info)
        self._returns[i] = 0.0
        self._lengths[i] = 0

    def _rows(self, obs: Any) -> list[Any]:
        return [self._converted(row) for row in iterate(self._env.observation_space, obs)]

    def _converted(self, obs: Any) -> Any:
        self._one.obs = obs
        return self._shown.reset()[0]

    def _row(self, i: int) -> Any:
        batch = self._buffer.copy()
        return {name: part[i] for name, part in batch.items()} if isinstance(batch, dict) else batch[i]

    def _put(self, rows: list[Any], quantity: str) -> None:
        for i, row in enumerate(rows):
            self._fit(row, quantity)
            self._buffer.put(i, row)

    def example(self) -> gymnasium.Env:
        steps = None if self._one.spec is None else self._one.spec.max_episode_steps
        return self._one if steps is None else TimeLimit(self._one, steps)

    def limit_episodes(self, steps: int | None = None, reward: float | None = None) -> None:
        limit = None if self._one.spec is None else self._one.spec.max_episode_steps
        if reward is not None or (steps is not None and (limit is None or limit > steps)):
            super().limit_episodes(steps, reward)

    def get_images(self) -> list[np.ndarray]:
        images = self._env.render()
        return super().get_images() if images is None else list(images)

    def close_extras(self) -> None:
        self._env.close()


def _separate(info: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """Split the info of a vector environment into one info for each environment."""
    infos: list[dict[str, Any]] = [{} for _ in range(count)]
    for name, value in info.items():
        if name.startswith("_") and name[1:] in info:
            continue
        there = info.get(f"_{name}", np.ones(count, bool))
        values = _separate(value, count) if isinstance(value, dict) else value
        for i in np.flatnonzero(there) if np.shape(there) == (count,) and len(values) == count else ():
            infos[i][name] = values[i]
    return infos


class CannotBeStored(Exception):
    """The run cannot be described by config.json."""


# Wrappers of environments that the commands put around them as well, or that change no observation.
KNOWN_WRAPPERS = ("VecNormalize", "VecPacked", "VecActionMask", "VecCheckedMask", "VecVideoRecorder", "_Begun")


def describe_env(env: Any, seed: int | None, flatten: bool) -> dict[str, Any]:
    """Describe vector environments for envs.make.build_env, or raise CannotBeStored."""
    inner, normalized = env, False
    while hasattr(inner, "venv"):
        name = type(inner).__name__
        if name not in KNOWN_WRAPPERS or not type(inner).__module__.startswith("tfbaselines."):
            raise _not_from_an_id(f"it is wrapped in {name}")
        normalized |= name == "VecNormalize"
        inner = inner.venv
    one, scale = next(iter(getattr(inner, "envs", ())), None), 1.0
    while hasattr(one, "env") and type(one).__module__.startswith("tfbaselines."):
        scale *= getattr(one, "scale", 1.0)
        one = one.env
    if flatten and type(one).__name__ == "FlattenObservation":
        one = one.env
    kwargs = env_arguments(one)
    parameters = getattr(inner, "parameters", None)
    described = {} if parameters is None else {"env_parameters": parameters.as_text()}
    own = {"env": one.spec.id, "num_env": inner.num_envs, "seed": seed, "reward_scale": scale}
    return own | {"env_kwargs": kwargs or None, "normalize": normalized, "flatten": flatten} | described


# Value of max_episode_steps for gymnasium.make.
NO_LIMIT = -1


def env_arguments(env: Any) -> dict[str, Any]:
    """Return the arguments with which gymnasium.make repeats an environment, or raise CannotBeStored."""
    spec = getattr(env, "spec", None)
    registered = gymnasium.registry.get(spec.id) if spec is not None else None
    if registered is None:
        raise _not_from_an_id("it has none that is registered")
    if spec.additional_wrappers != registered.additional_wrappers:
        raise _not_from_an_id(f"it is wrapped in {', '.join(one.name for one in spec.additional_wrappers)}")
    if env_type_of(spec.id)[0] == "atari":
        raise _not_from_an_id("Atari games are made with baselines' wrappers")
    kwargs = {}
    for name, value in spec.kwargs.items():
        usual = name in registered.kwargs and np.array_equal(registered.kwargs[name], value)
        if name != "render_mode" and not usual:
            kwargs[name] = _as_json(name, value)
    limit = math.inf
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, gymnasium.wrappers.TimeLimit):
            limit = min(limit, env.spec.max_episode_steps)
        env = env.env
    limit = NO_LIMIT if limit == math.inf else limit
    if limit != (registered.max_episode_steps or NO_LIMIT):
        kwargs["max_episode_steps"] = limit
    return kwargs


def _not_from_an_id(why: str) -> CannotBeStored:
    return CannotBeStored(f"env_fn's environment cannot be made again from an id: {why}")


def _as_json(name: str, value: Any) -> Any:
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, list | tuple):
        return [_as_json(name, item) for item in value]
    if isinstance(value, dict) and all(type(key) is str for key in value):
        return {key: _as_json(name, item) for key, item in value.items()}
    if value is None or type(value) in (bool, int, str) or (type(value) is float and math.isfinite(value)):
        return value
    raise _not_from_an_id(f"its argument '{name}' is not JSON")
