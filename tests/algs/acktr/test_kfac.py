"""K-FAC's steps on a linear layer, for which the Fisher matrix is known; when factors are used, and what is saved."""

import threading
import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfbaselines.algs.acktr.kfac import FACTORS, Decomposer, Kfac, Objective
from tfbaselines.algs.acktr.kronecker import KroneckerFactors
from tfbaselines.learn.optimizers import restore_slots, slots

INPUTS, OUTPUTS = 3, 2
LR, MOMENTUM, DAMPING = 0.1, 0.9, 0.01


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def factorial():
    """Every input with every noise: the two are independent, and the factors' product is the Fisher matrix itself."""
    x, noise = normal(0, 4, INPUTS), normal(1, 5, OUTPUTS)
    return {"x": np.repeat(x, 5, axis=0), "noise": np.tile(noise, (4, 1)), "y": normal(2, 20, OUTPUTS)}


def fresh_batch(seed):
    return {"x": normal(seed, 6, INPUTS), "noise": normal(seed + 50, 6, OUTPUTS), "y": normal(seed + 90, 6, OUTPUTS)}


def make(jit=False, cold_steps=1, clip_kl=1e9, **arguments):
    """A linear layer with its optimiser: squared errors, and a Gaussian likelihood."""
    layer = keras.layers.Dense(OUTPUTS, use_bias=False)
    layer.build((None, INPUTS))
    layer.kernel.assign(normal(3, INPUTS, OUTPUTS))
    factors = KroneckerFactors([layer])
    observed = factors.observed(layer)

    def objective(batch):
        y = observed(batch["x"])
        loss = 0.5 * tf.reduce_mean(tf.reduce_sum(tf.square(y - batch["y"]), axis=-1))
        samples = tf.stop_gradient(y + batch["noise"])
        likelihood = -0.5 * tf.reduce_mean(tf.reduce_sum(tf.square(y - samples), axis=-1))
        return Objective(loss, likelihood, {"loss": loss})

    arguments = {"clip_kl": clip_kl, "cold_steps": cold_steps, "momentum": MOMENTUM, "damping": DAMPING} | arguments
    return layer, Kfac(objective, factors, [layer.kernel], jit=jit, **arguments)


def fisher(data):
    """Of the rows' log-likelihoods, without any factors."""
    rows = np.einsum("bi,bj->bij", data["x"], data["noise"]).reshape(len(data["x"]), -1)
    return rows.T @ rows / len(rows)


def gradient(layer, data):
    error = data["x"] @ layer.kernel.numpy() - data["y"]
    return (data["x"].T @ error / len(error)).ravel()


@pytest.mark.parametrize("jit", [False, True])
def test_a_step_is_along_the_natural_gradient(jit):
    data, (layer, step) = factorial(), make(jit)
    before, g = layer.kernel.numpy().ravel(), gradient(layer, data)
    natural = np.linalg.solve(fisher(data) + DAMPING * np.eye(g.size), g)
    error = data["x"] @ layer.kernel.numpy() - data["y"]
    assert step(data, lr=LR)["loss"] == pytest.approx(0.5 * np.square(error).sum(axis=-1).mean(), rel=1e-5)
    # The first step is also one of gradient descent.
    moved = before - layer.kernel.numpy().ravel() - LR * g
    np.testing.assert_allclose(moved, LR * (1 - MOMENTUM) * natural, rtol=1e-4, atol=1e-6)


def test_momentum_and_the_end_of_gradient_descent():
    data, (layer, step) = factorial(), make()
    velocity = np.zeros(INPUTS * OUTPUTS)
    for number in range(1, 6):
        before, g = layer.kernel.numpy().ravel(), gradient(layer, data)
        velocity = MOMENTUM * velocity + np.linalg.solve(fisher(data) + DAMPING * np.eye(g.size), g)
        step(data, lr=LR)
        moved = before - layer.kernel.numpy().ravel()
        if number > 2:
            np.testing.assert_allclose(moved, LR * (1 - MOMENTUM) * velocity, rtol=1e-3, atol=1e-6)


def test_the_divergence_of_a_step_is_bounded():
    data, (layer, step) = factorial(), make(clip_kl=1e-3)
    step(data, lr=LR)
    g = tf.constant(gradient(layer, data))
    direction, divergence = step.natural(g, tf.constant(LR))
    assert divergence > 1e-3
    # Along the direction: the divergence is quadratic in its length.
    part = (direction.numpy() @ g.numpy()) / (divergence.numpy() / LR**2)
    assert part**2 * divergence.numpy() == pytest.approx(1e-3, rel=1e-4)


def test_gradient_descent_is_bounded_too():
    data, (layer, step) = factorial(), make(cold_steps=5, max_grad_norm=1e-2)
    before, g = layer.kernel.numpy().ravel(), gradient(layer, data)
    step(data, lr=LR)
    np.testing.assert_allclose(before - layer.kernel.numpy().ravel(), LR * 1e-2 * g / np.linalg.norm(g), rtol=1e-3)


