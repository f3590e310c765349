"""Whole updates again in float64, from what they were given: numpy alone, with gradients by differences."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from helpers import vec
from small_environments import Seeing, identity
from small_runs import samples

from tfbaselines.algs import bc, ppo1
from tfbaselines.algs.acktr.kfac import Kfac, Objective
from tfbaselines.algs.acktr.kronecker import KroneckerFactors
from tfbaselines.demos import save_demonstrations
from tfbaselines.learn.engine import Engine

DIFFERENCE = 1e-6


@pytest.fixture
def updates(monkeypatch):
    """Weights before, data, rows of minibatches, rates, and weights after each call of the gradient steps."""
    seen, take = [], Engine.minibatches

    def recording(engine, data, rows=None, **rates):
        variables = engine.phases[0].variables
        before = [variable.numpy().astype(np.float64) for variable in variables]
        statistics = take(engine, data, rows, **rates)
        seen.append((before, data, rows, rates, [variable.numpy() for variable in variables]))
        return statistics

    monkeypatch.setattr(Engine, "minibatches", recording)
    return seen


def outputs(weights, x):
    """The results of networks with two layers of tanh: logits, and the value of a network of its own, if there is one.

    The weights of all hidden layers come first, then those of the last layers.
    """
    results = []
    networks = len(weights) // 6
    for number in range(networks):
        w0, b0, w1, b1 = weights[4 * number : 4 * number + 4]
        w2, b2 = weights[4 * networks + 2 * number :][:2]
        results.append(np.tanh(np.tanh(x @ w0 + b0) @ w1 + b1) @ w2 + b2)
    return results


def log_softmax(logits):
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def gradient(loss, weights):
    """By central differences."""
    found = [np.zeros_like(array) for array in weights]
    for array, of_array in zip(weights, found, strict=True):
        for place in np.ndindex(array.shape):
            kept = array[place]
            array[place] = kept + DIFFERENCE
            above = loss(weights)
            array[place] = kept - DIFFERENCE
            of_array[place] = (above - loss(weights)) / (2 * DIFFERENCE)
            array[place] = kept
    return found


def adam(loss_of, weights, data, rows, rate, epsilon):
    """Adam's steps on each minibatch, with its usual decays."""
    first, second = ([np.zeros_like(array) for array in weights] for _ in range(2))
    for step, part in enumerate(rows, start=1):
        batch = {name: array[part] for name, array in data.items()}
        gradients = gradient(lambda tried, batch=batch: loss_of(tried, batch), weights)
        size = rate * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        for w, g, m, v in zip(weights, gradients, first, second, strict=True):
            m += 0.1 * (g - m)
            v += 0.001 * (g * g - v)
            w -= size * m / (np.sqrt(v) + epsilon)
    return weights


def ppo1_loss(weights, batch, clip, entcoeff):
    logits, values = outputs(weights, np.eye(4)[batch["obs"]])
    now, old = log_softmax(logits), log_softmax(batch["flat"].astype(np.float64))
    rows = np.arange(len(now)), batch["actions"]
    ratio, advantages = np.exp(now[rows] - old[rows]), batch["advantages"].astype(np.float64)
    surrogate = np.minimum(ratio * advantages, np.clip(ratio, 1 - clip, 1 + clip) * advantages).mean()
    entropy = -(np.exp(now) * now).sum(-1).mean()
    return np.square(values[:, 0] - batch["returns"]).mean() - surrogate - entcoeff * entropy


def test_ppo1(updates):
    own = {"timesteps_per_actorbatch": 32, "optim_batchsize": 16, "optim_epochs": 2, "optim_stepsize": 1e-2}
    ppo1.learn("mlp", identity(), num_hidden=6, max_iters=1, clip_param=0.05, entcoeff=0.1, seed=0, **own)
    ((before, data, rows, rates, after),) = updates
    assert len(rows) == 4 and sorted(np.ravel(rows)) == sorted([*range(32)] * 2)
    expected = adam(lambda weights, batch: ppo1_loss(weights, batch, 0.05, 0.1), before, data, rows, 1e-2, 1e-5)
    assert rates["lr"] == 1e-2
    for found, array in zip(after, expected, strict=True):
        np.testing.assert_allclose(found, array, atol=2e-5)


