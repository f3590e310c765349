"""Spinning Up's functions of ranks: alone, and as two ranks that a script makes of itself."""

import ast
import sys

import commands
import numpy as np
import pytest

from tfbaselines.compat import mpi_tools

SCRIPT = """
import sys
import numpy as np
from tfbaselines.utils.mpi_tools import *
mpi_fork(2)
assert num_procs() == 2 and sys.argv[1] == "word"
mine = np.arange(3.0) + 10 * proc_id()
x = np.full(2, 5.0 + proc_id())
broadcast(x)
total = np.zeros(3)
allreduce(mine, total)
numbers = mpi_statistics_scalar(mine[: 2 + proc_id()], with_min_and_max=True)
arrays = [array.tolist() for array in (mpi_sum(mine), total, mpi_op(mine, "max"), x)]
line = [mpi_avg(proc_id() + 1), *arrays, numbers]
if proc_id() == 0:
    print("found", line)
"""


def test_alone():
    mpi_tools.mpi_fork(1)
    assert (mpi_tools.proc_id(), mpi_tools.num_procs()) == (0, 1)
    assert mpi_tools.mpi_avg(3.0) == 3.0 and mpi_tools.mpi_sum([1, 2]).tolist() == [1, 2]
    x = np.array([1.0, 2.0, 6.0])
    assert mpi_tools.mpi_statistics_scalar(x) == pytest.approx((x.mean(), x.std()))
    assert mpi_tools.mpi_statistics_scalar(x, True)[2:] == (1.0, 6.0)
    with pytest.raises(ValueError, match="'sum' or 'max'"):
        mpi_tools.mpi_op(x, "min")


def test_a_script_becomes_two_ranks(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    status, out, err = commands.finish(commands.start_shell(f"{sys.executable} script.py word", tmp_path))
    assert status == 0, err
    (line,) = (line for line in out.splitlines() if line.startswith("found"))
    both = np.array([0.0, 1.0, 10.0, 11.0, 12.0])
    average, total, reduced, largest, x, numbers = ast.literal_eval(line.removeprefix("found "))
    assert average == 1.5 and total == reduced == [10.0, 12.0, 14.0]
    assert x == [5.0, 5.0] and largest == [10.0, 11.0, 12.0]
    assert numbers == pytest.approx((both.mean(), both.std(), 0.0, 12.0))
