"""Functions of Spinning Up's mpi_tools."""

import os
import sys
from typing import Any

import numpy as np

from tfbaselines.errors import UsageError
from tfbaselines.parallel.mpi import launched, start_ranks, world


def mpi_fork(n: int, bind_to_core: bool = False) -> None:
    """Continue as n ranks: a process without mpirun becomes mpirun with n ranks of the same script."""
    if n > 1 and not launched():
        sys.stdout.flush()
        spec = getattr(sys.modules["__main__"], "__spec__", None)
        start = [os.path.abspath(sys.argv[0])] if spec is None else ["-m", spec.name.removesuffix(".__main__")]
        start_ranks(n, [*start, *sys.argv[1:]], ["-bind-to", "core"] if bind_to_core else [])


def proc_id() -> int:
    """Return this process's rank."""
    return world().rank


def num_procs() -> int:
    """Return the number of ranks."""
    return world().size


def msg(m: Any, string: str = "") -> None:
    """Print a message after the rank's number and `string`."""
    print(f"Message from {proc_id()}: {string} \t {m}")


def broadcast(x: np.ndarray, root: int = 0) -> None:
    """Set an array, in place, to rank root's values."""
    x[...] = world().broadcast(x, root)


def mpi_sum(x: Any) -> Any:
    """Return the element-wise sum over ranks."""
    return mpi_op(x, "sum")


def mpi_avg(x: Any) -> Any:
    """Return the element-wise mean over ranks."""
    return mpi_sum(x) / num_procs()


def mpi_op(x: Any, op: str) -> Any:
    """Return the element-wise 'sum' or 'max' over ranks."""
    reduce = {"sum": world().sum, "max": world().max}.get(op)
    if reduce is None:
        raise UsageError(f"op={op!r} is not valid: 'sum' or 'max'")
    result = reduce(np.asarray(x, np.float32))
    return result.item() if np.ndim(x) == 0 else result


def allreduce(x: np.ndarray, total: np.ndarray) -> None:
    """Write the element-wise sum over ranks of x into total."""
    total[...] = world().sum(x)


def mpi_statistics_scalar(x: Any, with_min_and_max: bool = False) -> tuple[float, ...]:
    """Return the mean and standard deviation of numbers over all ranks.

    Args:
        x: [B] numbers of this rank; B may differ between ranks.
        with_min_and_max: also return the minimum and the maximum.
    """
    x = np.asarray(x, np.float64).ravel()
    comm = world()
    total, count = comm.sum(np.array([x.sum(), x.size], np.float64))
    mean = total / count
    std = np.sqrt(comm.sum(np.square(x - mean).sum()).item() / count)
    if not with_min_and_max:
        return float(mean), float(std)
    low, high = -comm.max(np.array([-x.min(initial=np.inf), x.max(initial=-np.inf)])) * (1, -1)
    return float(mean), float(std), float(low), float(high)
