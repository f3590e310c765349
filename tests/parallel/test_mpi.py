import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import TWO_RANKS, environment, run_on_ranks

from tfbaselines.parallel import mpi
from tfbaselines.parallel.mpi import Communicator

VARIABLES = (*mpi.SIZE_VARIABLES, *mpi.LOCAL_SIZE_VARIABLES)

# Every rank writes down what each operation gives; rank r's numbers are multiples of r + 1.
OPERATIONS = """
import json
from pathlib import Path
import numpy as np
from tfbaselines.parallel import mpi
comm = mpi.world()
own = np.arange(1, 4, dtype=np.float32) * (comm.rank + 1)
def differing():
    try:
        mpi.sync_check(own, comm)
    except RuntimeError as error:
        return str(error)
mpi.sync_check(np.zeros(3), comm)
comm.barrier()
results = {
    "size": comm.size,
    "launched": mpi.launched(),
    "wrapped": mpi.wrap(None) is comm and mpi.wrap(comm._comm).size == comm.size,
    "average": comm.average(own).tolist(),
    "average type": str(comm.average(own).dtype),
    "weighted": comm.average(own, weight=1.0 if comm.rank else 3.0).tolist(),
    "left out": comm.average(own, weight=float(comm.rank)).tolist(),
    "sum": comm.sum(own[::-1]).tolist(),
    "sum of integers": comm.sum([2, comm.rank]).tolist(),
    "max": comm.max(np.array([comm.rank, -comm.rank])).tolist(),
    "broadcast": comm.broadcast(own, root=1).tolist(),
    "broadcast from 0": comm.broadcast(own).tolist(),
    "broadcast_object": comm.broadcast_object({"rank": comm.rank}, root=1),
    "gather": comm.gather({"rank": comm.rank}),
    "unchanged": own.tolist() == [k * (comm.rank + 1) for k in (1, 2, 3)],
    "differing": differing(),
}
Path(f"{comm.rank}.json").write_text(json.dumps(results))
"""
EXPECTED = {
    "size": 2,
    "launched": True,
    "wrapped": True,
    "average": [1.5, 3.0, 4.5],
    "average type": "float32",
    "weighted": [1.25, 2.5, 3.75],
    "left out": [2.0, 4.0, 6.0],
    "sum": [9.0, 6.0, 3.0],
    "sum of integers": [4, 1],
    "max": [1, 0],
    "broadcast": [2.0, 4.0, 6.0],
    "broadcast from 0": [1.0, 2.0, 3.0],
    "broadcast_object": {"rank": 1},
    "gather": [{"rank": 0}, {"rank": 1}],
    "unchanged": True,
    "differing": "parameters differ from rank 0's on ranks 1",
}

FAILING = """
from tfbaselines.parallel import mpi
comm = mpi.world()
if comm.rank == 1:
    raise KeyError("lost")
comm.barrier()
print("waited in vain")
"""


def mpirun(path: Path, text: str):
    """Run a script's text on two ranks: (exit status, standard output, standard error)."""
    (path / "script.py").write_text(text)
    return run_on_ranks("script", cwd=path, timeout=60)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What every operation gave each of two ranks."""
    path = tmp_path_factory.mktemp("mpi")
    status, _, err = mpirun(path, OPERATIONS)
    assert status == 0, err
    return [json.loads((path / f"{rank}.json").read_text()) for rank in (0, 1)]


@pytest.mark.parametrize("operation", EXPECTED)
def test_two_ranks(results, operation):
    assert [own[operation] for own in results] == [EXPECTED[operation]] * 2


def test_an_exception_on_one_rank_ends_the_whole_job_at_once(tmp_path):
    status, out, err = mpirun(tmp_path, FAILING)
    assert status != 0
    assert "KeyError: 'lost'" in err and "rank 1 failed: ending the job" in err
    assert "waited in vain" not in out


KILLED = """
import os, re, signal
from pathlib import Path
from tfbaselines.parallel import mpi
comm = mpi.world()
segments = re.findall(r"/dev/shm/mpich_shm_\\w+", Path("/proc/self/maps").read_text())
Path(f"{comm.rank}.txt").write_text("\\n".join([str(os.getpid()), mpi.describe_ranks(comm), *segments]))
comm.barrier()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_ranks_that_are_killed_leave_no_shared_memory_and_were_named(tmp_path):
    assert mpirun(tmp_path, KILLED)[0] != 0
    written = [(tmp_path / f"{rank}.txt").read_text().splitlines() for rank in (0, 1)]
    for number, line, *segments in written:
        assert line.startswith("processes of the ranks: 0 is ") and re.search(rf"\b{number} on ", line)
        assert segments and not any(map(os.path.exists, segments))


LEAVING = """
import atexit, time
from pathlib import Path
from tfbaselines.cli import leave
from tfbaselines.parallel import mpi
def write(rank=mpi.world().rank):
    time.sleep(0.3 * rank)
    Path(f"written-{rank}").touch()
atexit.register(write)
leave(0, mpi.finalize)
"""


def test_no_rank_is_killed_before_its_exit_functions_have_run(tmp_path):
    """Of mpirun's own processes, as a user starts them."""
    command = [*TWO_RANKS, sys.executable, "-c", LEAVING]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["written-0", "written-1"]


