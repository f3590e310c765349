"""Spinning Up's MPI functions, on this package's communicator."""

import os
import sys
from typing import Any

import numpy as np

from tfbaselines.errors import UsageError
from tfbaselines.parallel import mpi

OPERATIONS = ("sum", "max")


def mpi_fork(n: int, bind_to_core: bool = False) -> None:
    """Continue as n ranks: a process without mpirun becomes mpirun with n ranks of the same script.

    Args:
        n: number of ranks; 1 changes nothing.
        bind_to_core: bind each rank to a core.
    """
    if n > 1 and not mpi.launched():
        sys.stdout.flush()
        mpi.start_ranks(n, _same_command(), ["-bind-to", "core"] if bind_to_core else [])


def _same_command() -> list[str]:
    """Return the arguments of Python that started this script or module."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None:
        return ["-m", spec.name.removesuffix(".__main__"), *sys.argv[1:]]
    return [os.path.abspath(sys.argv[0]), *sys.argv[1:]]


def proc_id() -> int:
    """Return this process's rank."""
    return mpi.world().rank


def num_procs() -> int:
    """Return the number of ranks."""
    return mpi.world().size


def msg(m: Any, string: str = "") -> None:
    """Print a message with the rank's number.

    Args:
        m: the message.
        string: text before the message.
    """
    print(f"Message from {proc_id()}: {string} \t {m}")


def broadcast(x: np.ndarray, root: int = 0) -> None:
    """Set an array, in place, to rank root's values."""
    x[...] = mpi.world().broadcast(x, root)


def mpi_sum(x: Any) -> Any:
    """Return the element-wise sum over ranks."""
    return _plain(x, mpi.world().sum(np.asarray(x, np.float32)))


def mpi_avg(x: Any) -> Any:
    """Return the element-wise mean over ranks."""
    return mpi_sum(x) / num_procs()


def mpi_op(x: Any, op: str) -> Any:
    """Return the element-wise 'sum' or 'max' over ranks."""
    if op not in OPERATIONS:
        raise UsageError(f"op={op!r} is not valid: 'sum' or 'max'")
    return mpi_sum(x) if op == "sum" else _plain(x, mpi.world().max(np.asarray(x, np.float32)))


def allreduce(x: np.ndarray, total: np.ndarray) -> None:
    """Write the element-wise sum over ranks of x into total."""
    total[...] = mpi.world().sum(x)


def mpi_statistics_scalar(x: Any, with_min_and_max: bool = False) -> tuple[float, ...]:
    """Return the mean and standard deviation of numbers over all ranks.

    Args:
        x: [B] numbers of this rank; B may differ between ranks.
        with_min_and_max: also return the minimum and the maximum.
    """
    x = np.asarray(x, np.float64).ravel()
    comm = mpi.world()
    total, count = comm.sum(np.array([x.sum(), x.size], np.float64))
    mean = total / count
    std = np.sqrt(comm.sum(np.square(x - mean).sum()).item() / count)
    if not with_min_and_max:
        return float(mean), float(std)
    low, high = -comm.max(np.array([-x.min(initial=np.inf), x.max(initial=-np.inf)])) * (1, -1)
    return float(mean), float(std), float(low), float(high)


def _plain(x: Any, result: np.ndarray) -> Any:
    """Return a number for a number."""
    return result.item() if np.ndim(x) == 0 else result
