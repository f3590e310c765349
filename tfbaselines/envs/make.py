"""Make vector environments from an environment's id, wrapped as in baselines."""

import dataclasses
import importlib
import itertools
import os
import re
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium
from gymnasium.wrappers import TimeLimit

from tfbaselines.envs import env_type_of, layers_of, spec_of
from tfbaselines.envs.bare import bare
from tfbaselines.envs.monitor import Monitor, ResultsWriter
from tfbaselines.envs.named_wrappers import Wrapper, wrapped
from tfbaselines.envs.normalize import normalized
from tfbaselines.envs.parameterized import parameterized
from tfbaselines.envs.parameters import EnvParameters, read_parameters
from tfbaselines.envs.vec import VecEnv, VecFrameStack
from tfbaselines.envs.vec.observations import flattened
from tfbaselines.envs.vec.worker import EnvironmentFault, begin, check_spaces, environment_name, id_of, why
from tfbaselines.envs.vec.wrappers import has_display
from tfbaselines.envs.workers import ENVPOOL, NATIVE, PROCESSES, check_worker, obstacle, stepped
from tfbaselines.envs.wrappers import (
    ClipActions,
    RewardScaler,
    clipped,
)
from tfbaselines.errors import bad_argument, check_at_least, renamed
from tfbaselines.loading import choose_workers_gl, find_in_working_directory

# Arguments of make_vec_env that a run's config has under the same names.
CONFIGURED = (
    "env_threads",
    *("num_env", "seed", "reward_scale", "gamestate", "env_kwargs", "wrapper", "monitor_keys", "env_parameters"),
)

# Types of environments that draw their pictures without OpenGL.
WITHOUT_GL = ("atari", "box2d", "classic_control", "toy_text")

ATARI_FRAME_STACK = 4

# Type of environments that a function makes.
OWN_TYPE = "own"

# Environments with is_success in their infos, which baselines writes to the monitor's file.
WITH_SUCCESS = re.compile("Fetch|Hand")

# Differences between the seeds of ranks, and of an environment and its replacement.
RANKS_APART = 10_000
SEEDS_APART = 1_000_003


def make_env(
    env_id: str | Callable[..., gymnasium.Env],
    env_type: str,
    mpi_rank: int = 0,
    subrank: int = 0,
    seed: int | None = None,
    reward_scale: float = 1.0,
    gamestate: str | None = None,
    flatten_dict_observations: bool = True,
    wrapper_kwargs: dict[str, Any] | None = None,
    env_kwargs: dict[str, Any] | None = None,
    logger_dir: str | None = None,
    initializer: Callable[[int, int], None] | None = None,
    append: bool = False,
    wrapper: Wrapper | None = None,
    monitor_keys: str | Sequence[str] | None = None,
    parameters: EnvParameters | None = None,
) -> gymnasium.Env:
    """Make one environment with its monitor and wrappers; make_vec_env explains the arguments.

    Args:
        env_id: a registered id, or a function that makes the environment.
        subrank: number of the environment within the rank; added to the seed.
        logger_dir: directory of `RANK.SUBRANK.monitor.csv`; None writes no file.
        parameters: parameters that samplers and lessons set; None for none.
    """
    if initializer is not None:
        initializer(mpi_rank, subrank)
    _check_game_options(env_type, gamestate, wrapper_kwargs)

    def make(arguments: dict[str, float]) -> gymnasium.Env:
        return wrapped(bare(env_id, env_type, {**(env_kwargs or {}), **arguments}), wrapper)

    makes = env_id if callable(env_id) else None
    env = parameterized(make, makes, parameters, None if seed is None else seed + subrank)
    name = env_id if isinstance(env_id, str) else getattr(env.spec, "id", "")
    check_spaces(env)
    if flatten_dict_observations:
        env = flattened(env)
    # The monitor is inside all wrappers that change rewards.
    success = ("is_success",) if env_type == "robotics" and WITH_SUCCESS.match(name) else ()
    path = next(iter(_monitor_paths(logger_dir, mpi_rank, 1, subrank)), None)
    # A monitor inside a TimeLimit misses the truncations.
    if path or not _has(env, Monitor, before=TimeLimit):
        keys = tuple(dict.fromkeys([*success, *listed(monitor_keys)]))
        env = Monitor(env, path, allow_early_resets=True, info_keywords=keys, append=append)
    # Seeding begins an episode that EpisodicLifeEnv must not continue, so the wrappers come later.
    if seed is not None:
        _seed(env, subrank, seed + subrank)
    if env_type == "atari":
        from tfbaselines.envs.atari import wrap_deepmind

        env = wrap_deepmind(env, **(wrapper_kwargs or {}))
    env = env if _has(env, ClipActions) else clipped(env)
    if reward_scale != 1:
        env = RewardScaler(env, reward_scale)
    return env


