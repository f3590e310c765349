"""Policy and value losses against loops over rows."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.learn.losses import clipped_policy_loss, clipped_value_loss, evaluated, standardized
from tfbaselines.policy.policy import build_policy

RANGE = 0.2


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_standardized_numbers_have_mean_0_and_deviation_1():
    x = 3.0 + 5.0 * numbers(50)
    found = standardized(tf.constant(x)).numpy()
    np.testing.assert_allclose(found, (x - x.mean()) / x.std(), rtol=1e-4, atol=1e-5)
    # Equal numbers have no deviation to divide by.
    np.testing.assert_array_equal(standardized(tf.fill([4], 7.0)), np.zeros(4))


def test_the_policy_loss_is_clipped_where_that_makes_it_larger():
    ratio, advantages = np.exp(numbers(200, seed=1)), numbers(200, seed=2)
    expected = [max(-a * r, -a * min(max(r, 1 - RANGE), 1 + RANGE)) for r, a in zip(ratio, advantages, strict=True)]
    found = clipped_policy_loss(tf.constant(ratio), tf.constant(advantages), RANGE)
    assert float(found) == pytest.approx(np.mean(expected), rel=1e-5)


@pytest.mark.parametrize(
    ("ratio", "advantage", "slope"),
    [(1.0, 2.0, -2.0), (1.5, 2.0, 0.0), (0.5, 2.0, -2.0), (1.5, -2.0, 2.0), (0.5, -2.0, 0.0)],
)
def test_a_ratio_out_of_range_is_drawn_back_and_not_pushed_on(ratio, advantage, slope):
    ratio = tf.constant([ratio])
    with tf.GradientTape() as tape:
        tape.watch(ratio)
        loss = clipped_policy_loss(ratio, tf.constant([advantage]), RANGE)
    assert tape.gradient(loss, ratio).numpy() == [slope]


def test_the_value_loss_is_the_larger_of_two():
    values, old, returns = (numbers(200, seed=seed) for seed in (1, 2, 3))
    expected = [
        max((v - r) ** 2, (o + min(max(v - o, -RANGE), RANGE) - r) ** 2)
        for v, o, r in zip(values, old, returns, strict=True)
    ]
    found = clipped_value_loss(*(tf.constant(x) for x in (values, old, returns)), RANGE)
    assert float(found) == pytest.approx(0.5 * np.mean(expected), rel=1e-5)


def make(network, **kwargs):
    env = SimpleNamespace(
        observation_space=spaces.Box(-np.inf, np.inf, (3,), np.float32), action_space=spaces.Discrete(2)
    )
    return build_policy(env, network, **kwargs)


def test_rows_of_single_steps_are_evaluated_as_they_are():
    policy, obs = make("mlp", num_hidden=4), numbers(5, 3)
    batch = {"obs": tf.constant(obs), "returns": tf.constant(numbers(5))}
    rows, outputs = evaluated(policy, batch)
    assert rows is batch
    np.testing.assert_array_equal(outputs.value, policy.forward(batch["obs"]).value)


def test_sequences_are_evaluated_with_memory_and_laid_out_as_rows():
    policy, (count, steps) = make("lstm", nlstm=4), (3, 4)
    arrays = {"obs": numbers(count, steps, 3), "returns": numbers(count, steps)}
    starts = np.array([[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]], np.float32)
    states = numbers(count, policy.state_size, seed=4)
    batch = {name: tf.constant(x) for name, x in (arrays | {"episode_start": starts, "states": states}).items()}
    rows, outputs = evaluated(policy, batch)
    assert set(rows) == {"obs", "returns", "episode_start"}
    np.testing.assert_array_equal(rows["returns"], arrays["returns"].ravel())
    for i in range(count):
        alone = policy.forward(*(tf.constant(x) for x in (arrays["obs"][i], starts[i], states[i : i + 1])))
        own = slice(i * steps, (i + 1) * steps)
        np.testing.assert_allclose(outputs.value[own], alone.value, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(outputs.flat[own], alone.flat, rtol=1e-5, atol=1e-6)
