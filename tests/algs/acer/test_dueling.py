"""The stochastic duelling network: Q's mean over the policy's actions is V, and its parts are where they belong."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.algs.acer.loss import DuelingPolicy
from tfbaselines.policy.policy import build_policy
from tfbaselines.training.checkpoint import load_tree, save_tree

BOX = spaces.Box(-np.inf, np.inf, (3,), np.float32)
VECTOR, TABLE = spaces.Box(-1, 1, (2,), np.float32), spaces.Box(-1, 1, (2, 3), np.float32)
SAMPLES = 20_000

shapes = pytest.mark.parametrize("action", [VECTOR, TABLE], ids=["vector", "table"])


def make(network="mlp", action=VECTOR, seed=0, **kwargs):
    """A policy whose weights are always the same and far from their first values."""
    kwargs = {"num_hidden": 8, **kwargs} if network == "mlp" else kwargs
    env = SimpleNamespace(observation_space=BOX, action_space=action)
    policy, rng = build_policy(env, network, policy_class=DuelingPolicy, **kwargs), np.random.default_rng(seed)
    for variable in policy.trainable_variables:
        variable.assign(rng.normal(scale=0.5, size=variable.shape))
    return policy


def observations(rows=5):
    return tf.constant(np.random.default_rng(1).normal(size=(rows, 3)), tf.float32)


def actions_of(policy, outputs, count, seed=2):
    noise = policy.head.draw_noise(np.random.default_rng(seed), (count, len(outputs.flat)))
    return [policy.head.distribution(outputs.flat).sample(one) for one in noise]


def advantage_by_hand(policy, features, action):
    kernel, bias, head, head_bias = (variable.numpy() for variable in policy.trainable_variables[-4:])
    x = np.concatenate([features, np.reshape(action, (len(action), -1))], axis=-1)
    return (np.tanh(x @ kernel + bias) @ head + head_bias)[:, 0]


@shapes
@pytest.mark.parametrize(
    "kwargs",
    [{}, {"value_network": "copy", "num_layers": 1}, {"value_network": "mlp"}],
    ids=["shared", "copy", "wider"],
)
def test_q_is_v_and_the_centred_advantage(action, kwargs):
    policy = make(action=action, **kwargs)
    outputs = policy.forward(observations())
    asked, centre = actions_of(policy, outputs, 2), actions_of(policy, outputs, 3, seed=3)
    middle = np.mean([advantage_by_hand(policy, outputs.features, one) for one in centre], axis=0)
    for q, one in zip(policy.q_of(outputs.features, outputs.value, asked, centre), asked, strict=True):
        assert q.shape == (5,)
        expected = outputs.value + advantage_by_hand(policy, outputs.features, one) - middle
        np.testing.assert_allclose(q, expected, rtol=1e-4, atol=1e-5)


@shapes
def test_the_mean_of_q_over_the_policys_actions_is_v(action):
    """Independent samples centre the advantage: the mean is V up to the error of so many samples."""
    policy = make(action=action)
    # Wide actions, so that the advantage bends over them: its mean is far from what it is at the mode.
    policy.logstd.assign(np.full(policy.logstd.shape, 0.5))
    one = policy.forward(observations(1))
    outputs = one._replace(
        **{name: tf.repeat(getattr(one, name), SAMPLES, 0) for name in ("flat", "value", "features")}
    )
    asked, *centre = actions_of(policy, outputs, 6)
    (q,) = policy.q_of(outputs.features, outputs.value, [asked], centre)
    difference = q.numpy() - one.value.numpy()
    error = difference.std() / np.sqrt(SAMPLES)
    assert abs(difference.mean()) < 3 * error
    mode = policy.head.distribution(outputs.flat).mode()
    (biased,) = policy.q_of(outputs.features, outputs.value, [asked], [mode])
    (uncentred,) = policy.q_of(outputs.features, outputs.value, [asked], [asked * 0.0])
    for q_wrong in (biased, uncentred):
        assert abs((q_wrong.numpy() - one.value.numpy()).mean()) > 6 * error


def test_the_actions_that_centre_q_have_v_for_their_mean():
    policy = make()
    outputs = policy.forward(observations())
    centre = actions_of(policy, outputs, 4)
    qs = policy.q_of(outputs.features, outputs.value, centre, centre)
    assert np.ptp(qs, axis=0).min() > 1e-2
    np.testing.assert_allclose(np.mean(qs, axis=0), outputs.value, rtol=1e-4, atol=1e-5)


def test_the_advantage_comes_after_the_policys_own_variables():
    policy = make()
    names = [variable.path for variable in policy.trainable_variables]
    assert names[-4:] == ["advantage_hidden/kernel", "advantage_hidden/bias", "advantage/kernel", "advantage/bias"]
    assert len(set(names)) == len(names) == 4 + 2 + 1 + 2 + 4
    assert not any(name.startswith("advantage") for name in (v.path for v in policy.acting_variables))


def test_gradients_of_q_reach_v_and_the_advantage():
    policy = make()
    variables = [variable.value for variable in policy.trainable_variables]
    actions = tf.constant(np.random.default_rng(0).normal(size=(3, 5, 2)), tf.float32)
    with tf.GradientTape() as tape:
        outputs = policy.forward(observations())
        (q,) = policy.q_of(outputs.features, outputs.value, [actions[0]], [actions[1], actions[2]])
        total = tf.reduce_sum(q * tf.range(1.0, 6.0))
    gradients = dict(zip((v.path for v in policy.trainable_variables), tape.gradient(total, variables), strict=True))
    # The advantage's own bias cancels, and the policy's head has no part in Q.
    idle = {"advantage/bias", "pi/kernel", "pi/bias", "logstd"}
    for name, gradient in gradients.items():
        size = 0.0 if gradient is None else np.abs(gradient).max()
        assert (size < 1e-5) == (name in idle), name


def test_recurrent_features_carry_memory():
    policy = make("lstm", nlstm=4)
    obs, episode_start = tf.zeros((6, 3)), np.zeros(6)
    features = policy.forward(obs, episode_start, policy.initial_state(2)).features
    assert features.shape == (6, 4)
    (q,) = policy.q_of(features, tf.zeros(6), [tf.ones((6, 2))], [tf.zeros((6, 2))])
    np.testing.assert_allclose(q[:3], q[3:], rtol=1e-6, atol=1e-6)
    assert np.ptp(q[:3]) > 1e-4


def test_a_restored_policy_has_the_saved_q(tmp_path):
    policy, other = make(seed=0), make(seed=1)
    save_tree(tmp_path / "model", policy.state())
    outputs = policy.forward(observations())
    asked = actions_of(policy, outputs, 2)

    def q_of(one):
        return one.q_of(outputs.features, outputs.value, asked[:1], asked[1:])[0].numpy()

    assert np.abs(q_of(policy) - q_of(other)).max() > 1e-3
    other.restore(load_tree(tmp_path / "model"))
    np.testing.assert_array_equal(q_of(policy), q_of(other))
