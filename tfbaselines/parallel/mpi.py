"""Communication between MPI ranks, and the cores and threads of a process; the only module that imports mpi4py.

mpi4py is imported only in a process that mpirun started: its import hangs or fails beside spawned environment workers
and without an installed MPI. Other processes use a null communicator of one rank, so that no caller distinguishes them.
"""

import contextlib
import functools
import hashlib
import importlib.util
import os
import re
import shutil
import socket
import sys
import time
import traceback
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from tfbaselines.errors import UsageError

# Environment variables of the launchers of MPICH, Open MPI and related programs.
RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK")
SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PMIX_SIZE", "MV2_COMM_WORLD_SIZE")
# Number of tasks that Slurm's srun started, ranks or not.
SLURM_TASKS = "SLURM_STEP_NUM_TASKS"
LOCAL_SIZE_VARIABLES = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE")
LAUNCHER_PREFIXES = ("PMI_", "PMIX_", "OMPI_", "MPI_LOCAL", "HYDI_", "HYDRA_", "MV2_")

# Time for the launcher to pass on the output of a rank that aborts.
SECONDS_TO_PASS_ON = 0.5


class Communicator:
    """A single rank; the interface of every communicator."""

    rank = 0
    size = 1

    def average(self, flat: np.ndarray, weight: float = 1.0) -> np.ndarray:
        """Return the mean over ranks of a float32 vector, weighted by each rank's `weight`: one Allreduce."""
        return flat

    def sum(self, array: Any) -> np.ndarray:
        """Return the element-wise sum over ranks."""
        return np.asarray(array)

    def max(self, array: Any) -> np.ndarray:
        """Return the element-wise maximum over ranks."""
        return np.asarray(array)

    def broadcast(self, array: np.ndarray, root: int = 0) -> np.ndarray:
        """Return rank `root`'s array; it has the same shape and type on every rank."""
        return array

    def broadcast_object(self, obj: Any, root: int = 0) -> Any:
        """Return rank `root`'s object."""
        return obj

    def gather(self, obj: Any) -> list[Any]:
        """Return all ranks' objects in the order of ranks, on every rank."""
        return [obj]

    def barrier(self) -> None:
        """Wait for every rank."""

    def abort(self, code: int = 1) -> None:
        """End the whole job."""
        sys.exit(code)


class MpiCommunicator(Communicator):
    """Several ranks through a communicator of mpi4py."""

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        self.rank = comm.Get_rank()
        self.size = comm.Get_size()

    def average(self, flat: np.ndarray, weight: float = 1.0) -> np.ndarray:
        # The weight is the last element of the buffer, so there is one message.
        buffer = np.empty(flat.size + 1, np.float32)
        np.multiply(flat, weight, out=buffer[:-1])
        buffer[-1] = weight
        total = np.empty_like(buffer)
        self._comm.Allreduce(buffer, total)
        return total[:-1] / total[-1]

    def sum(self, array: Any) -> np.ndarray:
        return self._reduced(array)

    def max(self, array: Any) -> np.ndarray:
        from mpi4py import MPI

        return self._reduced(array, op=MPI.MAX)

    def _reduced(self, array: Any, **operation: Any) -> np.ndarray:
        array = np.ascontiguousarray(array)
        result = np.empty_like(array)
        self._comm.Allreduce(array, result, **operation)
        return result

    def broadcast(self, array: np.ndarray, root: int = 0) -> np.ndarray:
        array = np.array(array, order="C")
        self._comm.Bcast(array, root=root)
        return array

    def broadcast_object(self, obj: Any, root: int = 0) -> Any:
        return self._comm.bcast(obj, root=root)

    def gather(self, obj: Any) -> list[Any]:
        return self._comm.allgather(obj)

    def barrier(self) -> None:
        self._comm.Barrier()

    def abort(self, code: int = 1) -> None:
        for stream in (sys.stdout, sys.stderr):
            # The reader of the output may have ended.
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        # After an abort the launcher does not wait for the output of ranks.
        time.sleep(SECONDS_TO_PASS_ON)
        self._comm.Abort(code)


def launched() -> bool:
    """Return whether mpirun or a related program started this process as one of several."""
    sizes = [os.environ[name] for name in SIZE_VARIABLES if os.environ.get(name)]
    if not sizes and any(os.environ.get(name) for name in RANK_VARIABLES):
        # PMIx only numbers the ranks. Slurm tasks without a number are separate runs.
        sizes = [os.environ.get(SLURM_TASKS) or 1]
    return any(int(size) > 1 for size in sizes)


def launched_rank() -> int:
    """Return this process's rank from the launcher's variables, without MPI; 0 outside of a job."""
    return next((int(os.environ[name]) for name in RANK_VARIABLES if os.environ.get(name, "").isdigit()), 0)


@functools.lru_cache(maxsize=1)
def world() -> Communicator:
    """Return the communicator of all ranks; a null communicator without mpirun."""
    if not launched():
        return Communicator()
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise UsageError(f"started by mpirun, but mpi4py does not load ({error}): pip install mpi4py mpich") from error
    comm = MpiCommunicator(MPI.COMM_WORLD)
    if comm.size > 1:
        # Scripts do not run the command, which does this too.
        abort_on_exception()
        comm.barrier()
        _unlink_shared_memory()
    return comm


def _unlink_shared_memory() -> None:
    """Remove the name of MPICH's shared memory, which every rank has mapped: a killed job leaves nothing behind."""
    with contextlib.suppress(OSError):
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
        for path in set(re.findall(r"/dev/shm/mpich_shm_\w+$", maps, re.MULTILINE)):
            # Other ranks on this machine remove the same name.
            Path(path).unlink(missing_ok=True)


