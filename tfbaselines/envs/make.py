"""From an environment's id to a vector environment, wrapped as baselines wraps it."""

import contextlib
import dataclasses
import os
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import gymnasium

from tfbaselines.envs.ids import cannot_be_made, env_type_of, spec_of
from tfbaselines.envs.monitor import Monitor, ResultsWriter
from tfbaselines.envs.normalize import VecNormalize
from tfbaselines.envs.vec import DummyVecEnv, ShmemVecEnv, SubprocVecEnv, VecEnv, VecFrameStack
from tfbaselines.envs.vec.checks import EnvironmentFault, begin, check_spaces, why
from tfbaselines.envs.vec.observations import flattened
from tfbaselines.envs.vec.video import has_display
from tfbaselines.envs.wrappers import RewardScaler, clipped, with_quick_actions
from tfbaselines.errors import UsageError, bad_argument, unknown

WORKERS = {"dummy": DummyVecEnv, "subproc": SubprocVecEnv, "shmem": ShmemVecEnv}

ATARI_FRAME_STACK = 4

# Of environments that a function makes.
OWN_TYPE = "own"

# Environments whose infos have is_success, which baselines writes to the monitor's file.
WITH_SUCCESS = re.compile("Fetch|Hand")

# Between the seeds of an environment and of the one that replaces it.
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
) -> gymnasium.Env:
    """Make one environment with its monitor and wrappers.

    Args:
        env_id: a registered id, or a function that makes the environment.
        env_type: see env_type_of.
        mpi_rank: this process's rank, for the monitor's file name.
        subrank: the environment's number within the rank; added to the seed.
        seed: None for any.
        reward_scale: rewards are multiplied by it.
        gamestate: retro games only.
        flatten_dict_observations: show Dict and Tuple observations as one flat Box.
        wrapper_kwargs: for wrap_deepmind (atari).
        env_kwargs: for gymnasium.make, or for the function.
        logger_dir: where `RANK.SUBRANK.monitor.csv` goes; None for no file.
        initializer: called with (mpi_rank, subrank) before the environment is made.
        append: continue the monitor's file.
    """
    if initializer is not None:
        initializer(mpi_rank, subrank)
    if gamestate is not None and env_type != "retro":
        raise bad_argument("gamestate", gamestate, "for retro games only")
    if wrapper_kwargs and env_type != "atari":
        raise bad_argument("wrapper_kwargs", wrapper_kwargs, "for Atari games only")
    env = _bare(env_id, env_type, env_kwargs or {})
    name = env_id if isinstance(env_id, str) else getattr(env.spec, "id", "")
    check_spaces(env)
    if flatten_dict_observations:
        env = flattened(env)
    # The monitor sits under everything that changes rewards.
    success = ("is_success",) if env_type == "robotics" and WITH_SUCCESS.match(name) else ()
    path = _monitor_path(logger_dir, mpi_rank, subrank)
    env = Monitor(env, path, allow_early_resets=True, info_keywords=success, append=append)
    # Seeding begins an episode, which EpisodicLifeEnv must not go on with: the wrappers come after it.
    env_seed = None if seed is None else seed + subrank
    try:
        begin(env, seed=env_seed)
    except Exception as error:
        raise EnvironmentFault(f"environment {name or type(env.unwrapped).__name__} failed: {why(error)}") from error
    env.action_space.seed(env_seed)
    if env_type == "atari":
        from tfbaselines.envs.atari import wrap_deepmind

        env = wrap_deepmind(env, **(wrapper_kwargs or {}))
    env = clipped(env)
    if reward_scale != 1:
        env = RewardScaler(env, reward_scale)
    return env


def _bare(env_id: str | Callable[..., gymnasium.Env], env_type: str, env_kwargs: dict[str, Any]) -> gymnasium.Env:
    if callable(env_id):
        env = env_id(**env_kwargs)
        if not isinstance(env, gymnasium.Env):
            raise bad_argument("env_id", type(env).__name__, "a function that makes a Gymnasium environment")
        return env
    if env_type == "atari":
        from tfbaselines.envs.atari import make_atari

        with making(env_id, env_type, env_kwargs):
            # ALE's own grey, as its vector environment shows it.
            return make_atari(env_id, **{"obs_type": "grayscale", **env_kwargs})
    with making(env_id, env_type, env_kwargs):
        # Vector environments reset before they step and look at what comes back: two layers less on every step.
        spec = dataclasses.replace(spec_of(env_id), order_enforce=False)
        env = with_quick_actions(gymnasium.make(spec, disable_env_checker=True, **env_kwargs))
    _without_mujoco_log()
    return env


