import numpy as np
import pytest
from commands import run_on_ranks

from tfbaselines.parallel import mpi
from tfbaselines.parallel.moments import MpiRunningMeanStd, RunningMeanStd, mpi_moments

# Rank 1 sees more rows than rank 0. Each writes down what it saw and the statistics that it ended with.
TWO_RANKS = """
import numpy as np
from tfbaselines.parallel import mpi
from tfbaselines.parallel.moments import MpiRunningMeanStd, RunningMeanStd, mpi_moments
comm, merged, summed = mpi.world(), RunningMeanStd(shape=(2,)), MpiRunningMeanStd(shape=(2,))
rng, parts = np.random.default_rng(comm.rank), {}
for k in range(3):
    x = parts[f"seen{k}"] = rng.normal(5 * comm.rank + k, 1 + comm.rank + k, (3 + 2 * comm.rank + k, 2))
    merged.update(x)
    if k != 1:
        merged.merge(comm)
    summed.update(x)
ended = {
    "merged": [merged.mean, merged.var, merged.count],
    "summed": [summed.mean, summed.std, summed.state()["count"]],
    "moments": mpi_moments(x),
    "flat": mpi_moments(x[:, 0]),
}
parts |= {f"{name}{i}": number for name, numbers in ended.items() for i, number in enumerate(numbers)}
np.savez(f"{comm.rank}.npz", **parts)
"""


def close(actual, expected, rtol=1e-6):
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol)


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """The statistics that two ranks ended with, and what they saw."""
    path = tmp_path_factory.mktemp("mpi")
    (path / "script.py").write_text(TWO_RANKS)
    status, _, err = run_on_ranks("script", cwd=path, timeout=60)
    assert status == 0, err
    ended = [dict(np.load(path / f"{rank}.npz")) for rank in (0, 1)]
    return ended, [np.concatenate([arrays[f"seen{k}"] for arrays in ended]) for k in range(3)]


def three(arrays, name):
    return [arrays[f"{name}{i}"] for i in range(3)]


def test_merged_ranks_have_the_moments_of_all_that_they_saw(ranks):
    ended, both = ranks
    together = RunningMeanStd(shape=(2,))
    together.update(np.concatenate(both))
    for arrays in ended:
        close(three(arrays, "merged"), [together.mean, together.var, together.count])


def test_running_sums_hold_every_ranks_batches(ranks):
    ended, both = ranks
    together = MpiRunningMeanStd(shape=(2,), comm=mpi.Communicator())
    together.update(np.concatenate(both))
    for arrays in ended:
        close(three(arrays, "summed"), [together.mean, together.std, together.state()["count"]])


def test_moments_over_ranks_are_those_of_the_joined_arrays(ranks):
    ended, both = ranks
    for arrays in ended:
        close(three(arrays, "moments"), [both[-1].mean(0), both[-1].std(0), len(both[-1])])
        close(three(arrays, "flat"), [both[-1][:, 0].mean(), both[-1][:, 0].std(), len(both[-1])])


def batches(shape, sizes, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(3, 2, (size, *shape)) for size in sizes]


@pytest.mark.parametrize("shape", [(), (3,), (2, 4)])
@pytest.mark.parametrize("sizes", [[50], [1], [1, 1, 1, 2], [7, 1, 20, 3]])
def test_running_moments_are_those_of_everything_seen(shape, sizes):
    statistics, seen = RunningMeanStd(epsilon=1e-9, shape=shape), batches(shape, sizes)
    for x in seen:
        statistics.update(x)
    everything = np.concatenate(seen)
    np.testing.assert_allclose(statistics.mean, everything.mean(0), rtol=1e-6)
    np.testing.assert_allclose(statistics.var, everything.var(0), rtol=1e-6, atol=1e-6)
    assert statistics.count == pytest.approx(len(everything))
    assert np.shape(statistics.mean) == np.shape(statistics.var) == shape


