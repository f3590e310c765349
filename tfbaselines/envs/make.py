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
    in_series: int = 1,
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
        in_series: environments in each process of 'subproc' or 'shmem'; must divide num_env.
    """
    check_at_least(1, num_env=num_env)
    check_worker(worker, step_timeout, restart_workers, env_threads, in_series)
    if any(isinstance(value, str) and ":" in value for value in (env_kwargs or {}).values()):
        # Such as env_id='module:Robot-v0' of GymV26Environment-v0: Gymnasium imports the module.
        find_in_working_directory()
    if isinstance(env_type, int):
        raise bad_argument("env_type", env_type, f"the number of environments is num_env={env_type}")
    registered, env_id = (OWN_TYPE, env_id) if callable(env_id) else env_type_of(env_id)
    seed = None if seed is None else seed + RANKS_APART * mpi_rank
    options = {
        "reward_scale": reward_scale,
        "gamestate": gamestate,
        "flatten_dict_observations": flatten_dict_observations,
        "wrapper_kwargs": wrapper_kwargs,
        "env_kwargs": env_kwargs,
        "initializer": initializer,
        "wrapper": wrapper,
        "monitor_keys": monitor_keys,
        "parameters": read_parameters(env_parameters),
    }
    several = _Several(
        env_id, env_type or registered, num_env, seed, start_index, mpi_rank, logger_dir, append, options
    )
    if force_dummy:
        worker = "dummy"
    if worker == ENVPOOL:
        return several.of_envpool(env_threads)
    game = several.native_game() if worker in (None, NATIVE) and not env_threads else None
    if game is not None:
        return several.of_native_atari(game)
    own = {"in_series": in_series, "step_timeout": step_timeout, "restart_workers": restart_workers}
    return several.stepped(worker, env_threads, **own)


@dataclasses.dataclass(frozen=True)
class _Several:
    """Environments of a kind that are stepped together, and the ways to make them.

    Attributes:
        options: arguments of make_env that all environments share.
    """

    env_id: str | Callable[..., gymnasium.Env]
    env_type: str
    count: int
    seed: int | None
    start_index: int
    mpi_rank: int
    logger_dir: str | None
    append: bool
    options: dict[str, Any]

    def of_envpool(self, threads: int | None) -> VecEnv:
        """Make EnvPool's environments; UsageError for arguments that only Gymnasium's environments take."""
        from tfbaselines.envs.vec.envpool import make_envpool

        options = self.options
        changes = {"reward_scale": options["reward_scale"] != 1}
        changes |= {name: options[name] for name in ("gamestate", "initializer", "wrapper", "monitor_keys")}
        changes |= {"env_parameters": options["parameters"], "wrapper_kwargs": options["wrapper_kwargs"]}
        changes |= {"a function": callable(self.env_id)}
        for name, value in changes.items():
            if value:
                raise bad_argument("worker", ENVPOOL, f"EnvPool's environments take no {name}")
        own = {"flatten": options["flatten_dict_observations"], "writers": self._writers()}
        return make_envpool(self.env_id, self.count, self.seed, options["env_kwargs"], threads=threads, **own)

    def native_game(self) -> str | None:
        """Return the ROM of a game for native environments; None for others and for arguments that these lack."""
        options, known = self.options, {"episode_life", "clip_rewards"}
        others = ("env_kwargs", "initializer", "gamestate", "wrapper", "monitor_keys", "parameters")
        if self.env_type != "atari" or callable(self.env_id) or self.start_index or options["reward_scale"] != 1:
            return None
        if any(options[name] for name in others) or not set(options["wrapper_kwargs"] or {}) <= known:
            return None
        return _native_game(self.env_id)

    def of_native_atari(self, game: str) -> VecEnv:
        from tfbaselines.envs.vec.native_atari import NativeAtariVecEnv

        own = self.options["wrapper_kwargs"] or {}
        return NativeAtariVecEnv(game, self.count, self.seed, writers=self._writers(), **own)

    def stepped(self, worker: str | None, threads: int | None, **of_processes: Any) -> VecEnv:
        """Make Gymnasium's environments in this process, in others or in threads."""
        options = self.options
        make = partial(make_env, self.env_id, self.env_type, self.mpi_rank, logger_dir=self.logger_dir, **options)
        spec = None if callable(self.env_id) else spec_of(self.env_id)
        numbers = range(self.start_index, self.start_index + self.count)
        makers = [_Maker(spec, make, number, self.seed, self.append) for number in numbers]
        changes = {name: options[name] for name in ("wrapper", "wrapper_kwargs", "initializer", "gamestate")}
        changes |= {"env_parameters": options["parameters"]}
        hindrance = obstacle(spec, self.env_type, options["env_kwargs"] or {}, changes)
        env = stepped(makers, worker, threads, hindrance, **of_processes)
        env.parameters = options["parameters"]
        return env

    def _writers(self) -> Any:
        """Return a ResultsWriter for each environment that has no Monitor; None without files."""
        header = {"t_start": time.time(), "env_id": str(self.env_id)}
        paths = _monitor_paths(self.logger_dir, self.mpi_rank, self.count)
        return [ResultsWriter(path, header, append=self.append) for path in paths] or None


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
    of_processes = {}
    if config.get("worker") in PROCESSES:
        # Tests and playing run the environments in this process.
        names = ("in_series", "step_timeout", "restart_workers")
        of_processes = {name: config[name] for name in names if config.get(name) is not None}
    worker = config.get("worker")
    if (config.get("env_kwargs") or {}).get("render_mode"):
        worker = _drawing_worker(worker, env_type)
        config = config | {"env_threads": None}
    own = {name: config[name] for name in CONFIGURED if config.get(name) is not None}
    if own.get("env_parameters") and not training:
        own["env_parameters"] = read_parameters(own["env_parameters"]).of_last_lesson()
    own |= {"worker": worker, "flatten_dict_observations": config.get("flatten", True)}
    place = {"logger_dir": logger_dir, "append": append, "mpi_rank": mpi_rank}
    env = make_vec_env(env_id, env_type, **own, **place, **of_processes)
    if env_type == "atari":
        env = VecFrameStack(env, ATARI_FRAME_STACK)
    return normalized(env, config.get("normalize", True), env_type, training)
