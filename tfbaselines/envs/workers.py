"""The choice of where environments run: `--worker`, and which environments have a native one."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium

from tfbaselines.envs.vec import DummyVecEnv, ShmemVecEnv, SubprocVecEnv, VecEnv
from tfbaselines.errors import bad_argument, unknown
from tfbaselines.parallel.mpi import own_cores

PROCESSES: dict[str, type[SubprocVecEnv]] = {"subproc": SubprocVecEnv, "shmem": ShmemVecEnv}
NATIVE = "native"
ENVPOOL = "envpool"
WORKERS = ("dummy", NATIVE, *PROCESSES, ENVPOOL)


def check_worker(
    worker: str | None,
    step_timeout: float | None,
    restart_workers: int,
    env_threads: int | None = None,
    in_series: int = 1,
) -> None:
    """Raise a UsageError for an unknown worker, and for arguments that only another worker has."""
    if worker is not None and worker not in WORKERS:
        raise unknown("worker", worker, WORKERS)
    if env_threads is not None and (worker not in (None, NATIVE, ENVPOOL) or env_threads < 1):
        needed = "needs --worker=native or --worker=envpool: environments without Python's steps"
        needed = "a number from 1" if env_threads < 1 else needed
        raise bad_argument("env_threads", env_threads, needed)
    if worker in PROCESSES:
        return
    for name, value, default in (
        ("step_timeout", step_timeout, None),
        ("restart_workers", restart_workers, 0),
        ("in_series", in_series, 1),
    ):
        if value != default:
            needed = "needs --worker=subproc or --worker=shmem: environments in processes of their own"
            raise bad_argument(name, value, needed)


def obstacle(spec: Any, env_type: str, env_kwargs: Mapping[str, Any], changes: Mapping[str, Any]) -> str | None:
    """Return why environments have no native worker that is theirs in every number; None if they have.

    Args:
        spec: the registry's entry; None for environments that a function makes.
        env_type: type of the environments.
        env_kwargs: arguments for gymnasium.make.
        changes: arguments of make_vec_env that no native environment takes.
    """
    if env_type == "atari":
        return "native games are those of NoFrameskip-v4, without arguments and wrappers"
    if env_type != "mujoco" or spec is None:
        return "native environments are Gymnasium's MuJoCo tasks, v4 and v5, and Atari games"
    for name, value in changes.items():
        if value:
            return f"native environments take no {name}"
    from tfbaselines.envs import mujoco

    return mujoco.obstacle(spec, env_kwargs)


def for_tests(worker: str | None) -> str | None:
    """Return the worker of environments that tests, evaluation and playing step; EnvPool's observations are its own."""
    return ENVPOOL if worker == ENVPOOL else None


def stepped(
    makers: Sequence[Callable[[], gymnasium.Env]],
    worker: str | None,
    env_threads: int | None,
    hindrance: str | None,
    **of_processes: Any,
) -> VecEnv:
    """Make environments in the object that steps them.

    Args:
        makers: functions that make the environments.
        worker: one of WORKERS, or None for the fastest in this process.
        env_threads: threads of native environments; None for this rank's cores.
        hindrance: the result of `obstacle`.
        of_processes: arguments of SubprocVecEnv.
    """
    if worker in PROCESSES:
        return PROCESSES[worker](makers, **of_processes)
    if hindrance is not None:
        for name, value in (("worker", worker if worker == NATIVE else None), ("env_threads", env_threads)):
            if value is not None:
                raise bad_argument(name, value, hindrance)
    # The formulas for several environments cost more than Gymnasium's for one.
    faster = len(makers) > 1 or worker == NATIVE or env_threads is not None
    if worker == "dummy" or hindrance is not None or not faster:
        return DummyVecEnv(makers)
    from tfbaselines.envs.vec.native_mujoco import NativeMujocoVecEnv

    return NativeMujocoVecEnv(makers, own_cores() if env_threads is None else env_threads)
