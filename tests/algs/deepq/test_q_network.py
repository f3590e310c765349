"""Q-networks: what each branch adds, noise in the weights, masks, and the same numbers in numpy and in the graph."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.algs.deepq.loss import CategoricalReturn, QuantileReturn
from tfbaselines.algs.deepq.q_network import (
    SIGMA_ZERO,
    EpsilonGreedyHead,
    NoisyDense,
    QNetwork,
    build_q_network,
)
from tfbaselines.envs.vec.observations import MASK, ONLY
from tfbaselines.policy.actor import GraphActor, NumpyActor, make_actor

BOX, ACTIONS = spaces.Box(-3, 3, (3,), np.float32), spaces.Discrete(4, start=-1)
CLOSE = {"rtol": 1e-4, "atol": 1e-5}
KINDS = {
    "plain": {"dueling": False},
    "dueling": {},
    "layer_norm": {"layer_norm": True},
    "no hidden layers": {"hiddens": ()},
    "categorical": {"returns": CategoricalReturn(5, -2.0, 2.0)},
    "quantile": {"returns": QuantileReturn(3), "dueling": False},
    "noisy": {"noisy": True},
    "all": {"returns": CategoricalReturn(5, -2.0, 2.0), "noisy": True, "layer_norm": True},
}


def make(obs=BOX, network="mlp", arguments=None, **kind):
    """A Q-network none of whose weights is at its first value."""
    keras.utils.set_random_seed(0)
    env = SimpleNamespace(observation_space=obs, action_space=ACTIONS)
    if network == "mlp":
        arguments = {"num_hidden": 8, "num_layers": 1}
    policy = build_q_network(env, network, kind={"hiddens": (6,)} | kind, **(arguments or {}))
    rng = np.random.default_rng(0)
    for variable in policy.trainable_variables:
        variable.assign(variable.value + 0.3 * rng.normal(size=variable.shape))
    return policy


def observations(count=50, seed=1):
    return np.random.default_rng(seed).normal(size=(count, 3)).astype(np.float32)


def centred(values):
    return values - values.mean(axis=1, keepdims=True)


@pytest.mark.parametrize("kind", KINDS)
def test_numpy_and_the_graph_choose_alike(kind):
    policy, obs = make(**KINDS[kind]), observations()
    if policy.q_head.noise_size:
        policy = policy.with_noise()
        policy.noise.assign(np.random.default_rng(2).normal(size=policy.noise.shape))
    actor, graph = make_actor(policy), GraphActor(policy)
    assert isinstance(actor, NumpyActor)
    _, flat, _ = actor.behave(obs, None, None, np.zeros((50, 4), np.float32))
    _, expected, _ = graph.behave(obs, None, None, np.zeros((50, 4), np.float32))
    # Advantages alone have the values' order.
    np.testing.assert_allclose(centred(flat), centred(expected), **CLOSE)
    np.testing.assert_array_equal(actor.choose(obs, None, None, None)[0], expected.argmax(axis=1) - 1)
    np.testing.assert_allclose(actor.value(obs), expected.max(axis=1), **CLOSE)


def test_a_duelling_head_adds_the_state_to_centred_advantages():
    policy, x = make(), tf.constant(observations(5))
    features = policy.network(x)

    def through(layers):
        rows = features
        for layer in layers:
            rows = layer(rows)
        return rows.numpy()

    head = policy.q_head
    expected = through(head.state_layers) + centred(through(head.action_layers))
    np.testing.assert_allclose(policy.forward(x).flat, expected, **CLOSE)


def test_noise_of_zero_is_no_noise_and_other_noise_is_drawn_for_all_weights():
    # So large that each unit's input is above zero in some row, whatever its weights.
    policy, obs = make(noisy=True), 100 * observations()
    noisy, mean = policy.with_noise(), policy.forward(obs).flat.numpy()
    np.testing.assert_allclose(noisy.forward(obs).flat, mean, **CLOSE)
    for k in range(policy.q_head.noise_size):
        # Every number of the noise counts.
        noise = np.full(policy.q_head.noise_size, 1.0, np.float32)
        full = policy.outputs(obs, tf.constant(noise)).numpy()
        noise[k] = -1.0
        assert not np.allclose(policy.outputs(obs, tf.constant(noise)).numpy(), full, **CLOSE), k
    noisy.noise.assign(np.ones(policy.q_head.noise_size))
    assert not np.allclose(noisy.forward(obs).flat, mean, **CLOSE)
    np.testing.assert_allclose(policy.forward(obs).flat, mean, **CLOSE)


def test_a_noisy_layer_is_a_dense_layer_with_factorised_noise():
    layer, x = NoisyDense(2), tf.constant(observations(7))
    layer.build((None, 3))
    assert all((np.abs(v.numpy()) <= 3**-0.5).all() for v in (layer.kernel, layer.bias))
    assert all(np.allclose(v.numpy(), SIGMA_ZERO * 3**-0.5) for v in (layer.kernel_noise, layer.bias_noise))
    noise = np.random.default_rng(0).normal(size=5).astype(np.float32)
    f = np.sign(noise) * np.sqrt(np.abs(noise))
    kernel = layer.kernel.numpy() + layer.kernel_noise.numpy() * np.outer(f[:3], f[3:])
    bias = layer.bias.numpy() + layer.bias_noise.numpy() * f[3:]
    np.testing.assert_allclose(layer(x, tf.constant(noise)), x.numpy() @ kernel + bias, **CLOSE)


def test_what_the_mask_forbids_is_never_chosen():
    masked = spaces.Dict({ONLY: BOX, MASK: spaces.MultiBinary(4)})
    policy, rng = make(masked), np.random.default_rng(0)
    allowed = rng.integers(4, size=200)
    obs = {ONLY: observations(200), MASK: np.eye(4, dtype=np.int8)[allowed]}
    head = policy.head
    for noise in (None, head.draw_noise(rng, (200,), 1.0)):
        actions, _ = make_actor(policy).choose(obs, None, None, noise)
        np.testing.assert_array_equal(actions, allowed - 1)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_actions_are_random_with_probability_epsilon(epsilon):
    head, rng = EpsilonGreedyHead(ACTIONS, epsilon=0.5), np.random.default_rng(0)
    flat = np.tile(np.array([0.0, 5.0, 1e4, -3.0], np.float32), (4000, 1))
    actions = head.sample_numpy(flat, head.draw_noise(rng, (4000,), epsilon))
    shares = np.bincount(actions + 1, minlength=4) / 4000
    np.testing.assert_allclose(shares, np.eye(4)[2] * (1 - epsilon) + epsilon / 4, atol=0.03)
    own = head.sample_numpy(flat, head.draw_noise(rng, (4000,)))
    assert np.mean(own == 1) == pytest.approx(0.5 + 0.5 / 4, abs=0.03)


def test_noise_in_the_parameters_changes_dense_layers_above_the_network():
    policy = make(layer_norm=True)
    names = [variable.path for variable in policy.perturbed_variables]
    assert len(names) == 8 and not any("mlp" in name or "normalization" in name for name in names)


@pytest.mark.parametrize(
    ("obs", "network", "arguments"),
    [
        (spaces.Box(0, 255, (36, 36, 1), np.uint8), "conv_only", {"convs": [(4, 8, 4)]}),
        (spaces.Box(0, 255, (36, 36, 1), np.uint8), "mlp", {}),
        (spaces.Dict(image=spaces.Box(0, 255, (12, 12, 1), np.uint8), vector=BOX), "mlp", {}),
    ],
    ids=["conv_only", "mlp over an encoder", "several"],
)
def test_images(obs, network, arguments):
    policy = make(obs, network, arguments)
    sample = (
        {name: part.sample()[None] for name, part in obs.items()}
        if isinstance(obs, spaces.Dict)
        else obs.sample()[None]
    )
    values = policy.forward(sample).flat
    assert values.shape == (1, 4)
    actor = make_actor(policy)
    assert type(actor) is GraphActor
    assert actor.choose(sample, None, None, None)[0] == np.argmax(values) - 1
    # What numpy does not compute comes from the graph.
    np.testing.assert_allclose(actor.step(sample, None, None, None).values, [np.max(values)], **CLOSE)


def test_recurrent_networks_are_refused():
    with pytest.raises(ValueError, match="not recurrent"):
        make(network="lstm")


def test_without_a_network_the_head_stands_on_the_observation():
    policy = QNetwork(BOX, ACTIONS, None, hiddens=())
    assert [tuple(v.shape) for v in policy.trainable_variables] == [(3, 4), (4,), (3, 1), (1,)]
