"""The losses of Q-learning against plain loops."""

import numpy as np
import pytest
import tensorflow as tf
from helpers import softmax

from tfbaselines.algs.deepq.loss import (
    CategoricalReturn,
    ExpectedReturn,
    QuantileReturn,
    huber,
    kl_from_logits,
    make_returns,
    projection,
    quantile_huber,
)

CLOSE = {"rtol": 1e-5, "atol": 1e-6}


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def projected_by_a_loop(places, probabilities, support):
    """Each place's mass is shared out to the points below and above it, as the paper's algorithm 1 does."""
    low, high, step = support[0], support[-1], (support[-1] - support[0]) / (len(support) - 1)
    out = np.zeros((len(places), len(support)))
    for row, (own, masses) in enumerate(zip(places, probabilities, strict=True)):
        for place, mass in zip(own, masses, strict=True):
            b = (min(max(place, low), high) - low) / step
            below, above = int(np.floor(b + 1e-9)), int(np.ceil(b - 1e-9))
            if below == above:
                out[row, below] += mass
            else:
                out[row, below] += mass * (above - b)
                out[row, above] += mass * (b - below)
    return out


@pytest.mark.parametrize("atoms", [2, 7, 51])
def test_projection(atoms):
    support = np.linspace(-2, 4, atoms, dtype=np.float32)
    probabilities, shift = softmax(normal(6, atoms)), np.array([0.0, 0.3, -9.0, 9.0, 1.0, 0.77], np.float32)
    places = shift[:, None] + 0.9 * support
    found = projection(places, probabilities, support).numpy()
    np.testing.assert_allclose(found, projected_by_a_loop(places, probabilities, support), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-5)
    # Where nothing is cut off at the ends, the mean stays.
    np.testing.assert_allclose((found @ support)[:2], (probabilities * places).sum(1)[:2], rtol=1e-3, atol=1e-3)


def test_mass_that_stands_on_the_support_stays():
    support = np.linspace(0, 10, 11, dtype=np.float32)
    probabilities = softmax(normal(3, 11))
    np.testing.assert_allclose(projection(np.tile(support, (3, 1)), probabilities, support), probabilities, **CLOSE)


def quantile_huber_by_a_loop(quantiles, targets):
    out = np.zeros(len(quantiles))
    for row, (own, wanted) in enumerate(zip(quantiles, targets, strict=True)):
        for i, quantile in enumerate(own):
            tau = (2 * i + 1) / (2 * len(own))
            losses = []
            for target in wanted:
                u = float(target) - float(quantile)
                size = 0.5 * u * u if abs(u) <= 1 else abs(u) - 0.5
                losses.append(abs(tau - (u < 0)) * size)
            out[row] += sum(losses) / len(losses)
    return out


@pytest.mark.parametrize(("count", "targets"), [(1, 1), (5, 5), (7, 3)])
def test_quantile_huber(count, targets):
    quantiles, wanted = 2 * normal(6, count), 2 * normal(6, targets, seed=1)
    np.testing.assert_allclose(quantile_huber(quantiles, wanted), quantile_huber_by_a_loop(quantiles, wanted), **CLOSE)


def test_the_gradient_of_quantile_huber_is_the_slope_of_the_loop():
    quantiles, wanted = tf.constant(2 * normal(6, 7)), 2 * normal(6, 3, seed=1)
    with tf.GradientTape() as tape:
        tape.watch(quantiles)
        loss = quantile_huber(quantiles, wanted)
    slopes = tape.gradient(loss, quantiles)
    for k, step in enumerate(1e-5 * np.eye(7)):
        up, down = (quantile_huber_by_a_loop(quantiles.numpy() + sign * step, wanted) for sign in (1, -1))
        np.testing.assert_allclose(slopes[:, k], (up - down) / 2e-5, atol=1e-4)