def test_running_moments_begin_at_mean_0_and_variance_1_with_the_weight_epsilon():
    statistics = RunningMeanStd(epsilon=2.0, shape=(1,))
    statistics.update(np.array([[3.0], [5.0]]))
    close([statistics.mean[0], statistics.var[0], statistics.count], [2.0, 5.0, 4.0])


def test_moments_of_large_numbers_keep_their_digits():
    statistics = RunningMeanStd(epsilon=1e-30)
    for x in np.split(1e9 + np.arange(100.0), 10):
        statistics.update(x)
    assert statistics.var == pytest.approx(np.var(np.arange(100.0)), rel=1e-6)


def test_floats_and_bytes_are_summed_as_doubles():
    x = np.full((1000, 1), 255, np.uint8)
    statistics, sums = RunningMeanStd(1e-9, (1,)), MpiRunningMeanStd(1e-9, (1,), mpi.Communicator())
    for running in (statistics, sums):
        running.update(x)
        np.testing.assert_allclose(running.mean, 255.0, rtol=1e-6)
    assert sums.state()["sumsq"] == pytest.approx(1000 * 255.0**2)


@pytest.mark.parametrize(
    "make", [RunningMeanStd, lambda **kwargs: MpiRunningMeanStd(comm=mpi.Communicator(), **kwargs)]
)
def test_restored_statistics_go_on_as_the_saved_ones(make):
    first, again = make(shape=(3,)), make(shape=(3,))
    x, later = batches((3,), [10, 5])
    first.update(x)
    saved = {name: np.copy(part) for name, part in first.state().items()}
    state = first.state()
    first.update(later)
    np.testing.assert_equal(state, saved)
    again.restore(state)
    again.update(later)
    np.testing.assert_equal(again.state(), first.state())


class Doubling(mpi.Communicator):
    """Two ranks that see the same."""

    size = 2

    def sum(self, array):
        return 2 * np.asarray(array)


def test_merging_counts_what_was_shared_before_once():
    statistics, seen = RunningMeanStd(epsilon=1.0, shape=(2,)), batches((2,), [10, 5])
    for x in seen:
        statistics.update(x)
        statistics.merge(Doubling())
    again = RunningMeanStd(epsilon=1.0, shape=(2,))
    again.update(np.concatenate(seen * 2))
    close([statistics.mean, statistics.var, statistics.count], [again.mean, again.var, again.count])


def test_merging_a_restored_checkpoint_counts_it_once():
    statistics = RunningMeanStd(epsilon=1.0)
    statistics.restore({"mean": np.array(2.0), "var": np.array(3.0), "count": 10.0})
    statistics.merge(Doubling())
    close([statistics.mean, statistics.var, statistics.count], [2.0, 3.0, 10.0])


def test_merging_alone_changes_nothing():
    statistics = RunningMeanStd(shape=(2,))
    statistics.update(batches((2,), [10])[0])
    before = dict(statistics.state())
    statistics.merge(mpi.Communicator())
    np.testing.assert_equal(statistics.state(), before)


def test_running_sums_of_a_batch():
    statistics, (x,) = MpiRunningMeanStd(epsilon=1e-9, shape=(3,), comm=mpi.Communicator()), batches((3,), [200])
    statistics.update(x)
    close([statistics.mean, statistics.std], [x.mean(0), x.std(0)], rtol=1e-5)
    assert statistics.mean.dtype == statistics.std.dtype == np.float32


def test_a_constant_component_is_not_blown_up():
    statistics = MpiRunningMeanStd(epsilon=1e-9, shape=(2,), comm=mpi.Communicator())
    statistics.update(np.array([[4.0, 0.0], [4.0, 100.0]]))
    np.testing.assert_allclose(statistics.std, [0.1, 50.0], rtol=1e-5)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_moments_along_an_axis(axis, keepdims):
    x = batches((4, 5), [3])[0]
    mean, std, count = mpi_moments(x, axis, mpi.Communicator(), keepdims)
    close([mean, std], [x.mean(axis, keepdims=keepdims), x.std(axis, keepdims=keepdims)])
    assert mean.shape == x.mean(axis, keepdims=keepdims).shape and count == x.shape[axis]