@contextlib.contextmanager
def making(env_id: str, env_type: str, env_kwargs: dict[str, Any]) -> Iterator[None]:
    """Around the making of a registered environment: what keeps it from being made is a ValueError of one line."""
    try:
        yield
    except (ImportError, gymnasium.error.DependencyNotInstalled) as error:
        raise cannot_be_made(env_id, env_type, error) from None
    except TypeError as error:
        if "'render_mode'" in str(error):
            raise UsageError(f"no pictures of {env_id}: it takes no render_mode") from None
        raise bad_argument(
            "env_kwargs", env_kwargs, f"what {env_id} takes, --env_kwargs.NAME=VALUE ({error})"
        ) from None
    except Exception as error:
        if isinstance(error, UsageError):
            raise
        raise EnvironmentFault(f"environment '{env_id}' cannot be made: {why(error)}") from error


def _without_mujoco_log() -> None:
    """Keep MuJoCo from writing MUJOCO_LOG.TXT into the working directory; its warnings still go to the console."""
    settings = getattr(sys.modules.get("mujoco"), "MjLogConfig", None)
    if settings is not None:
        present = settings.get()
        present.logto_file = False
        present.set()


def _monitor_path(logger_dir: str | None, mpi_rank: int, subrank: int) -> str | None:
    return os.path.join(logger_dir, f"{mpi_rank}.{subrank}") if logger_dir else None


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
) -> VecEnv:
    """Make several environments that are stepped together.

    Args:
        env_id: a registered id, 'module:id', or a function that makes an environment.
        env_type: one of ENV_TYPES, or any other name, as scripts for baselines give environments of their own; None for
            what the registry says.
        num_env: how many.
        seed: of the first; rank r adds 10,000 r and environment i adds i.
        wrapper_kwargs: see make_env.
        env_kwargs: see make_env.
        start_index: number of the first environment.
        reward_scale: see make_env.
        flatten_dict_observations: see make_env.
        gamestate: see make_env.
        initializer: see make_env.
        force_dummy: step them in this process.
        worker: 'dummy' in this process (the default: most environments are cheaper than a pipe), 'subproc' or 'shmem'
            in processes of their own. Atari games by default run in ale-py's threads.
        logger_dir: see make_env.
        append: see make_env.
        mpi_rank: this process's rank.
        step_timeout: seconds after which a step or reset counts as hung; for workers in processes of their own.
        restart_workers: how many workers that crash, raise or hang are replaced; see SubprocVecEnv.
    """
    if num_env < 1:
        raise bad_argument("num_env", num_env, "at least 1")
    if worker is not None and worker not in WORKERS:
        raise unknown("worker", worker, WORKERS)
    check_worker(worker, step_timeout, restart_workers)
    if isinstance(env_type, int):
        raise bad_argument("env_type", env_type, f"the number of environments is num_env={env_type}")
    made_by_function = callable(env_id)
    registered, env_id = (OWN_TYPE, env_id) if made_by_function else env_type_of(env_id)
    env_type = env_type or registered
    seed = None if seed is None else seed + 10_000 * mpi_rank
    game = _native_game(env_id) if env_type == "atari" and not made_by_function else None
    plain = not (force_dummy or worker or env_kwargs or initializer or start_index or gamestate or reward_scale != 1)
    if game is not None and plain and set(wrapper_kwargs or {}) <= {"episode_life", "clip_rewards"}:
        return _native_atari(game, env_id, num_env, seed, wrapper_kwargs or {}, logger_dir, append, mpi_rank)

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
    )
    spec = None if made_by_function else spec_of(env_id)
    makers = [_Maker(spec, make, start_index + i, seed, append) for i in range(num_env)]
    vec = DummyVecEnv if force_dummy else WORKERS[worker or "dummy"]
    if vec is DummyVecEnv:
        return vec(makers)
    return vec(makers, step_timeout=step_timeout, restart_workers=restart_workers)


