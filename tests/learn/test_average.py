"""The averaged policy is the exponential moving average of the weights it follows, and nothing else moves it."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.learn.optimizers import AveragedPolicy, with_targets
from tfbaselines.policy.policy import build_policy

OBS = tf.constant(np.random.default_rng(0).normal(size=(4, 3)), tf.float32)


def make(alpha=0.9, network="mlp", **kwargs):
    env = SimpleNamespace(observation_space=spaces.Box(-1, 1, (3,)), action_space=spaces.Box(-1, 1, (2,)))
    kwargs = {"num_hidden": 4, **kwargs} if network == "mlp" else kwargs
    policy, copy = (build_policy(env, network, **kwargs) for _ in range(2))
    return policy, AveragedPolicy(policy, copy, alpha)


def weights(policy):
    return [variable.numpy() for variable in policy.trainable_variables]


def move(policy, rng):
    for variable in policy.trainable_variables:
        variable.assign(rng.normal(size=variable.shape))


def test_the_average_begins_at_the_policy_and_shares_nothing_with_it():
    policy, averaged = make()
    before = weights(policy)
    np.testing.assert_equal(weights(averaged.policy), before)
    move(policy, np.random.default_rng(0))
    np.testing.assert_equal(weights(averaged.policy), before)


@pytest.mark.parametrize("jit", [None, False, True], ids=["eager", "graph", "jit"])
def test_steps_are_an_exponential_moving_average(jit):
    policy, averaged = make(alpha=0.75, value_network="copy")
    step = averaged.step if jit is None else tf.function(averaged.step, jit_compile=jit)
    expected, rng = weights(policy), np.random.default_rng(0)
    for _ in range(3):
        move(policy, rng)
        step()
        expected = [0.75 * old + 0.25 * new for old, new in zip(expected, weights(policy), strict=True)]
        for one, other in zip(weights(averaged.policy), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_none_or_all_of_the_average_is_kept(alpha):
    policy, averaged = make(alpha)
    before = weights(averaged.policy)
    move(policy, np.random.default_rng(0))
    averaged.step()
    np.testing.assert_equal(weights(averaged.policy), before if alpha else weights(policy))


def test_a_step_leaves_the_policy_alone():
    policy, averaged = make()
    move(policy, np.random.default_rng(0))
    before = weights(policy)
    averaged.step()
    np.testing.assert_equal(weights(policy), before)


def test_reset_starts_again_from_the_policy():
    policy, averaged = make()
    move(policy, np.random.default_rng(0))
    averaged.step()
    averaged.reset()
    np.testing.assert_equal(weights(averaged.policy), weights(policy))


def test_a_compiled_forward_sees_each_step():
    policy, averaged = make()
    compiled = tf.function(averaged.forward)
    before = compiled(OBS).numpy()
    move(policy, np.random.default_rng(0))
    np.testing.assert_array_equal(compiled(OBS), before)
    averaged.step()
    np.testing.assert_allclose(compiled(OBS), averaged.policy.forward(OBS).flat, rtol=1e-5, atol=1e-6)
    assert np.abs(compiled(OBS) - before).max() > 1e-3


def test_a_recurrent_policy_takes_masks_and_states():
    _, averaged = make(network="lstm", nlstm=4)
    states = tf.ones((2, 8))
    inputs = (OBS, tf.constant([0.0, 0.0, 1.0, 0.0]), states)
    np.testing.assert_array_equal(averaged.forward(*inputs), averaged.policy.forward(*inputs).flat)


def test_targets_begin_at_the_policy_and_share_its_observations_statistics():
    env = SimpleNamespace(observation_space=spaces.Box(-1, 1, (3,)), action_space=spaces.Box(-1, 1, (2,)))
    made = []

    def build():
        made.append(build_policy(env, "mlp", num_hidden=4, normalize_observations=True))
        return made[-1]

    policy, averaged = with_targets(build, 0.75)
    assert made == [policy, averaged.policy] and policy is not averaged.policy
    np.testing.assert_equal(weights(averaged.policy), weights(policy))
    before = weights(policy)
    move(policy, np.random.default_rng(0))
    averaged.step()
    for one, old, new in zip(weights(averaged.policy), before, weights(policy), strict=True):
        np.testing.assert_allclose(one, 0.75 * old + 0.25 * new, rtol=1e-5, atol=1e-6)
    policy.normalizer.update(np.random.default_rng(0).normal(3, 2, (50, 3)))
    np.testing.assert_array_equal(averaged.policy.preprocess(OBS), policy.preprocess(OBS))
    assert np.abs(policy.preprocess(OBS) - OBS).max() > 0.5


def test_targets_without_statistics():
    _, averaged = with_targets(lambda: make()[0], 0.5)
    assert averaged.policy.normalizer is None


def test_parameters_have_no_gradient():
    _, averaged = make()
    variables = [variable.value for variable in averaged.policy.trainable_variables]
    with tf.GradientTape() as tape:
        flat = averaged.forward(OBS)
    assert tape.gradient(flat, variables) == [None] * len(variables)
