"""Running means and variances after each of several batches against the original's numbers."""

import re

import pytest
from cases import cases, load
from weights import assert_close

from tfbaselines.parallel import mpi
from tfbaselines.parallel.moments import MpiRunningMeanStd, RunningMeanStd


def batches(arrays):
    names = sorted((key for key in arrays if re.fullmatch(r"x\d+", key)), key=lambda key: int(key[1:]))
    assert names
    return [arrays[name] for name in names]


def close(actual, expected):
    assert_close(actual, expected, tolerance=1e-8)


@pytest.mark.parametrize("case", cases("running_mean_std*"))
def test_merged_moments(case):
    arrays, hyper = load(case)
    statistics = RunningMeanStd(hyper["np_epsilon"], arrays["np_mean"].shape[1:])
    for k, x in enumerate(batches(arrays)):
        statistics.update(x)
        for name in ("mean", "var", "count"):
            close(getattr(statistics, name), arrays[f"np_{name}"][k])
    for name in ("mean", "var", "count"):
        close(getattr(statistics, name), arrays[f"tf_{name}"])


@pytest.mark.parametrize("case", cases("running_mean_std*"))
def test_running_sums(case):
    arrays, hyper = load(case)
    statistics = MpiRunningMeanStd(hyper["mpi_epsilon"], arrays["mpi_mean"].shape[1:], mpi.Communicator())
    for k, x in enumerate(batches(arrays)):
        statistics.update(x)
        close(statistics.mean, arrays["mpi_mean"][k])
        close(statistics.std, arrays["mpi_std"][k])
        for name, value in statistics.state().items():
            close(value, arrays[f"mpi_{name}"][k])