@dataclasses.dataclass(frozen=True)
class _Maker:
    """Makes one environment of several, in this process or in another.

    Attributes:
        spec: the registry's entry, as another process has not imported the module that registers the environment; None
            where a function makes it.
        make: makes it, given subrank, seed and append.
        subrank: its number.
        seed: of all; None for any.
        append: continue its monitor file.
    """

    spec: Any
    make: Callable[..., gymnasium.Env]
    subrank: int
    seed: int | None
    append: bool

    def __call__(self) -> gymnasium.Env:
        if self.spec is not None:
            gymnasium.registry.setdefault(self.spec.id, self.spec)
        return self.make(subrank=self.subrank, seed=self.seed, append=self.append)

    def example(self) -> gymnasium.Env:
        """The environment without its monitor file."""
        return self.make(subrank=self.subrank, seed=self.seed, logger_dir=None)

    def again(self, number: int) -> "_Maker":
        """Of the environment that replaces this one: it does not repeat its episodes, nor overwrite its file."""
        seed = None if self.seed is None else self.seed + number * SEEDS_APART
        return dataclasses.replace(self, seed=seed, append=True)


def check_worker(worker: str | None, step_timeout: float | None, restart_workers: int) -> None:
    """Refuse what environments in this process cannot do: they are neither interrupted nor replaced."""
    if worker not in (None, "dummy"):
        return
    needed = "needs --worker=subproc or --worker=shmem: environments in processes of their own"
    if step_timeout is not None:
        raise bad_argument("step_timeout", step_timeout, needed)
    if restart_workers:
        raise bad_argument("restart_workers", restart_workers, needed)


def _native_game(env_id: str) -> str | None:
    """The ROM of a NoFrameskip-v4 game, whose settings are the native environment's; None for others."""
    if not env_id.endswith("NoFrameskip-v4"):
        return None
    kwargs = spec_of(env_id).kwargs
    return kwargs["game"] if kwargs.get("repeat_action_probability", 0.0) == 0.0 else None


def _native_atari(
    game: str,
    env_id: str,
    num_env: int,
    seed: int | None,
    options: dict[str, Any],
    logger_dir: str | None,
    append: bool,
    mpi_rank: int,
) -> VecEnv:
    import time

    from tfbaselines.envs.vec.native_atari import NativeAtariVecEnv

    writers = None
    if logger_dir:
        header = {"t_start": time.time(), "env_id": env_id}
        paths = [_monitor_path(logger_dir, mpi_rank, i) for i in range(num_env)]
        writers = [ResultsWriter(path, header, append=append) for path in paths]
    return NativeAtariVecEnv(game, num_env, seed, writers=writers, **options)


def rendered(config: dict[str, Any], render_mode: str) -> dict[str, Any]:
    """A config of `build_env` whose environments render."""
    if render_mode == "rgb_array" and not has_display():
        # Pygame needs no window for pictures, but complains on standard error where it finds none.
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    return config | {"env_kwargs": {**(config.get("env_kwargs") or {}), "render_mode": render_mode}}


def build_env(
    config: dict[str, Any],
    training: bool = True,
    logger_dir: str | None = None,
    append: bool = False,
    mpi_rank: int = 0,
) -> VecEnv:
    """The environments of a run, wrapped as its algorithm needs them: what config.json is made from and rebuilds.

    Args:
        config: env, env_type, num_env, seed, reward_scale, gamestate, worker, step_timeout, restart_workers (for
            workers in processes), env_kwargs, normalize (VecNormalize around MuJoCo environments), flatten (Dict and
            Tuple observations); absent ones take defaults.
        training: False freezes the statistics of VecNormalize.
        logger_dir: where monitor files go; None for none.
        append: continue the monitor files of an earlier run.
        mpi_rank: this process's rank.
    """
    env_type, env_id = env_type_of(config["env"], config.get("env_type"))
    care = {}
    if config.get("worker") in ("subproc", "shmem"):
        # Not where tests and playing take the environments into this process.
        care = {"step_timeout": config.get("step_timeout"), "restart_workers": config.get("restart_workers", 0)}
    env = make_vec_env(
        env_id,
        env_type,
        config.get("num_env") or 1,
        config.get("seed"),
        reward_scale=config.get("reward_scale", 1.0),
        gamestate=config.get("gamestate"),
        worker=config.get("worker"),
        env_kwargs=config.get("env_kwargs"),
        flatten_dict_observations=config.get("flatten", True),
        logger_dir=logger_dir,
        append=append,
        mpi_rank=mpi_rank,
        **care,
    )
    if env_type == "atari":
        return VecFrameStack(env, ATARI_FRAME_STACK)
    normalized = env_type == "mujoco" and config.get("normalize", True)
    return VecNormalize(env, training=training) if normalized else env
