"""The only file that touches mpi4py.

mpi4py is imported only in a process that mpirun started (or when asked for): importing it beside environment workers
that were spawned, or where no MPI is installed, hangs or fails. Alone, a null communicator of one rank stands in, so
that no caller asks whether there is MPI.
"""

import contextlib
import functools
import hashlib
import importlib.util
import os
import shutil
import socket
import sys
import time
import traceback
from collections.abc import Iterable
from types import TracebackType
from typing import Any

import numpy as np

from tfbaselines.errors import UsageError
from tfbaselines.parallel.threads import usable_cores

# What the launchers of MPICH, Open MPI and their kin tell the processes they start.
RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK")
SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PMIX_SIZE", "MV2_COMM_WORLD_SIZE")
# How many tasks Slurm's srun started, ranks or not.
SLURM_TASKS = "SLURM_STEP_NUM_TASKS"
LOCAL_SIZE_VARIABLES = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE")
LAUNCHER_PREFIXES = ("PMI_", "PMIX_", "OMPI_", "MPI_LOCAL", "HYDI_", "HYDRA_", "MV2_")

# How long an aborting rank waits for its last words to be passed on.
SECONDS_TO_PASS_ON = 0.5


class Communicator:
    """One rank alone; the interface of every communicator.

    Attributes:
        rank: this process's number.
        size: how many processes there are.
    """

    rank = 0
    size = 1

    def average(self, flat: np.ndarray, weight: float = 1.0) -> np.ndarray:
        """The mean over ranks of a float32 vector, each rank's weighted by its `weight`: one Allreduce."""
        return flat

    def sum(self, array: Any) -> np.ndarray:
        """The element-wise sum over ranks."""
        return np.asarray(array)

    def max(self, array: Any) -> np.ndarray:
        """The element-wise maximum over ranks."""
        return np.asarray(array)

    def broadcast(self, array: np.ndarray, root: int = 0) -> np.ndarray:
        """Rank `root`'s array, which has the same shape and type on every rank."""
        return array

    def broadcast_object(self, obj: Any, root: int = 0) -> Any:
        """Rank `root`'s object."""
        return obj

    def gather(self, obj: Any) -> list[Any]:
        """Every rank's object in the order of ranks, on every rank."""
        return [obj]

    def barrier(self) -> None:
        """Wait until every rank is here."""

    def abort(self, code: int = 1) -> None:
        """End the whole job."""
        sys.exit(code)


class MpiCommunicator(Communicator):
    """Several ranks through mpi4py.

    Args:
        comm: the mpi4py communicator.
    """

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        self.rank, self.size = comm.Get_rank(), comm.Get_size()

    def average(self, flat: np.ndarray, weight: float = 1.0) -> np.ndarray:
        """See Communicator. The weight travels as the buffer's last element, so there is one message."""
        buffer = np.empty(flat.size + 1, np.float32)
        np.multiply(flat, weight, out=buffer[:-1])
        buffer[-1] = weight
        total = np.empty_like(buffer)
        self._comm.Allreduce(buffer, total)
        return total[:-1] / total[-1]

    def sum(self, array: Any) -> np.ndarray:
        """See Communicator."""
        array = np.ascontiguousarray(array)
        total = np.empty_like(array)
        self._comm.Allreduce(array, total)
        return total

    def max(self, array: Any) -> np.ndarray:
        """See Communicator."""
        from mpi4py import MPI

        array = np.ascontiguousarray(array)
        largest = np.empty_like(array)
        self._comm.Allreduce(array, largest, op=MPI.MAX)
        return largest

    def broadcast(self, array: np.ndarray, root: int = 0) -> np.ndarray:
        """See Communicator."""
        array = np.array(array, order="C")
        self._comm.Bcast(array, root=root)
        return array

    def broadcast_object(self, obj: Any, root: int = 0) -> Any:
        """See Communicator."""
        return self._comm.bcast(obj, root=root)

    def gather(self, obj: Any) -> list[Any]:
        """See Communicator."""
        return self._comm.allgather(obj)

    def barrier(self) -> None:
        """See Communicator."""
        self._comm.Barrier()

    def abort(self, code: int = 1) -> None:
        """See Communicator."""
        for stream in (sys.stdout, sys.stderr):
            # Whoever read the output may have left.
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        # The launcher passes on what a rank wrote, but after an abort no longer waits for it.
        time.sleep(SECONDS_TO_PASS_ON)
        self._comm.Abort(code)


def launched() -> bool:
    """Whether mpirun (or a kin of it) started this process as one of several."""
    sizes = [os.environ[name] for name in SIZE_VARIABLES if os.environ.get(name)]
    if not sizes and any(os.environ.get(name) for name in RANK_VARIABLES):
        # PMIx gives ranks a number alone. Without one, Slurm's tasks are runs of their own.
        sizes = [os.environ.get(SLURM_TASKS) or 1]
    return any(int(size) > 1 for size in sizes)


