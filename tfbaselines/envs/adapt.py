"""Turn the environments that users pass to learn() into a VecEnv, and describe them for config.json."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv

from tfbaselines.envs import env_type_of
from tfbaselines.envs.make import OWN_TYPE, RANKS_APART, build_env, make_env
from tfbaselines.envs.vec import DummyVecEnv, VecEnv
from tfbaselines.envs.vec.base import share_environments
from tfbaselines.envs.vec.envpool import EnvPoolVecEnv, is_envpool
from tfbaselines.envs.vec.gymnasium_vec import GymnasiumVecEnv
from tfbaselines.envs.wrappers import is_environment
from tfbaselines.errors import UsageError, bad_argument
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
    if is_envpool(env):
        return EnvPoolVecEnv(env, flatten)
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
