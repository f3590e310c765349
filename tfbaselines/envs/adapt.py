"""Turn the environments that users pass to learn() into a VecEnv."""

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
from gymnasium.wrappers import TimeLimit

from tfbaselines.envs.make import make_vec_env
from tfbaselines.envs.monitor import Monitor
from tfbaselines.envs.vec import DummyVecEnv, VecEnv
from tfbaselines.envs.vec.base import share_environments
from tfbaselines.envs.vec.observations import flattened
from tfbaselines.envs.vec.worker import EnvironmentFault, begin, check_spaces, environment_name, id_of, why
from tfbaselines.envs.wrappers import ClipActions, clipped
from tfbaselines.errors import UsageError, bad_argument
from tfbaselines.parallel import mpi

ACCEPTED = "a VecEnv, a Gymnasium environment, an id, a function that makes one, or a list of such functions"
ACCEPTED_OF_VECTORS = (
    "gymnasium.vector's SyncVectorEnv and AsyncVectorEnv without wrappers; in place of others pass a list of functions "
    "that make the environments"
)


def as_vec_env(env: Any, seed: int | None = None, flatten: bool = True, name: str = "env") -> Any:
    """Return the environments as algorithms accept them.

    A monitor records episodes, actions are clipped to their bounds, and Dict and Tuple observations are flattened for
    algorithms without an encoder. A VecEnv, or a list of VecEnvs of several workers, stays the same.

    Args:
        env: a VecEnv, a Gymnasium environment, an id, a function that makes an environment, a list of such functions,
            or a vector environment of Gymnasium that keeps such a list.
        seed: seed of the first environment; None for any. A VecEnv keeps its seed.
        flatten: flatten Dict and Tuple observations to one Box.
        name: name of the argument, for errors.
    """
    if _is_vec_env(env) or (isinstance(env, list | tuple) and env and all(map(_is_vec_env, env))):
        return env
    first = None if seed is None else seed + 10_000 * mpi.world().rank
    if isinstance(env, str):
        # make_vec_env adds the rank to the seed.
        return make_vec_env(env, seed=seed, flatten_dict_observations=flatten, mpi_rank=mpi.world().rank)
    if isinstance(env, gymnasium.Env):
        return DummyVecEnv([partial(_made, lambda: env, 0, first, flatten)])
    if isinstance(env, gymnasium.vector.VectorEnv):
        # The functions inside a wrapper would lose its effect.
        makers = getattr(env, "env_fns", None) if env.unwrapped is env else None
        if makers is None:
            raise bad_argument(name, type(env).__name__, ACCEPTED_OF_VECTORS)
        env = makers
    if isinstance(env, list | tuple) and env and all(map(callable, env)):
        return DummyVecEnv([partial(_made, make, i, first, flatten) for i, make in enumerate(env)])
    if callable(env):
        made = env()
        return made if _is_vec_env(made) else DummyVecEnv([partial(_made, lambda: made, 0, first, flatten)])
    if isinstance(env, list | tuple) and env:
        kinds = " and ".join(sorted({type(one).__name__ for one in env if not callable(one)}))
        raise UsageError(f"{name}=[...] has {kinds} where it needs functions that make environments")
    raise bad_argument(name, env if env is None or isinstance(env, list | tuple) else type(env).__name__, ACCEPTED)


def check_apart(env: Any, tests: VecEnv, name: str) -> None:
    """Raise a UsageError if tests would step the environments of training, which would disturb its episodes.

    Args:
        env: the environments of training; a list for several workers.
        tests: the environments of tests.
        name: name of the argument with the test environments.
    """
    if any(share_environments(one, tests) for one in (env if isinstance(env, list | tuple) else [env])):
        raise UsageError(f"{name} has the environments of training: tests need other environments")


def _is_vec_env(env: Any) -> bool:
    """Return whether an object is a VecEnv or has its methods."""
    return isinstance(env, VecEnv) or (hasattr(env, "step_wait") and not isinstance(env, gymnasium.vector.VectorEnv))


def _made(make: Callable[[], Any], number: int, seed: int | None, flatten: bool) -> gymnasium.Env:
    env = make()
    if not isinstance(env, gymnasium.Env):
        raise bad_argument("env", type(env).__name__, "its functions make Gymnasium environments")
    env = _monitored(env, flatten)
    if seed is not None:
        try:
            begin(env, seed=seed + number)
        except EnvironmentFault as error:
            raise EnvironmentFault(f"{environment_name(number, id_of(env))} failed: {why(error)}") from error
        env.action_space.seed(seed + number)
    return env


def _monitored(env: gymnasium.Env, flatten: bool) -> gymnasium.Env:
    check_spaces(env)
    if not _has(env, Monitor, before=TimeLimit):
        # A monitor inside a TimeLimit misses the truncations.
        env = Monitor(env, None, allow_early_resets=True)
    if flatten:
        env = flattened(env)
    return env if _has(env, ClipActions) else clipped(env)


def _has(env: Any, wrapper: type, before: type | tuple[()] = ()) -> bool:
    """Return whether an environment has a wrapper of a class, outside of any wrapper of the class `before`."""
    while isinstance(env, gymnasium.Wrapper) and not isinstance(env, before):
        if isinstance(env, wrapper):
            return True
        env = env.env
    return False