def listed(names: str | Sequence[str] | None) -> list[str]:
    """Return a list of names from a sequence or a text with commas."""
    parts = names.split(",") if isinstance(names, str) else names or ()
    return [part.strip() for part in parts if part.strip()]


def _check_game_options(env_type: str, gamestate: str | None, wrapper_kwargs: dict[str, Any] | None) -> None:
    if gamestate is not None and env_type != "retro":
        raise bad_argument("gamestate", gamestate, "only retro games have it")
    if wrapper_kwargs and env_type != "atari":
        raise bad_argument("wrapper_kwargs", wrapper_kwargs, "only Atari games have it")


def _seed(env: gymnasium.Env, number: int, seed: int) -> None:
    try:
        begin(env, seed=seed)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise EnvironmentFault(f"{environment_name(number, id_of(env))} failed: {why(error)}") from error
    env.action_space.seed(seed)
    for layer in layers_of(env):
        if isinstance(layer, Monitor):
            # The episode that the seed began ends with the first reset of the vector environment.
            layer.allow_early_resets = True


def _has(env: Any, wrapper: type, before: type | tuple[()] = ()) -> bool:
    """Return whether an environment has a wrapper of a class, outside of any wrapper of the class `before`."""
    outside = itertools.takewhile(lambda layer: not isinstance(layer, before), layers_of(env))
    return any(isinstance(layer, wrapper) for layer in outside)


def _monitor_paths(logger_dir: str | None, mpi_rank: int, count: int, first: int = 0) -> list[str]:
    return [os.path.join(logger_dir, f"{mpi_rank}.{first + i}") for i in range(count)] if logger_dir else []


