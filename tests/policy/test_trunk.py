"""Trunks: every part of an observation in its place, and memory over all of them."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.envs.vec.observations import MASK, ONLY
from tfbaselines.policy.encoding import encode, encoded_shape
from tfbaselines.policy.layers import has_convolutions
from tfbaselines.policy.networks import get_network_builder
from tfbaselines.policy.trunk import NetworkTrunk, Trunk

BOX = spaces.Box(-3, 3, (3,), np.float32)
CAMERA = spaces.Box(0, 255, (9, 8, 3), np.uint8)
SMALLER = spaces.Box(0, 255, (5, 5, 1), np.uint8)
VECTORS = {
    "box": BOX,
    "table": spaces.Box(-3, 3, (2, 3), np.float32),
    "number": spaces.Box(-3, 3, (), np.float32),
    "discrete": spaces.Discrete(4, start=-1),
    "multidiscrete": spaces.MultiDiscrete([3, 2]),
    "multibinary": spaces.MultiBinary([2, 2]),
}
SEVERAL = spaces.Dict(speed=BOX, front=CAMERA, back=SMALLER, gear=spaces.Discrete(5))


def encoder(shape):
    """Two convolutions whose output is not flat."""
    inputs = keras.Input(shape)
    x = keras.layers.Conv2D(2, 3, activation="relu")(keras.layers.Rescaling(1 / 255)(inputs))
    return keras.Model(inputs, keras.layers.Conv2D(1, 2)(x))


def batch(space, rows=6):
    """Encoded observations."""
    space.seed(0)
    samples = [space.sample() for _ in range(rows)]
    if isinstance(space, spaces.Dict):
        return encode({name: np.stack([sample[name] for sample in samples]) for name in space}, space)
    return encode(np.stack(samples), space)


def encoded(trunk, number, obs):
    """Output of one of the trunk's encoders, as rows."""
    return np.reshape(trunk.modules[number](obs), (len(obs), -1))


@pytest.mark.parametrize("space", VECTORS.values(), ids=VECTORS)
def test_numbers_alone_are_taken_as_they_are(space):
    trunk, obs = Trunk(space, None), batch(space)
    features, states = trunk(obs, None, None)
    np.testing.assert_array_equal(features, np.reshape(obs, (6, -1)))
    assert trunk.width == features.shape[1] and states is None and trunk.state_size == 0
    assert trunk.chained and trunk.modules == trunk.trainable_variables == []


def test_a_picture_goes_through_its_encoder():
    trunk, obs = Trunk(CAMERA, encoder), batch(CAMERA)
    features, _ = trunk(obs, None, None)
    np.testing.assert_array_equal(features, encoded(trunk, 0, obs))
    assert features.shape == (6, trunk.width) == (6, 6 * 5)
    assert trunk.chained and has_convolutions(*trunk.modules) and len(trunk.trainable_variables) == 4


def test_parts_lie_side_by_side_and_every_picture_has_an_encoder_of_its_own():
    trunk, obs = Trunk(SEVERAL, encoder), batch(SEVERAL)
    assert list(SEVERAL) == ["speed", "front", "back", "gear"] and len(trunk.modules) == 2
    features, _ = trunk(obs, None, None)
    front, back = encoded(trunk, 0, obs["front"]), encoded(trunk, 1, obs["back"])
    np.testing.assert_array_equal(features, np.concatenate([obs["speed"], front, back, obs["gear"]], axis=1))
    assert trunk.width == features.shape[1] == 3 + 30 + 4 + 5 and not trunk.chained
    shuffled = dict(reversed(obs.items()))
    np.testing.assert_array_equal(trunk(shuffled, None, None)[0], features)


@pytest.mark.parametrize("name", ["speed", ONLY])
def test_numbers_in_a_dictionary_are_taken_by_a_chain_and_pictures_are_not(name):
    trunk = Trunk(spaces.Dict({name: BOX}), None)
    np.testing.assert_array_equal(trunk({name: batch(BOX)}, None, None)[0], batch(BOX))
    assert trunk.chained
    assert not Trunk(spaces.Dict({name: CAMERA}), encoder).chained


@pytest.mark.parametrize("space", [BOX, CAMERA, SEVERAL], ids=["box", "camera", "several"])
def test_memory_is_above_all_parts(space):
    trunk, obs = Trunk(space, encoder, memory=4), batch(space)
    assert (trunk.width, trunk.state_size) == (4, 8) and not trunk.chained
    *encoders, cell = trunk.modules
    below = Trunk(space, lambda shape: encoders.pop(0))
    episode_start, states = tf.constant([0.0, 0, 1, 0, 0, 0]), tf.random.stateless_normal((2, 8), (1, 2))
    rows, new_states = trunk(obs, episode_start, states)
    expected, expected_states = cell([below(obs, None, None)[0], episode_start, states])
    np.testing.assert_allclose(rows, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(new_states, expected_states, rtol=1e-5, atol=1e-6)
    assert rows.shape == (6, 4) and new_states.shape == (2, 8)
    forgetting, _ = trunk(obs, episode_start, tf.zeros((2, 8)))
    changed = np.abs(rows - forgetting).max(axis=1) > 1e-6
    # The third row of the first environment begins an episode.
    assert changed.tolist() == [True, True, False, True, True, True]


def test_variables_are_those_of_encoders_and_then_of_memory():
    trunk = Trunk(SEVERAL, encoder, memory=4)
    front, back, cell = trunk.modules
    expected = [*front.trainable_variables, *back.trainable_variables, *cell.trainable_variables]
    assert [id(variable) for variable in trunk.trainable_variables] == [id(variable) for variable in expected]
    assert len(expected) == 4 + 4 + 3


@pytest.mark.parametrize(("name", "shape"), [("cnn_small", (36, 36, 2)), ("conv_only", (36, 36, 2)), ("mlp", (3,))])
def test_a_network_in_a_trunks_place_takes_the_whole_observation(name, shape):
    network = get_network_builder(name)()(shape)
    trunk = NetworkTrunk(network)
    obs = batch(spaces.Box(0, 255, shape, np.uint8 if len(shape) == 3 else np.float32))
    expected = np.reshape(network(obs), (6, -1))
    for given in (obs, {ONLY: obs, MASK: np.ones((6, 2))}):
        features, states = trunk(given, None, None)
        np.testing.assert_array_equal(features, expected)
    assert trunk.width == expected.shape[1] and states is None and trunk.state_size == 0
    assert trunk.chained
    assert trunk.modules == [network] and trunk.trainable_variables == network.trainable_variables


def test_a_recurrent_network_in_a_trunks_place_has_its_memory():
    network = get_network_builder("lstm")(nlstm=4)(encoded_shape(BOX))
    trunk, obs = NetworkTrunk(network), batch(BOX)
    episode_start, states = tf.constant([0.0, 0, 1, 0, 0, 0]), tf.random.stateless_normal((2, 8), (1, 2))
    features, new_states = trunk(obs, episode_start, states)
    expected, expected_states = network([obs, episode_start, states])
    np.testing.assert_array_equal(features, expected)
    np.testing.assert_array_equal(new_states, expected_states)
    assert (trunk.width, trunk.state_size) == (4, 8)
