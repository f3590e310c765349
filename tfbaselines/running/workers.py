"""The environments of algorithms whose workers are threads."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from tfbaselines.envs.normalize import share_normalization
from tfbaselines.envs.vec import VecEnv
from tfbaselines.errors import bad_argument, check_at_least
from tfbaselines.parallel import mpi
from tfbaselines.settings.options import RunOptions


@contextmanager
def workers_environments(
    env: VecEnv | Sequence[VecEnv], num_workers: int, run: RunOptions, comm: mpi.Communicator
) -> Iterator[list[VecEnv]]:
    """The environments of each worker; those that are made here are closed at the end.

    Args:
        env: one worker's environments, or a list with every worker's.
        num_workers: how many workers there are; with a list, 1 stands for its length.
        run: its make_env makes what is missing.
        comm: ranks do not go together with several workers.
    """
    envs = list(env) if isinstance(env, list | tuple) else [env]
    check_at_least(1, num_workers=num_workers, workers=len(envs))
    count = len(envs) if num_workers == 1 else num_workers
    if count > 1 and comm.size > 1:
        raise bad_argument("num_workers", num_workers, "several workers are threads of one process: run without mpirun")
    if len(envs) != count and (len(envs) > 1 or run.make_env is None):
        raise bad_argument(
            "num_workers", num_workers, f"env has the environments of {len(envs)}: give a list of each's"
        )
    with ExitStack() as stack:
        for number in range(len(envs), count):
            envs.append(run.make_env(number))
            stack.callback(envs[-1].close)
        if any(one.num_envs != envs[0].num_envs for one in envs):
            raise ValueError(f"every worker needs as many environments, not {[one.num_envs for one in envs]}")
        share_normalization(envs)
        yield envs