def bc_loss(weights, batch, decay):
    (logits,) = outputs(weights, batch["obs"].astype(np.float64))
    chosen = log_softmax(logits)[np.arange(len(logits)), batch["actions"] - 5]
    return -chosen.mean() + 0.5 * decay * sum(np.square(array).sum() for array in weights)


def test_bc(updates, tmp_path):
    seen, actions = spaces.Box(-1.0, 1.0, (3,), np.float32), spaces.Discrete(3, start=5)
    save_demonstrations(tmp_path / "demo.npz", samples(seen, actions, (20, 20)), seen, actions)
    own = {"num_iterations": 1, "batch_size": 12, "held_out": 0.1, "weight_decay": 0.1, "lr": 1e-2}
    env = vec(lambda: Seeing(seen, actions))
    bc.learn("mlp", env, demo_path=tmp_path / "demo.npz", num_hidden=4, num_test_episodes=0, seed=0, **own)
    ((before, data, rows, _, after),) = updates
    assert rows.shape == (3, 12) and len(set(rows.ravel())) == 36
    expected = adam(lambda weights, batch: bc_loss(weights, batch, 0.1), before, data, rows, 1e-2, 1e-5)
    for found, array in zip(after, expected, strict=True):
        np.testing.assert_allclose(found, array, atol=2e-5)


def test_a_step_of_acktr_with_a_convolution(eager):
    """The first step is both gradient descent and K-FAC, as in the original; the Kronecker products are written out."""
    rng, lr, damping, clip_kl = np.random.default_rng(0), 0.1, 0.05, 1e-3
    layer = keras.layers.Conv2D(2, (2, 2))
    layer.build((None, 3, 3, 1))
    images, target, noise = (rng.standard_normal(shape) for shape in ((5, 3, 3, 1), (5, 2, 2, 2), (5, 2, 2, 2)))
    before = [variable.numpy().astype(np.float64) for variable in layer.trainable_variables]
    factors = KroneckerFactors([layer])
    observed = factors.observed(layer)

    def objective(batch):
        shown = observed(batch["images"])
        loss, likelihood = (
            tf.reduce_mean(tf.reduce_sum(shown * batch[name], axis=[1, 2, 3])) for name in ("target", "noise")
        )
        return Objective(loss, likelihood, {"loss": loss})

    own = {"clip_kl": clip_kl, "damping": damping, "momentum": 0.9, "cold_steps": 1, "jit": False}
    data = {"images": images, "target": target, "noise": noise}
    with Kfac(objective, factors, layer.trainable_variables, **own) as step:
        step({name: array.astype(np.float32) for name, array in data.items()}, lr)

    places = [(row, column) for row in range(2) for column in range(2)]
    patches = np.stack([images[:, r : r + 2, c : c + 2].reshape(5, 4) for r, c in places], axis=1)
    target, noise = (array.reshape(5, 4, 2) for array in (target, noise))
    inputs = np.einsum("btn,btk->nk", patches, patches) / (5 * 4**2)
    outputs = np.einsum("btn,btk->nk", noise, noise) * 4 / 5
    gradients = np.einsum("btn,btk->nk", patches, target) / 5, target.sum((0, 1)) / 5
    fisher = np.kron(inputs, outputs), outputs
    natural = [np.linalg.solve(f + damping * np.eye(len(f)), g.ravel()) for f, g in zip(fisher, gradients, strict=True)]
    divergence = lr**2 * sum(u @ g.ravel() for u, g in zip(natural, gradients, strict=True))
    assert divergence > clip_kl
    for variable, w, g, u in zip(layer.trainable_variables, before, gradients, natural, strict=True):
        expected = w.ravel() - lr * g.ravel() - lr * 0.1 * np.sqrt(clip_kl / divergence) * u
        np.testing.assert_allclose(variable.numpy().ravel(), expected, atol=1e-5)