def test_quantiles_are_where_the_loss_is_least():
    """Of far more samples than quantiles, at a scale at which the loss is linear."""
    samples = 1000 * np.random.default_rng(0).exponential(size=(1, 2001)).astype(np.float32)
    quantiles = np.quantile(samples, (np.arange(4) + 0.5) / 4).astype(np.float32)[None]
    best = float(quantile_huber(quantiles, samples)[0])
    for k in range(4):
        for off in (-30.0, 30.0):
            moved = quantiles.copy()
            moved[0, k] += off
            assert quantile_huber(moved, samples)[0] > best


def test_huber():
    x = np.array([-3.0, -1.0, -0.5, 0.0, 0.25, 1.0, 2.0], np.float32)
    np.testing.assert_allclose(huber(x), [2.5, 0.5, 0.125, 0.0, 0.03125, 0.5, 1.5])


def test_kl():
    targets, logits = softmax(normal(4, 5)), normal(4, 5, seed=1)
    targets[0] = [0, 0, 1, 0, 0]
    expected = [
        sum(t * np.log(t / p) for t, p in zip(*rows, strict=True) if t)
        for rows in zip(targets, softmax(logits), strict=True)
    ]
    np.testing.assert_allclose(kl_from_logits(targets, logits), expected, **CLOSE)
    np.testing.assert_allclose(kl_from_logits(softmax(logits), logits), 0.0, atol=1e-6)


BATCH = {"rewards": np.array([1.0, -2.0], np.float32), "discount": np.array([0.5, 0.0], np.float32)}


def test_targets_and_losses_of_each_representation():
    outputs = tf.constant(normal(2, 1))
    found = ExpectedReturn().targets(BATCH, outputs)
    np.testing.assert_allclose(found[:, 0], BATCH["rewards"] + BATCH["discount"] * outputs[:, 0], **CLOSE)
    losses, errors = ExpectedReturn().loss(outputs, found)
    np.testing.assert_allclose(errors, (outputs - found)[:, 0])
    np.testing.assert_allclose(losses, huber(errors))

    quantiles = QuantileReturn(3)
    outputs = tf.constant(normal(2, 3))
    found = quantiles.targets(BATCH, outputs)
    np.testing.assert_allclose(found[0], 1.0 + 0.5 * outputs[0], **CLOSE)
    np.testing.assert_allclose(found[1], [-2.0] * 3)
    np.testing.assert_allclose(quantiles.loss(outputs, found)[0], quantile_huber(outputs, found))

    histogram = CategoricalReturn(5, -2.0, 2.0)
    outputs = tf.constant(normal(2, 5))
    found = histogram.targets(BATCH, outputs)
    # After the end all mass is at the reward.
    np.testing.assert_allclose(found[1], [1, 0, 0, 0, 0], atol=1e-6)
    losses, errors = histogram.loss(outputs, found)
    np.testing.assert_allclose(losses, kl_from_logits(found, outputs))
    np.testing.assert_array_equal(losses, errors)


@pytest.mark.parametrize("kind", [None, "categorical", "quantile"])
def test_values_in_numpy_are_those_of_the_graph(kind):
    returns = make_returns(kind, None, -3.0, 5.0)
    outputs = normal(4, 2, returns.atoms)
    np.testing.assert_allclose(returns.mean_numpy(outputs), returns.mean(tf.constant(outputs)), **CLOSE)
    assert returns.atoms == {None: 1, "categorical": 51, "quantile": 200}[kind]


def test_a_histograms_value_is_its_mean():
    returns = CategoricalReturn(3, -1.0, 1.0)
    logits = np.log(np.array([[0.2, 0.3, 0.5]], np.float32))
    assert float(returns.mean(tf.constant(logits))[0]) == pytest.approx(0.3)


@pytest.mark.parametrize(("atoms", "ends", "words"), [(1, (-1.0, 1.0), "num_atoms=1"), (5, (1.0, 1.0), "v_min=1.0")])
def test_a_support_needs_two_points(atoms, ends, words):
    with pytest.raises(ValueError, match=words):
        CategoricalReturn(atoms, *ends)
