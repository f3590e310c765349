"""TD3+BC's loss of the actor, against plain loops in numpy."""

from types import SimpleNamespace

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.algs.td3.td3 import behavior_regularized
from tfbaselines.policy.actor_critic import build_actor_critic
from tfbaselines.policy.bounded import DeterministicHead

BOUNDED = spaces.Box(np.array([[-1.0, 2.0]], np.float32), np.array([[3.0, 2.5]], np.float32))
ROWS = 5


def make_policy():
    tf.keras.utils.set_random_seed(0)
    env = SimpleNamespace(observation_space=spaces.Box(-1.0, 1.0, (3,), np.float32), action_space=BOUNDED)
    return build_actor_critic(env, "dense", head=DeterministicHead, critics=2, hidden_sizes=[8])


def test_td3s_term_against_a_loop():
    rng = np.random.default_rng(0)
    policy = make_policy()
    taken, own = (rng.uniform(BOUNDED.low, BOUNDED.high, (ROWS, 1, 2)).astype(np.float32) for _ in range(2))
    q, alpha = rng.normal(size=ROWS).astype(np.float32), 2.5
    scale, distance, value = 0.0, 0.0, 0.0
    for row in range(ROWS):
        scale += abs(q[row]) / ROWS
        value += q[row] / ROWS
        for a, b, low, high in zip(own[row, 0], taken[row, 0], BOUNDED.low[0], BOUNDED.high[0], strict=True):
            distance += ((a - b) / ((high - low) / 2)) ** 2 / (2 * ROWS)
    own, actor_values = tf.constant(own), tf.Variable(q)
    with tf.GradientTape() as tape:
        found = behavior_regularized(policy, {"actions": tf.constant(taken)}, actor_values, own, alpha)
    np.testing.assert_allclose(found[0], distance - alpha / scale * value, rtol=1e-5)
    np.testing.assert_allclose(found[1], distance, rtol=1e-5)
    # The scale of the values is not part of the gradient.
    np.testing.assert_allclose(tape.gradient(found[0], actor_values), np.full(ROWS, -alpha / scale / ROWS), rtol=1e-5)


def test_td3s_term_of_values_that_are_all_zero_is_the_distance():
    policy = make_policy()
    taken, own = tf.zeros((ROWS, 1, 2)), tf.ones((ROWS, 1, 2))
    loss, distance = behavior_regularized(policy, {"actions": taken}, tf.zeros(ROWS), own, 2.5)
    assert loss == distance > 0


def test_td3s_term_counts_valid_rows_alone():
    policy = make_policy()
    taken, own = (np.random.default_rng(i).uniform(BOUNDED.low, BOUNDED.high, (4, 1, 2)) for i in range(2))
    taken, own, q = (tf.constant(x, tf.float32) for x in (taken, own, [1.0, -2.0, 5.0, 3.0]))
    valid = {"actions": taken, "valid": tf.constant([1.0, 1.0, 0.0, 0.0])}
    some = behavior_regularized(policy, valid, q, own, 2.0)
    np.testing.assert_allclose(some, behavior_regularized(policy, {"actions": taken[:2]}, q[:2], own[:2], 2.0), 1e-5)