def describe_ranks(comm: Communicator) -> str:
    """Return a line with the process and the machine of each rank; every rank must call this."""
    places = comm.gather((os.getpid(), socket.gethostname()))
    shown = ", ".join(f"{rank} is {pid} on {host}" for rank, (pid, host) in enumerate(places))
    return f"processes of the ranks: {shown}"


def wrap(comm: Any) -> Communicator:
    """Return a Communicator for None (the whole job), a Communicator, or a communicator of mpi4py."""
    if comm is None:
        return world()
    return comm if isinstance(comm, Communicator) else MpiCommunicator(comm)


def values(variable: Any) -> np.ndarray:
    """Return the numbers of a Keras variable or an array."""
    return variable if isinstance(variable, np.ndarray) else variable.numpy()


def share(variables: Iterable[Any], comm: Communicator) -> None:
    """Set variables, and arrays in place, to rank 0's values."""
    if comm.size == 1:
        return
    for variable in variables:
        received = comm.broadcast(values(variable))
        if isinstance(variable, np.ndarray):
            variable[...] = received
        else:
            variable.assign(received)


def sync_check(parameters: np.ndarray, comm: Communicator) -> None:
    """Raise a RuntimeError with the ranks that differ unless all ranks have bit-equal parameters."""
    digests = comm.gather(hashlib.sha256(np.ascontiguousarray(parameters).tobytes()).hexdigest())
    differing = [rank for rank, digest in enumerate(digests) if digest != digests[0]]
    if differing:
        raise RuntimeError(f"parameters differ from rank 0's on ranks {', '.join(map(str, differing))}")


def threads_for_rank(comm: Communicator | None = None) -> int:
    """Return the number of threads for this process: its share of the machine's cores, or those it is bound to.

    Every rank of `comm` must call this.
    """
    host = socket.gethostname()
    usable = usable_cores()
    here = [cores for name, cores in wrap(comm).gather((host, usable)) if name == host]
    share = len(set().union(*here)) // max(len(here), _ranks_here())
    return max(1, min(len(usable), share))


def own_cores() -> int:
    """Return the number of cores for this process as far as it can be known without the other ranks."""
    return min(len(usable_cores()), max(1, (os.cpu_count() or 1) // _ranks_here()))


def _ranks_here() -> int:
    """Return the launcher's number of ranks on this machine, also of those outside of a communicator; 1 without one."""
    return next((int(os.environ[name]) for name in LOCAL_SIZE_VARIABLES if os.environ.get(name)), 1)


def mpirun_command(ranks: int) -> list[str]:
    """Return the start of a command line for several ranks; UsageError without mpirun."""
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
    mpirun = shutil.which("mpirun", path=path)
    if mpirun is None:
        raise UsageError("there is no mpirun to start ranks with: pip install mpich mpi4py")
    if importlib.util.find_spec("mpi4py") is None:
        raise UsageError("ranks need mpi4py: pip install mpi4py mpich")
    return [mpirun, "-np", str(ranks)]


def start_ranks(ranks: int, words: list[str], options: Iterable[str] = ()) -> int:
    """Replace this process by mpirun, with `options`, of Python with the arguments `words`."""
    command = [*mpirun_command(ranks), *options, sys.executable, *words]
    os.execv(command[0], command)


def abort_job(status: int) -> None:
    """End the whole job with an exit status if this process is one of several ranks."""
    if launched():
        # Without mpi4py there is no job.
        with contextlib.suppress(ValueError):
            world().abort(status)


def abort_on_exception() -> None:
    """Let an uncaught exception on this rank end the whole job, so that no other rank waits for it."""
    if not launched():
        return

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        traceback.print_exception(kind, error, trace)
        print(f"rank {world().rank} failed: ending the job", file=sys.stderr)
        world().abort(1)

    sys.excepthook = hook


def finalize() -> None:
    """Finalize MPI if this process uses it."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
        mpi.Finalize()


def without_launcher(environment: dict[str, str]) -> dict[str, str]:
    """Return environment variables without the launcher's, for child processes that must not join the job."""
    return {name: value for name, value in environment.items() if not name.startswith(LAUNCHER_PREFIXES)}


class Together:
    """Save and restore several parts as one, such as the environments of training and of tests."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self._parts = list(parts)

    def state(self) -> dict[str, Any]:
        return {str(number): part.state() for number, part in enumerate(self._parts)}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the result of `state`, or the state of the first part; parts without state stay the same."""
        if "0" not in state:
            state = {"0": state}
        for number, part in enumerate(self._parts):
            if str(number) in state:
                part.restore(state[str(number)])

    @property
    def restored(self) -> bool:
        """True if every part continues its episodes."""
        return all(part.restored for part in self._parts)

    def merge_statistics(self, comm: Any) -> None:
        for part in self._parts:
            part.merge_statistics(comm)


def one_blas_thread() -> AbstractContextManager:
    """Return a context in which numpy computes matrix products in one thread.

    OpenBLAS uses several threads for larger products. They spin afterwards, which takes cores from TensorFlow, and on a
    busy machine they wait for each other some hundred times as long as the product takes.
    """
    return _libraries().limit(limits=1, user_api="blas")


# Once, since finding the libraries takes 3 to 10 ms beside TensorFlow.
_libraries = functools.cache(ThreadpoolController)


def usable_cores() -> set[int]:
    """Return the numbers of the cores that the launcher, batch system or container leaves to this process."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