@pytest.fixture
def alone(monkeypatch):
    """No launcher's variables, and no mpi4py."""
    for name in (*VARIABLES, *mpi.RANK_VARIABLES, mpi.SLURM_TASKS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    mpi.world.cache_clear()
    yield monkeypatch
    mpi.world.cache_clear()


def test_a_process_alone_has_a_null_communicator(alone):
    comm = mpi.world()
    assert type(comm) is Communicator and comm is mpi.world() is mpi.wrap(None)
    assert (comm.rank, comm.size) == (0, 1)


def test_the_null_communicator_gives_back_what_it_gets():
    comm, array, thing = Communicator(), np.array([3.0, -1.0], np.float32), object()
    for result in (comm.average(array, weight=5.0), comm.sum(array), comm.max(array), comm.broadcast(array)):
        np.testing.assert_array_equal(result, array)
    assert comm.sum([1, 2]).tolist() == comm.max([1, 2]).tolist() == [1, 2]
    assert comm.broadcast_object(thing) is thing and comm.gather(thing) == [thing]
    comm.barrier()
    mpi.sync_check(array, comm)


def test_the_null_communicator_aborts_by_leaving():
    with pytest.raises(SystemExit) as error:
        Communicator().abort(3)
    assert error.value.code == 3


@pytest.mark.parametrize("name", mpi.SIZE_VARIABLES)
@pytest.mark.parametrize(("size", "expected"), [("", False), ("1", False), ("2", True), ("16", True)])
def test_launchers_tell_how_many_processes_they_start(alone, name, size, expected):
    assert not mpi.launched()
    alone.setenv(name, size)
    assert mpi.launched() == expected


def test_a_missing_mpi4py_is_one_line(alone):
    alone.setenv("PMI_SIZE", "2")
    with pytest.raises(ValueError, match=r"started by mpirun, but mpi4py does not load .*: pip install") as error:
        mpi.world()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "name",
    [*VARIABLES, "PMI_RANK", "PMI_FD", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "HYDI_CONTROL_FD", "MPI_LOCALRANKID"],
)
def test_children_do_not_see_the_launcher(name):
    environment = {name: "1", "PATH": "/bin", "PMIDDLE": "kept", "MY_PMI_SIZE": "kept"}
    kept = {key: value for key, value in environment.items() if key != name}
    assert mpi.without_launcher(environment) == kept and name in environment


@pytest.mark.parametrize(("local", "expected"), [(None, 6), ("1", 6), ("2", 3), ("4", 1), ("12", 1)])
def test_ranks_share_the_cores_of_their_machine(alone, local, expected):
    alone.setattr(os, "sched_getaffinity", lambda pid: set(range(6)), raising=False)
    if local:
        alone.setenv("OMPI_COMM_WORLD_LOCAL_SIZE", local)
    assert mpi.threads_for_rank() == expected


def test_tasks_of_slurm_are_ranks_where_pmix_numbers_them(alone):
    alone.setenv("SLURM_STEP_NUM_TASKS", "4")
    assert not mpi.launched()
    alone.setenv("PMIX_RANK", "2")
    assert mpi.launched() and mpi.launched_rank() == 2
    # One rank that mpirun started among the tasks is alone: where a launcher counts, Slurm is not asked.
    alone.setenv("PMI_SIZE", "1")
    assert not mpi.launched()
    alone.delenv("PMI_SIZE")
    alone.setenv("SLURM_STEP_NUM_TASKS", "1")
    assert not mpi.launched()


class Ranks(Communicator):
    """Rank 0 of several, given the hosts and the cores of the others."""

    def __init__(self, others):
        self.others = others

    def gather(self, obj):
        return [obj, *self.others]


@pytest.mark.parametrize(
    ("bound", "others", "expected"),
    [
        # No launcher says here how many ranks a machine has: Slurm's does not.
        (range(8), [("here", range(8))] * 3, 2),
        (range(8), [("here", range(8)), ("there", range(8)), ("there", range(8))], 4),
        # Each rank bound to cores of its own, and each two to a socket of theirs.
        (range(4), [("here", range(4, 8))], 4),
        (range(8), [("here", range(8)), ("here", range(8, 16)), ("here", range(8, 16))], 4),
        (range(1), [("here", range(1, 8))], 1),
    ],
)
def test_a_rank_takes_the_cores_that_it_is_bound_to(alone, bound, others, expected):
    alone.setattr(os, "sched_getaffinity", lambda pid: set(bound), raising=False)
    alone.setattr(mpi.socket, "gethostname", lambda: "here")
    ranks = Ranks([(host, set(cores)) for host, cores in others])
    assert mpi.threads_for_rank(ranks) == expected


def test_a_job_without_mpi4py_has_nothing_to_abort(alone):
    mpi.abort_job(2)
    alone.setenv("PMI_SIZE", "2")
    mpi.abort_job(2)


def test_a_process_alone_keeps_its_own_way_of_failing(alone):
    before = sys.excepthook
    mpi.abort_on_exception()
    assert sys.excepthook is before


def test_equal_numbers_of_another_sign_differ():
    """Bit-equal is asked for: 0 and -0 would part later."""

    digests = []

    class Gathering(Communicator):
        def gather(self, obj):
            digests.append(obj)
            return digests

    mpi.sync_check(np.array([0.0, 1.0]), Gathering())
    mpi.sync_check(np.array([[1.0, 0.0]])[:, ::-1], Gathering())
    for differing in ("2", "2, 3"):
        with pytest.raises(RuntimeError, match=f"on ranks {differing}$"):
            mpi.sync_check(np.array([-0.0, 1.0]), Gathering())