@renamed(
    n_envs="num_env", monitor_dir="logger_dir", vec_env_cls="worker='subproc'", vec_env_kwargs="worker and step_timeout"
)
def make_vec_env(
    env_id: str | Callable[..., gymnasium.Env],
    env_type: str | None = None,
    num_env: int = 1,
    seed: int | None = None,
    wrapper_kwargs: dict[str, Any] | None = None,
    env_kwargs: dict[str, Any] | None = None,
    start_index: int = 0,
    reward_scale: float = 1.0,
    flatten_dict_observations: bool = True,
    gamestate: str | None = None,
    initializer: Callable[[int, int], None] | None = None,
    force_dummy: bool = False,
    worker: str | None = None,
    logger_dir: str | None = None,
    append: bool = False,
    mpi_rank: int = 0,
    step_timeout: float | None = None,
    restart_workers: int = 0,
    wrapper: Wrapper | None = None,
    monitor_keys: str | Sequence[str] | None = None,
    env_parameters: Any = None,
    env_threads: int | None = None,
) -> VecEnv:
    """Make several environments that are stepped together.

    Args:
        env_id: a registered id, 'module:id', or a function that makes an environment.
        env_type: one of ENV_TYPES, or another name that a script for baselines uses; None for the registry's type.
        seed: seed of the first environment; rank r adds 10,000 r and environment i adds i.
        wrapper_kwargs: arguments for wrap_deepmind (atari).
        env_kwargs: arguments for gymnasium.make, or for the function.
        start_index: number of the first environment.
        flatten_dict_observations: flatten Dict and Tuple observations to one Box.
        gamestate: state of a retro game.
        initializer: called with (mpi_rank, subrank) before an environment is made.
        force_dummy: step the environments in this process.
        worker: 'dummy' in this process (the default, since most steps cost less than a message between processes),
            'subproc' or 'shmem' in processes of their own, or 'native' in threads without Python's steps (the default
            of Atari games, and of several MuJoCo environments).
        logger_dir: directory of the monitor files; None writes no files.
        append: continue the monitor files.
        step_timeout: seconds after which a step or reset counts as hung; for workers in processes of their own.
        restart_workers: number of workers that are replaced if they crash, raise or hang; see SubprocVecEnv.
        wrapper: function or class around each environment, inside of its monitor; or 'module:Wrapper' or
            'module:Wrapper(NAME=VALUE, ...)', several with commas, the innermost first.
        monitor_keys: entries of the info at an episode's end for the monitor file and the info's 'episode' entry.
        env_parameters: samplers and curricula; see parameters.read_parameters.
        env_threads: threads that step native MuJoCo environments; None for this rank's cores.
    """
    parameters = read_parameters(env_parameters)
    check_at_least(1, num_env=num_env)
    check_worker(worker, step_timeout, restart_workers, env_threads)
    if any(isinstance(value, str) and ":" in value for value in (env_kwargs or {}).values()):
        # Such as env_id='module:Robot-v0' of GymV26Environment-v0: Gymnasium imports the module.
        find_in_working_directory()
    if isinstance(env_type, int):
        raise bad_argument("env_type", env_type, f"the number of environments is num_env={env_type}")
    made_by_function = callable(env_id)
    registered, env_id = (OWN_TYPE, env_id) if made_by_function else env_type_of(env_id)
    env_type = env_type or registered
    seed = None if seed is None else seed + RANKS_APART * mpi_rank
    if worker == ENVPOOL and not force_dummy:
        changes = {"reward_scale": reward_scale != 1, "gamestate": gamestate, "initializer": initializer}
        changes |= {"wrapper": wrapper, "monitor_keys": monitor_keys, "env_parameters": parameters}
        changes |= {"wrapper_kwargs": wrapper_kwargs, "a function": made_by_function}
        writers = _writers(str(env_id), logger_dir, mpi_rank, num_env, append)
        arguments = {"threads": env_threads, "flatten": flatten_dict_observations, "writers": writers}
        return _pooled(env_id, num_env, seed, env_kwargs, changes, arguments)
    game = _native_game(env_id) if env_type == "atari" and not made_by_function else None
    worker = "dummy" if force_dummy else worker
    plain = not (env_kwargs or initializer or start_index or gamestate or reward_scale != 1 or env_threads)
    plain = plain and worker in (None, NATIVE) and not (wrapper or monitor_keys or parameters)
    if game is not None and plain and set(wrapper_kwargs or {}) <= {"episode_life", "clip_rewards"}:
        from tfbaselines.envs.vec.native_atari import NativeAtariVecEnv

        writers = _writers(env_id, logger_dir, mpi_rank, num_env, append)
        return NativeAtariVecEnv(game, num_env, seed, writers=writers, **wrapper_kwargs or {})

    make = partial(
        make_env,
        env_id,
        env_type,
        mpi_rank,
        reward_scale=reward_scale,
        gamestate=gamestate,
        flatten_dict_observations=flatten_dict_observations,
        wrapper_kwargs=wrapper_kwargs,
        env_kwargs=env_kwargs,
        logger_dir=logger_dir,
        initializer=initializer,
        wrapper=wrapper,
        monitor_keys=monitor_keys,
        parameters=parameters,
    )
    spec = None if made_by_function else spec_of(env_id)
    makers = [_Maker(spec, make, start_index + i, seed, append) for i in range(num_env)]
    changes = {"wrapper": wrapper, "wrapper_kwargs": wrapper_kwargs, "initializer": initializer, "gamestate": gamestate}
    changes |= {"env_parameters": parameters}
    hindrance = obstacle(spec, env_type, env_kwargs or {}, changes)
    env = stepped(makers, worker, env_threads, hindrance, step_timeout=step_timeout, restart_workers=restart_workers)
    env.parameters = parameters
    return env


def _writers(env_id: str, logger_dir: str | None, mpi_rank: int, count: int, append: bool) -> Any:
    """Return a ResultsWriter for each environment that has no Monitor; None without files."""
    header = {"t_start": time.time(), "env_id": env_id}
    paths = _monitor_paths(logger_dir, mpi_rank, count)
    return [ResultsWriter(path, header, append=append) for path in paths] or None


