"""Pure functions and classes of the originals."""

from types import SimpleNamespace

import numpy as np
import pytest
from cases import load

from tfbaselines.compat import helpers
from tfbaselines.compat.experiments import GAEBuffer, PPOBuffer, ReplayBuffer
from tfbaselines.compat.helpers import Dataset, RunningAvg, iterbatches
from tfbaselines.errors import UsageError
from tfbaselines.plot import rolling_window, window_func


def test_numbers_are_the_originals():
    arrays, hyper = load("math_util")
    returns = helpers.discount_with_boundaries(arrays["discount_x"], arrays["dwb_new"], hyper["dwb_gamma"])
    np.testing.assert_allclose(returns, arrays["dwb_out"], rtol=1e-6)
    assert helpers.ncc(arrays["ypred"], arrays["y"]) == pytest.approx(float(arrays["ncc"]), rel=1e-5)
    sums = helpers.discount_cumsum(arrays["discount_x"], hyper["discount_gamma"])
    np.testing.assert_allclose(sums, arrays["discount_out"], rtol=1e-5)
    matrix = np.array([[4.0, 1.0], [1.0, 3.0]])
    np.testing.assert_allclose(helpers.cg(lambda x: matrix @ x, np.array([1.0, 2.0])), [1 / 11, 7 / 11], rtol=1e-6)


def test_small_functions():
    assert list(helpers.zipsame([1, 2], "ab")) == [(1, "a"), (2, "b")]
    with pytest.raises(ValueError, match="longer"):
        list(helpers.zipsame([1], "ab"))
    assert helpers.fmt_row(8, ["a", 1, 0.5, 1e-7], header=True).splitlines() == [
        "       a |        1 |  0.50000 | 1.00e-07",
        "-" * 41,
    ]
    assert helpers.pretty_eta(3661) == "1:01:01"
    assert np.isnan(helpers.safemean([])) and helpers.safemean([1, 2]) == 1.5 and helpers.constfn(3)(0.5) == 3
    assert helpers.discount_with_dones([1, 1, 1], [0, 1, 0], 0.5) == [1.5, 1, 1]
    vector = helpers.flatten_arrays([np.eye(2), np.arange(3.0)])
    parts = helpers.unflatten_vector(vector, [(2, 2), (3,)])
    assert (parts[0] == np.eye(2)).all() and parts[1].tolist() == [0, 1, 2]
    average = RunningAvg(0.9)
    average.update(1.0)
    average.update(2.0)
    assert average() == pytest.approx(1.1)
    y = np.array([[0.0, 5.0], [2.0, 5.0]])
    assert helpers.explained_variance_2d(y, y).tolist() == [1.0, 0.0]
    assert helpers.sf01(np.arange(6).reshape(3, 2)).tolist() == [0, 2, 4, 1, 3, 5]
    assert rolling_window(np.arange(4), 2).tolist() == [[0, 1], [1, 2], [2, 3]]
    x, means = window_func(np.arange(4), np.arange(4.0), 3, np.mean)
    assert x.tolist() == [2, 3] and means.tolist() == [1, 2]


def test_batches_of_rows():
    batches = list(iterbatches([np.arange(5), np.arange(5) * 2], batch_size=2, shuffle=False))
    assert [batch[0].tolist() for batch in batches] == [[0, 1], [2, 3], [4]] and batches[1][1].tolist() == [4, 6]
    assert len(list(iterbatches([np.arange(5)], batch_size=2, include_final_partial_batch=False))) == 2
    assert len(list(iterbatches([np.arange(6)], num_batches=3))) == 3
    with pytest.raises(UsageError, match="num_batches or batch_size"):
        list(iterbatches([np.arange(5)]))
    data = Dataset({"x": np.arange(5), "y": np.arange(5) * 2})
    seen = list(data.iterate_once(2))
    assert len(seen) == 2 and all((batch["y"] == 2 * batch["x"]).all() for batch in seen)
    ordered = Dataset({"x": np.arange(5)}, deterministic=True, shuffle=False)
    assert ordered.next_batch(4)["x"].tolist() == [0, 1, 2, 3] and ordered.next_batch(4)["x"].tolist() == [4]
    assert ordered.subset(2).n == 2


def test_the_buffers_of_spinning_up():
    buffer = PPOBuffer(3, (), 4, gamma=0.5, lam=1.0)
    for step in range(4):
        buffer.store(np.full(3, step), 0, 1.0, 0.0, -1.0)
        if step == 1:
            buffer.finish_path(0)
    with pytest.raises(UsageError, match="is full"):
        buffer.store(np.zeros(3), 0, 1.0, 0.0, 0.0)
    buffer.finish_path(4.0)
    data = buffer.get()
    assert data["ret"].tolist() == [1.5, 1.0, 2.5, 3.0] and data["obs"].shape == (4, 3)
    assert data["adv"].mean() == pytest.approx(0, abs=1e-6) and data["adv"].std() == pytest.approx(1, rel=1e-5)
    with pytest.raises(UsageError, match="0 steps of 4"):
        buffer.get()
    ring = ReplayBuffer(2, 1, size=3)
    for step in range(5):
        ring.store(np.full(2, step), [step], step, np.full(2, step + 1), False)
    batch = ring.sample_batch(50)
    assert set(batch["rew"].tolist()) == {2, 3, 4} and (batch["obs2"] == batch["obs"] + 1).all()


def test_weighted_means_over_ranks(capsys):
    ranks = [{"return": (1.0, 3), "name": ("x", 1)}, {"return": (5.0, 1), "length": ("7", 2)}]
    gathering = SimpleNamespace(gather=lambda own: ranks)
    assert helpers.mpi_weighted_mean(gathering, ranks[0]) == {"return": 2.0, "length": 7.0}
    assert "name is left out" in capsys.readouterr().err
    assert helpers.mpi_weighted_mean(SimpleNamespace(gather=lambda own: None), ranks[1]) == {}


def test_the_buffer_of_trpo_has_parameters_of_distributions():
    plain, buffer = PPOBuffer(2, 1, 3, gamma=0.9), GAEBuffer(2, 1, 3, {"mu": 1, "log_std": 1}, gamma=0.9)
    for k in range(3):
        step = (np.full(2, k), [k], float(k), 0.5 * k, -k)
        plain.store(*step)
        buffer.store(*step, {"mu": [k + 10], "log_std": [-k]})
    for one in (plain, buffer):
        one.finish_path(2.0)
    expected = plain.get()
    found = buffer.get()
    for array, name in zip(found, ("obs", "act", "adv", "ret", "logp"), strict=False):
        np.testing.assert_array_equal(array, expected[name])
    assert found[5].ravel().tolist() == [0, -1, -2] and found[6].ravel().tolist() == [10, 11, 12]
