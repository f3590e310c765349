"""Statistics of returns, and critics that say the same in new units."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfbaselines.algs.ddpg.loss import ReturnStatistics, rescaled


def returns(seed=0, mean=5.0, std=3.0, count=200):
    return np.random.default_rng(seed).normal(mean, std, count).astype(np.float32)


def filled(*batches, ranks=1):
    statistics = ReturnStatistics(ranks)
    for batch in batches:
        statistics.take(statistics.sums(tf.constant(batch)))
    return statistics


def test_mean_and_deviation_are_of_everything_seen():
    one, other = returns(0), returns(1, mean=-20.0)
    statistics, everything = filled(one, other), np.concatenate([one, other])
    assert float(statistics.mean) == pytest.approx(everything.mean(), rel=1e-3)
    assert float(statistics.std) == pytest.approx(everything.std(), rel=1e-3)


def test_before_anything_is_seen_units_are_ones():
    statistics = ReturnStatistics()
    assert float(statistics.mean) == 0 and float(statistics.std) == pytest.approx(1)


def test_the_deviation_has_a_floor():
    assert float(filled(np.full(1000, 7.0, np.float32)).std) == pytest.approx(0.1, rel=1e-3)


def test_ranks_together_say_what_one_would_of_all():
    """Each hands in its sums, of which the average is taken."""
    one, other = returns(0), returns(1, mean=-20.0)
    statistics = ReturnStatistics(ranks=2)
    average = (statistics.sums(tf.constant(one)) + statistics.sums(tf.constant(other))) / 2
    statistics.take(average)
    np.testing.assert_allclose(statistics.state(), filled(np.concatenate([one, other])).state(), rtol=1e-5)


def test_units_and_back():
    statistics, values = filled(returns()), returns(3)
    units = statistics.normalized(tf.constant(values))
    assert abs(float(tf.reduce_mean(units))) < 0.3 and float(tf.math.reduce_std(units)) == pytest.approx(1, rel=0.2)
    np.testing.assert_allclose(statistics.denormalized(units), values, rtol=1e-4, atol=1e-4)


def test_restored_statistics_are_the_same():
    statistics, other = filled(returns()), ReturnStatistics()
    other.restore(statistics.state())
    assert (float(other.mean), float(other.std)) == (float(statistics.mean), float(statistics.std))
    assert statistics.state().shape == (3,)


@pytest.mark.parametrize("jit", [True, False])
def test_critics_say_the_same_when_their_units_change(jit):
    statistics = filled(returns())
    layers = [keras.layers.Dense(1, bias_initializer="ones") for _ in range(2)]
    features = np.random.default_rng(0).standard_normal((20, 4)).astype(np.float32)
    before = [statistics.denormalized(layer(features)).numpy() for layer in layers]
    units = layers[0](features).numpy()
    more = tf.constant(returns(1, mean=100.0, std=50.0))

    def change(batch):
        rescaled(statistics, layers, statistics.take, statistics.sums(batch))

    tf.function(change, jit_compile=jit)(more)
    assert float(statistics.mean) > 40
    for layer, said in zip(layers, before, strict=True):
        np.testing.assert_allclose(statistics.denormalized(layer(features)), said, rtol=1e-3, atol=1e-3)
    assert np.abs(layers[0](features).numpy() - units).max() > 0.1