def _pooled(
    env_id: Any, count: int, seed: int | None, kwargs: Any, changes: dict[str, Any], arguments: dict[str, Any]
) -> VecEnv:
    """Make environments of EnvPool; UsageError for `changes`, which are arguments of Gymnasium's environments."""
    from tfbaselines.envs.vec.envpool import make_envpool

    for name, value in changes.items():
        if value:
            raise bad_argument("worker", ENVPOOL, f"EnvPool's environments take no {name}")
    return make_envpool(env_id, count, seed, kwargs, **arguments)


@dataclasses.dataclass(frozen=True)
class _Maker:
    """Makes one environment of several, in this process or in another."""

    # The registry's entry: another process has not imported the module that registers it. None for a function.
    spec: Any
    make: Callable[..., gymnasium.Env]
    subrank: int
    seed: int | None
    append: bool

    def __call__(self) -> gymnasium.Env:
        if self.spec is not None and self.spec.id not in gymnasium.registry:
            if isinstance(self.spec.entry_point, str):
                # Registers the id, if it does, before the entry is there: Gymnasium warns of a second one.
                importlib.import_module(self.spec.entry_point.partition(":")[0])
            gymnasium.registry.setdefault(self.spec.id, self.spec)
        return self.make(subrank=self.subrank, seed=self.seed, append=self.append)

    def example(self) -> gymnasium.Env:
        return self.make(subrank=self.subrank, seed=self.seed, logger_dir=None)

    def again(self, number: int) -> "_Maker":
        """Return the maker of replacement `number`, with another seed, that continues the monitor file."""
        seed = None if self.seed is None else self.seed + number * SEEDS_APART
        return dataclasses.replace(self, seed=seed, append=True)


def _native_game(env_id: str) -> str | None:
    """Return the ROM of a NoFrameskip-v4 game, for the native environment; None for other games."""
    if not env_id.endswith("NoFrameskip-v4"):
        return None
    kwargs = spec_of(env_id).kwargs
    return kwargs["game"] if kwargs.get("repeat_action_probability", 0.0) == 0.0 else None


def rendered(config: dict[str, Any], render_mode: str) -> dict[str, Any]:
    """Return a config of `build_env` with a render mode."""
    return config | {"env_kwargs": {**(config.get("env_kwargs") or {}), "render_mode": render_mode}}


def _drawing_worker(worker: str | None, env_type: str) -> str | None:
    """Prepare for pictures, and return the worker: environments that may use OpenGL get their own processes."""
    if not has_display():
        # Pygame needs no window for pictures, but warns on standard error without one.
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
        choose_workers_gl()
    worker = None if worker == NATIVE else worker
    return "subproc" if worker in (None, "dummy") and env_type not in WITHOUT_GL else worker


def build_env(
    config: dict[str, Any],
    training: bool = True,
    logger_dir: str | None = None,
    append: bool = False,
    mpi_rank: int = 0,
) -> VecEnv:
    """Make the environments of a run from its config, which config.json stores.

    Args:
        config: env (the id), normalize (see envs.normalize.normalized), flatten (flatten_dict_observations),
            and arguments of make_vec_env; missing keys have defaults.
        training: False freezes the statistics of VecNormalize, and takes a curriculum's last lesson.
        logger_dir: as for make_vec_env, like the rest.
    """
    env_type, env_id = env_type_of(config["env"], config.get("env_type"))
    limits = {}
    if config.get("worker") in PROCESSES:
        # Tests and playing run the environments in this process.
        limits = {"step_timeout": config.get("step_timeout"), "restart_workers": config.get("restart_workers", 0)}
    worker = config.get("worker")
    if (config.get("env_kwargs") or {}).get("render_mode"):
        worker = _drawing_worker(worker, env_type)
        config = config | {"env_threads": None}
    own = {name: config[name] for name in CONFIGURED if config.get(name) is not None}
    if own.get("env_parameters") and not training:
        own["env_parameters"] = read_parameters(own["env_parameters"]).of_last_lesson()
    flatten = config.get("flatten", True)
    place = {"logger_dir": logger_dir, "append": append, "mpi_rank": mpi_rank}
    env = make_vec_env(env_id, env_type, worker=worker, flatten_dict_observations=flatten, **own, **place, **limits)
    if env_type == "atari":
        env = VecFrameStack(env, ATARI_FRAME_STACK)
    return normalized(env, config.get("normalize", True), env_type, training)
