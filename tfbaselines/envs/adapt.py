"""Turn the environments that users pass to learn() into a VecEnv."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium

from tfbaselines.envs.make import OWN_TYPE, RANKS_APART, build_env, make_env
from tfbaselines.envs.vec import DummyVecEnv, VecEnv
from tfbaselines.envs.vec.base import share_environments
from tfbaselines.errors import UsageError, bad_argument
from tfbaselines.parallel import mpi

ACCEPTED = "a VecEnv, a Gymnasium environment, an id, a function that makes one, or a list of such functions"
ACCEPTED_OF_VECTORS = (
    "gymnasium.vector's SyncVectorEnv and AsyncVectorEnv without wrappers; in place of others pass a list of functions "
    "that make the environments"
)


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
        env: see ACCEPTED; a vector environment of Gymnasium must keep the functions that made it.
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
    if isinstance(env, gymnasium.Env):
        return _together([lambda: env], seed, flatten)
    if isinstance(env, gymnasium.vector.VectorEnv):
        # The functions inside a wrapper would lose its effect.
        makers = getattr(env, "env_fns", None) if env.unwrapped is env else None
        if makers is None:
            raise bad_argument(name, type(env).__name__, ACCEPTED_OF_VECTORS)
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

    Args:
        env: environments of training; a list for several workers.
        tests: environments of tests.
        name: name of the argument with the test environments.
    """
    if any(share_environments(one, tests) for one in (env if isinstance(env, list | tuple) else [env])):
        raise UsageError(f"{name} has the environments of training: tests need other environments")


def _is_vec_env(env: Any) -> bool:
    return isinstance(env, VecEnv) or (hasattr(env, "step_wait") and not isinstance(env, gymnasium.vector.VectorEnv))


def _together(makers: Sequence[Callable[[], Any]], seed: int | None, flatten: bool) -> DummyVecEnv:
    seed = None if seed is None else seed + RANKS_APART * mpi.world().rank
    make = partial(make_env, env_type=OWN_TYPE, seed=seed, flatten_dict_observations=flatten)
    return DummyVecEnv([partial(make, maker, subrank=i) for i, maker in enumerate(makers)])
