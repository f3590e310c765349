"""Soft values: exact expectations over discrete actions, one draw of continuous ones; the weight of the entropy."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.algs.sac.loss import DISCRETE_ENTROPY, Choices, SampledActions, Temperature
from tfbaselines.policy.actor_critic import build_actor_critic
from tfbaselines.policy.bounded import SquashedGaussianHead
from tfbaselines.policy.distributions import make_pdtype

OBS = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)


def make(space, head):
    env = SimpleNamespace(observation_space=spaces.Box(-np.inf, np.inf, (3,), np.float32), action_space=space)
    return build_actor_critic(env, "dense", head=head, critics=2, hidden_sizes=(4,))


def test_one_action_is_drawn_of_continuous_ones():
    policy, critics = (make(spaces.Box(-2.0, 1.0, (2,), np.float32), SquashedGaussianHead) for _ in range(2))
    view, noise = policy.view(tf.constant(OBS)), tf.constant(np.random.default_rng(1).normal(size=(6, 2)), tf.float32)
    value, logp = SampledActions(policy).value(critics, view, noise)
    actions, expected = policy.head.sample(policy.act(view), noise)
    np.testing.assert_allclose(logp, expected, rtol=1e-6)
    np.testing.assert_allclose(value, np.min([q.numpy() for q in critics.q(view, actions)], axis=0), rtol=1e-6)
    other, _ = SampledActions(policy).value(critics, view, -noise)
    assert np.abs(value - other).max() > 1e-6


def test_of_discrete_actions_the_expectation_is_exact():
    policy, critics = (make(spaces.Discrete(3, start=4), make_pdtype) for _ in range(2))
    view = policy.view(tf.constant(OBS))
    value, logp = Choices(policy).value(critics, view, None)
    logits = policy.act(view).numpy().astype(float)
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    for row in range(len(OBS)):
        expected_value = expected_logp = 0.0
        for action in range(3):
            actions = tf.fill([len(OBS)], action + 4)
            worst = min(float(q[row]) for q in critics.q(view, actions))
            expected_value += np.exp(logs[row, action]) * worst
            expected_logp += np.exp(logs[row, action]) * logs[row, action]
        assert float(value[row]) == pytest.approx(expected_value, rel=1e-4, abs=1e-5)
        assert float(logp[row]) == pytest.approx(expected_logp, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (spaces.Box(-1, 1, (3, 2)), -6.0),
        (spaces.Discrete(5), DISCRETE_ENTROPY * np.log(5)),
        (spaces.Box(-1.0, 1.0, (2, 3), np.float32), -6.0),
        (spaces.Discrete(5, start=3), 0.2 * np.log(5)),
        (spaces.MultiDiscrete([[2, 3], [4, 5]]), 0.2 * np.log(2 * 3 * 4 * 5)),
        (spaces.MultiDiscrete([3, 2]), DISCRETE_ENTROPY * np.log(6)),
    ],
)
def test_the_entropy_that_is_aimed_at(space, expected):
    actions = SampledActions if isinstance(space, spaces.Box) else Choices
    policy = SimpleNamespace(action_space=space)
    assert actions(policy).default_target_entropy == pytest.approx(expected)


# The weight of the entropy.


@pytest.mark.parametrize("alpha", [0.0, 0.2])
def test_a_given_one_is_that_number_and_no_variable_of_the_model(alpha):
    temperature = Temperature(alpha)
    assert not temperature.learned and temperature.variables == []
    np.testing.assert_allclose(temperature().numpy(), alpha, rtol=1e-6)


@pytest.mark.parametrize("logp", [1.0, 3.0])
def test_a_learned_one_rises_while_the_entropy_is_below_its_target(logp):
    temperature = Temperature(0.5, target_entropy=-2.0)
    with tf.GradientTape() as tape:
        loss = temperature.loss(tf.constant(logp + temperature.target_entropy))
    (gradient,) = tape.gradient(loss, [temperature.log_alpha.value])
    # The entropy is -logp; a step goes against the gradient.
    np.testing.assert_allclose(-gradient, logp - 2.0)
    assert temperature.variables == [temperature.log_alpha]
