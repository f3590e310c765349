"""Both ways of exchange between real ranks; and how one is chosen."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from commands import SUPPORT, run_on_ranks

from tfbaselines.learn import exchange
from tfbaselines.learn.exchange import Exchange
from tfbaselines.parallel.mpi import Communicator


@pytest.mark.slow
def test_both_ways_give_the_step_that_one_rank_takes_on_all_rows(tmp_path):
    status, _, err = run_on_ranks("two_ways", cwd=tmp_path, PYTHONPATH=SUPPORT)
    assert status == 0, err
    for jit in (True, False):
        joined = np.load(tmp_path / f"joined-{jit}.npz")
        ways = {
            kind: [np.load(tmp_path / f"{kind}-{jit}-{rank}.npz") for rank in range(2)]
            for kind in ("batches", "gradients")
        }
        for of_ranks in ways.values():
            np.testing.assert_array_equal(of_ranks[0]["after"], of_ranks[1]["after"])
            np.testing.assert_allclose(of_ranks[0]["after"], joined["after"], rtol=0, atol=1e-5)
        for one, other in zip(*ways.values(), strict=True):
            np.testing.assert_allclose(one["after"], other["after"], rtol=0, atol=1e-6)
            # Each rank's own statistics, the same either way.
            np.testing.assert_allclose(one["found"], other["found"], rtol=1e-5, atol=1e-6)


def test_every_rank_runs_the_same_program():
    """XLA would take a rank's number, where it cuts an array, for a constant: two programs may round differently."""
    programs = []
    for rank in range(2):
        one = Exchange(Communicator())
        one._place.assign(rank)
        every = [tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0])]
        own = one.compile(one.own)
        np.testing.assert_array_equal(own(every), every[rank])
        # Without the function's number.
        programs.append(re.sub(r"function_\d+", "", own.experimental_get_compiler_ir(every)(stage="hlo")))
    assert programs[0] == programs[1]


class Pair(Communicator):
    """Rank 1 of two, of which rank 0 says what is given here."""

    rank, size = 1, 2

    def __init__(self, host=None, nbytes=0):
        self.host, self.nbytes = host, nbytes

    def gather(self, own):
        host, nbytes, weight = own
        return [(self.host or host, nbytes + self.nbytes, weight), own]


@pytest.mark.parametrize(
    ("parameters", "rows", "jit", "comm", "kind"),
    [
        (10_000, 64, True, Pair(), "batches"),
        (10_000, 64, False, Pair(), "gradients"),
        (200_000, 256, True, Pair(), "gradients"),
        (10_000, 64, True, Pair(host="elsewhere"), "gradients"),
        (10_000, 64, True, Pair(nbytes=2**29), "gradients"),
    ],
    ids=["small", "convolutional", "wide", "two hosts", "much data"],
)
def test_the_way_is_chosen_by_size(parameters, rows, jit, comm, kind):
    Exchange(comm, jit).choose([np.zeros(parameters)], rows, {"x": np.zeros(8, np.float32)})
    assert exchange.news() == [f"ranks exchange {kind}: {parameters:,} parameters, {rows:,} rows a step"]


def test_a_way_may_be_forced():
    exchange.set_exchange("gradients")
    try:
        Exchange(Pair()).choose([], 1, {})
        assert "exchange gradients" in exchange.news()[0]
    finally:
        exchange.set_exchange("auto")


def test_weights_of_ranks_count_in_both_ways():
    """Rank 0 weighs 3 and has a gradient of 1; rank 1 weighs 1 and has a gradient of 5."""

    class Weighted(Pair):
        def gather(self, own):
            return [(own[0], own[1], 3.0), own] if isinstance(own, tuple) else [{"g": np.ones(2, np.float32)}, own]

        def sum(self, array):
            return array + 3.0 / 4.0 * np.ones_like(array)

    for kind in ("batches", "gradients"):
        exchange.set_exchange(kind)
        one = Exchange(Weighted())
        exchange.set_exchange("auto")
        one.choose([], 1, {})
        batches = one.arrays({"g": np.full(2, 5.0, np.float32)})
        mean = one.compile(lambda batches, one=one: one.mean(lambda batch: ([batch["g"]], batch["g"]))(batches))
        (average,), own = mean(batches)
        np.testing.assert_allclose(average, [2.0, 2.0])
        np.testing.assert_allclose(own, [5.0, 5.0])
    exchange.news()


def test_alone_nothing_is_exchanged():
    one, weights = Exchange(), keras.Variable([1.0, 2.0])
    one.choose([weights], 1, {})
    (arrays, own) = one.mean(lambda batch: ([batch * weights.value], ()))(one.arrays(np.ones(2, np.float32)))
    assert not exchange.news() and own == ()
    tf.debugging.assert_equal(arrays[0], [1.0, 2.0])