def test_averages_are_plain_first_and_then_decay():
    _, step = make(cold_steps=2, decay=0.9)
    expected = 0.0
    for seed, (keep, share) in enumerate([(1, 0.5), (1, 0.5), (0.9, 0.1), (0.9, 0.1)]):
        batch = fresh_batch(seed)
        factors = [batch["x"].T @ batch["x"] / 6, batch["noise"].T @ batch["noise"] / 6]
        expected = keep * expected + share * np.concatenate([factor.ravel() for factor in factors])
        step(batch, lr=0.0)
        np.testing.assert_allclose(step.averages, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "averages", "eigen"),
    [
        ({}, [1, 2, 3, 4, 5, 6], [2, 3, 4, 5, 6]),
        ({"factors_every": 3}, [1, 2, 3, 6], [2, 3, 6]),
        ({"decompose_every": 3}, [1, 2, 3, 4, 5, 6], [2, 3, 6]),
        ({"decompose_every": 9}, [1, 2, 3, 4, 5, 6], [2]),
    ],
)
def test_intervals(arguments, averages, eigen):
    """The steps in which averages and decompositions change."""
    _, step = make(cold_steps=2, **arguments)
    seen = {"averages": [], "eigen": []}
    for number in range(1, 7):
        before = {name: getattr(step, name).numpy() for name in seen}
        step(fresh_batch(number), lr=LR)
        for name, numbers in seen.items():
            if not np.array_equal(before[name], getattr(step, name).numpy()):
                numbers.append(number)
    assert seen == {"averages": averages, "eigen": eigen}


def decomposed(step):
    """The decompositions of the averages as they are now."""
    decomposer = Decomposer([INPUTS, OUTPUTS], 1)
    decomposer.begin(step.averages.numpy())
    return decomposer.result()


def test_background():
    """Training goes on with the last decompositions until there are new ones; the first are waited for."""
    _, step = make(cold_steps=2, is_async=True)
    for seed in range(2):
        step(fresh_batch(seed), lr=LR)
    first, free = decomposed(step), threading.Event()
    assert not step.eigen.numpy().any() and not step.velocity.numpy().any()
    # The one thread is kept from the decompositions that begin after this step.
    step._decomposer.result()
    step._begin()
    step._decomposer._pool.submit(free.wait)
    step(fresh_batch(2), lr=LR)
    second = decomposed(step)
    assert step.velocity.numpy().any()
    for seed in range(3, 6):
        step(fresh_batch(seed), lr=LR)
        np.testing.assert_array_equal(step.eigen, first)
    free.set()
    while not step._decomposer.done:
        time.sleep(0.01)
    step(fresh_batch(6), lr=LR)
    np.testing.assert_array_equal(step.eigen, second)


def test_leaving_the_context_ends_the_threads():
    _, step = make(cold_steps=2, is_async=True)
    with step:
        for seed in range(4):
            step(fresh_batch(seed), lr=LR)
    for thread in step._decomposer._pool._threads:
        thread.join(10)
        assert not thread.is_alive()


def test_the_same_steps_go_on_from_what_is_saved():
    layer, step = make(cold_steps=2)
    for seed in range(4):
        step(fresh_batch(seed), lr=LR)
    saved, weights = slots(step), layer.kernel.numpy()
    other_layer, other = make(cold_steps=2)
    restore_slots(other, saved)
    other_layer.kernel.assign(weights)
    for seed in range(4, 7):
        assert step(fresh_batch(seed), lr=LR) == other(fresh_batch(seed), lr=LR)
    for one, two in zip(step.variables, other.variables, strict=True):
        np.testing.assert_array_equal(one, two)


def test_a_step_is_compiled_once():
    for is_async, calls in ((False, 2), (True, 1)):
        _, step = make(True, 2, is_async=is_async)
        for seed in range(6):
            step(fresh_batch(seed), lr=LR)
        assert step.traces() == calls


def test_factors_that_are_not_finite():
    """A statistic tells, for the run to end or to go back; the last decompositions are still there."""
    _, step = make()
    assert np.isfinite(step(fresh_batch(0), lr=LR)[FACTORS])
    before = step.eigen.numpy()
    statistics = step(fresh_batch(0) | {"noise": np.full((6, OUTPUTS), np.inf, np.float32)}, lr=LR)
    assert not np.isfinite(statistics[FACTORS]) and np.isfinite(statistics["loss"])
    np.testing.assert_array_equal(step.eigen, before)


def test_factors_that_do_not_fit_are_refused():
    """Before anything is allocated: ten million inputs are a factor of 400 TB."""
    wide = keras.layers.Dense(1, use_bias=False)
    wide.build((None, 10**7))
    with pytest.raises(ValueError, match=r"^Kronecker factors would take .* lower the width of") as error:
        Kfac(None, KroneckerFactors([wide]), [wide.kernel], clip_kl=1.0)
    assert "\n" not in str(error.value)
