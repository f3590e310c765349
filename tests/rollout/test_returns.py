import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tfbaselines.rollout.rollout import backward_recursion, discount, explained_variance, gae, n_step_returns

SHAPES = hnp.array_shapes(min_dims=2, max_dims=2, max_side=7)
NUMBERS = st.floats(-10, 10, width=32)


@st.composite
def rollouts(draw):
    shape = draw(SHAPES)
    floats = [draw(hnp.arrays(np.float32, s, elements=NUMBERS)) for s in (shape, shape, shape[1:])]
    dones = [draw(hnp.arrays(bool, s)) for s in (shape, shape[1:])]
    return *floats, *dones


@given(rollouts(), st.floats(0, 1), st.floats(0, 1))
def test_gae_equals_the_sum_of_discounted_errors(rollout, gamma, lam):
    rewards, values, last_values, dones, last_episode_start = rollout
    steps, envs = rewards.shape
    out = gae(rewards, values, dones, last_values, last_episode_start, gamma, lam)
    for i in range(envs):
        for t in range(steps):
            total, weight = 0.0, 1.0
            for k in range(t, steps):
                last = k == steps - 1
                next_value = float(last_values[i] if last else values[k + 1, i])
                going_on = 1.0 - float(last_episode_start[i] if last else dones[k + 1, i])
                total += weight * (float(rewards[k, i]) + gamma * next_value * going_on - float(values[k, i]))
                weight *= gamma * lam * going_on
            np.testing.assert_allclose(out[t, i], total, rtol=1e-6, atol=1e-6)


@given(rollouts(), st.floats(0, 1))
def test_n_step_returns_stop_at_an_episode_end(rollout, gamma):
    rewards, _, last_values, dones_after, _ = rollout
    out = n_step_returns(rewards, dones_after, last_values, gamma)
    for i in range(rewards.shape[1]):
        following = float(last_values[i])
        for t in reversed(range(rewards.shape[0])):
            following = float(rewards[t, i]) + gamma * following * (not dones_after[t, i])
            np.testing.assert_allclose(out[t, i], following, rtol=1e-6, atol=1e-6)


def test_a_time_out_is_worth_its_last_observation():
    """A task of constant reward 1, cut every 5 steps: with the cut bootstrapped, V = 1 / (1 - gamma) has no error."""
    gamma, value = 0.9, 10.0
    rewards = np.ones((10, 1), np.float32)
    values = np.full((10, 1), value, np.float32)
    dones = np.zeros((10, 1), bool)
    dones[5] = True
    timeout_values = np.zeros((10, 1))
    timeout_values[4] = value
    bootstrapped = gae(rewards + gamma * timeout_values, values, dones, values[0], np.zeros(1, bool), gamma, 0.95)
    np.testing.assert_allclose(bootstrapped, 0.0, atol=1e-6)
    cut = gae(rewards, values, dones, values[0], np.zeros(1, bool), gamma, 0.95)
    assert cut[4, 0] < -8


def test_backward_recursion_does_not_run_from_one_environment_into_the_next():
    x = backward_recursion(np.ones((2, 2)), np.full((2, 2), 0.5))
    np.testing.assert_allclose(x, [[1.5, 1.5], [1.0, 1.0]])


def test_discount_of_a_vector_and_of_columns():
    np.testing.assert_allclose(discount(np.array([1.0, 2.0, 4.0]), 0.5), [3.0, 4.0, 4.0])
    np.testing.assert_allclose(discount(np.eye(2), 0.5), [[1.0, 0.5], [0.0, 1.0]])


def test_explained_variance():
    y = np.array([1.0, 2.0, 3.0])
    assert explained_variance(y, y) == 1.0
    assert explained_variance(np.zeros(3), y) == 0.0
    assert np.isnan(explained_variance(y, np.ones(3)))