def launched_rank() -> int:
    """This process's rank as its launcher told it, 0 outside MPI; MPI itself is not asked, nor started."""
    return next((int(os.environ[name]) for name in RANK_VARIABLES if os.environ.get(name, "").isdigit()), 0)


@functools.lru_cache(maxsize=1)
def world() -> Communicator:
    """All ranks of this job; a null communicator when mpirun did not start it."""
    if not launched():
        return Communicator()
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise UsageError(f"started by mpirun, but mpi4py does not load ({error}): pip install mpi4py mpich") from error
    comm = MpiCommunicator(MPI.COMM_WORLD)
    if comm.size > 1:
        # Also of a script that does not come through the command.
        abort_on_exception()
    return comm


def wrap(comm: Any) -> Communicator:
    """A Communicator from None (the whole job), a Communicator, or one of mpi4py's."""
    if comm is None:
        return world()
    return comm if isinstance(comm, Communicator) else MpiCommunicator(comm)


def values(variable: Any) -> np.ndarray:
    """The numbers of a Keras variable, or the array itself."""
    return variable if isinstance(variable, np.ndarray) else variable.numpy()


def share(variables: Iterable[Any], comm: Communicator) -> None:
    """Give variables, and arrays in place, rank 0's values."""
    if comm.size == 1:
        return
    for variable in variables:
        received = comm.broadcast(values(variable))
        if isinstance(variable, np.ndarray):
            variable[...] = received
        else:
            variable.assign(received)


def sync_check(parameters: np.ndarray, comm: Communicator) -> None:
    """Raise RuntimeError, naming the ranks, unless every rank holds bit-equal parameters."""
    digests = comm.gather(hashlib.sha256(np.ascontiguousarray(parameters).tobytes()).hexdigest())
    differing = [rank for rank, digest in enumerate(digests) if digest != digests[0]]
    if differing:
        raise RuntimeError(f"parameters differ from rank 0's on ranks {', '.join(map(str, differing))}")


def threads_for_rank(comm: Communicator | None = None) -> int:
    """How many threads this process may use: the cores of its machine, shared by the ranks on it.

    A rank whose launcher bound it to some cores takes no others. Every rank of `comm` calls it.

    Args:
        comm: the ranks that ask; None for the whole job.
    """
    host, own = socket.gethostname(), usable_cores()
    here = [cores for name, cores in wrap(comm).gather((host, own)) if name == host]
    # Not every launcher says so; those that do count the ranks of other communicators too.
    told = next((int(os.environ[name]) for name in LOCAL_SIZE_VARIABLES if os.environ.get(name)), 1)
    share = len(set().union(*here)) // max(len(here), told)
    return max(1, min(len(own), share))


def mpirun_command(ranks: int) -> list[str]:
    """The words that start some number of ranks of what follows them; ValueError when there is no mpirun."""
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
    mpirun = shutil.which("mpirun", path=path)
    if mpirun is None:
        raise UsageError("there is no mpirun to start ranks with: pip install mpich mpi4py")
    if importlib.util.find_spec("mpi4py") is None:
        raise UsageError("ranks need mpi4py: pip install mpi4py mpich")
    return [mpirun, "-np", str(ranks)]


def start_ranks(ranks: int, words: list[str], options: Iterable[str] = ()) -> int:
    """Become mpirun with some number of Python processes; never returns. ValueError when there is no mpirun.

    Args:
        ranks: how many.
        words: those after 'python' on the command line of each.
        options: further ones of mpirun.
    """
    command = [*mpirun_command(ranks), *options, sys.executable, *words]
    os.execv(command[0], command)


def abort_job(status: int) -> None:
    """End the whole job, where this process is one of several ranks, with this exit status."""
    if launched():
        # Without mpi4py there is nothing to end.
        with contextlib.suppress(ValueError):
            world().abort(status)


def abort_on_exception() -> None:
    """From now on an uncaught exception on this rank ends the whole job, so that no other rank waits for it."""
    if not launched():
        return

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        traceback.print_exception(kind, error, trace)
        print(f"rank {world().rank} failed: ending the job", file=sys.stderr)
        world().abort(1)

    sys.excepthook = hook


def finalize() -> None:
    """Take leave of the other ranks, where this process has any."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
        mpi.Finalize()


def without_launcher(environment: dict[str, str]) -> dict[str, str]:
    """A copy of an environment without the launcher's variables, for child processes that must not join the job."""
    return {name: value for name, value in environment.items() if not name.startswith(LAUNCHER_PREFIXES)}
