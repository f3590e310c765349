"""Trunks below the layers of actors, critics and policies: an encoder for each image, and an LSTM for memory."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.envs.vec.observations import ONLY, is_image, parts_of, parts_of_obs
from tfbaselines.errors import UsageError, bad_argument, unknown
from tfbaselines.policy.encoding import encoded_shape
from tfbaselines.policy.layers import (
    flat_width,
    has_convolutions,
    model_with_memory,
    run_network,
    run_with_memory,
    state_size_of,
)
from tfbaselines.policy.networks import NetworkFn, NetworkSpec, get_network_builder
from tfbaselines.policy.recurrent import MaskedLSTM

# Registered networks by ML-Agents' names of image encoders.
DEFAULT_ENCODER = "simple"
ENCODERS = {"simple": "cnn_simple", "nature_cnn": "cnn", "resnet": "impala_cnn"}
WITHOUT_CONVOLUTIONS = ("mlp", "dense", "simba", "lstm")


class Trunk:
    """Computes rows of features from encoded observations.

    Each image passes through its own encoder; other parts pass unchanged. All parts are concatenated, and pass through
    an LSTM if the trunk has memory.

    Attributes:
        names: names of the parts in the order of the features.
        encoders: encoders of the images, by the parts' names.
        cell: the LSTM, or None.

    Args:
        encoder_fn: builds the encoder of an image from its shape; None without images.
    """

    def __init__(self, space: spaces.Space, encoder_fn: NetworkFn | None, memory: int = 0) -> None:
        parts = parts_of(space)
        self.names = list(parts)
        self._dict = isinstance(space, spaces.Dict)
        self.encoders = {name: encoder_fn(part.shape) for name, part in parts.items() if is_image(part)}
        width = sum(
            flat_width(self.encoders[name]) if name in self.encoders else int(np.prod(encoded_shape(part)))
            for name, part in parts.items()
        )
        self.cell = None
        self.width = width
        self.state_size = 2 * memory
        if memory:
            self.cell = MaskedLSTM(memory)
            self.cell.build([(None, width), (None,), (None, 2 * memory)])
            self.width = memory

    @property
    def chained(self) -> bool:
        """True if the modules form a chain over the observation, or over the parts of a Dict side by side."""
        return self.cell is None and not (self._dict and self.encoders)

    @property
    def modules(self) -> list[Any]:
        return [*self.encoders.values(), *([] if self.cell is None else [self.cell])]

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        return [variable for module in self.modules for variable in module.trainable_variables]

    def __call__(
        self, encoded: Any, episode_start: tf.Tensor | None, states: tf.Tensor | None
    ) -> tuple[tf.Tensor, Any]:
        """Compute features [B, width] and new states [num_envs, state_size] (None without memory)."""
        parts = parts_of_obs(encoded)
        rows = [
            run_network(self.encoders[name], parts[name])
            if name in self.encoders
            else tf.reshape(parts[name], (-1, int(np.prod(parts[name].shape[1:]))))
            for name in self.names
        ]
        features = rows[0] if len(rows) == 1 else tf.concat(rows, axis=-1)
        if self.cell is None:
            return features, None
        return tuple(self.cell([features, episode_start, states]))


class NetworkTrunk:
    """A registered network with its own convolutions or memory, used as a trunk."""

    def __init__(self, network: keras.Model) -> None:
        self._network = network
        self.width = flat_width(network)
        self.state_size = state_size_of(network)
        self.modules = [network]
        self.chained = not self.state_size

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        return self._network.trainable_variables

    def __call__(
        self, encoded: Any, episode_start: tf.Tensor | None, states: tf.Tensor | None
    ) -> tuple[tf.Tensor, Any]:
        return run_with_memory(self._network, parts_of_obs(encoded)[ONLY], episode_start, states)


def trunk_maker(
    network_fn: NetworkFn, whole: bool, vis_encode_type: str = DEFAULT_ENCODER, memory: int = 0
) -> Callable[[spaces.Space], Trunk | NetworkTrunk]:
    """Make a function that builds the trunk below a network's layers from a space without action mask.

    Args:
        whole: the network takes observations (see takes_observations) and is a trunk itself.
        vis_encode_type: encoder of images below a dense network: simple, nature_cnn or resnet.
    """
    if vis_encode_type not in ENCODERS:
        raise unknown("vis_encode_type", vis_encode_type, ENCODERS)
    if whole:
        return lambda space: NetworkTrunk(network_fn(encoded_shape(space)))

    def make(space: spaces.Space) -> Trunk:
        parts = parts_of(space).values()
        floats = any(len(part.shape or ()) == 3 for part in parts) and not any(map(is_image, parts))
        if vis_encode_type != DEFAULT_ENCODER and floats:
            accepted = "images are uint8 [H, W, C]; those of floats go through --network=cnn"
            raise bad_argument("vis_encode_type", vis_encode_type, accepted)
        return Trunk(space, get_network_builder(ENCODERS[vis_encode_type])(), memory)

    return make


def takes_observations(network_fn: NetworkFn, space: spaces.Space) -> bool:
    """Check whether a network has convolutions or memory: it then takes observations, not features."""
    try:
        network = network_fn((1,) if isinstance(space, spaces.Dict) else encoded_shape(space))
        whole = has_convolutions(network) or state_size_of(network) > 0
    except ValueError:
        if not isinstance(space, spaces.Dict):
            raise
        whole = True
    if whole and isinstance(space, spaces.Dict):
        raise UsageError(
            "Dict observations need a dense network, mlp or dense: vis_encode_type chooses the encoder of images below "
            "it, memory_size (of sac and td3) its memory"
        )
    return whole


def network_for(network: NetworkSpec, space: spaces.Space, **kwargs: Any) -> NetworkFn:
    """Look up a network for observations: images reach a registered dense network or LSTM through the default encoder.

    As pixels from 0 to 255 they would saturate it. A user's own network gets observations as they are.
    """
    network_fn = get_network_builder(network)(**kwargs)
    if network not in WITHOUT_CONVOLUTIONS or not is_image(space):
        return network_fn

    def encoded(input_shape: tuple[int, ...]) -> keras.Model:
        inputs = keras.Input(input_shape)
        network = network_over(network_fn, spaces.Dict({ONLY: space}))
        state_size = state_size_of(network)
        if not state_size:
            return keras.Model(inputs, network({ONLY: inputs}))
        return model_with_memory(inputs, state_size, lambda memory: network([{ONLY: inputs}, *memory]))

    return encoded


def network_over(network_fn: NetworkFn, space: spaces.Space) -> keras.Model:
    """Build a network over encoded observations; Dict observations make it take a dictionary.

    Each image of a Dict passes through an encoder: the network itself if it has convolutions, the default encoder
    otherwise. In the second case the network takes the features and the other parts side by side.
    """
    if not isinstance(space, spaces.Dict):
        return network_fn(encoded_shape(space))
    convolves = _convolves(network_fn)
    encoder_fn = network_fn if convolves else get_network_builder(ENCODERS[DEFAULT_ENCODER])()
    inputs = {
        # Keras takes no slashes in names.
        name: keras.Input(encoded_shape(part), name=name.replace("/", "."))
        for name, part in space.spaces.items()
    }
    rows = [_row(inputs[name], encoder_fn if is_image(part) else None) for name, part in space.spaces.items()]
    features = rows[0] if len(rows) == 1 else keras.layers.Concatenate()(rows)
    if convolves:
        return keras.Model(inputs, features)
    network = network_fn((features.shape[-1],))
    state_size = state_size_of(network)
    if not state_size:
        return keras.Model(inputs, _flat(network(features), network))
    return model_with_memory(inputs, state_size, lambda memory: network([features, *memory]))


def _row(part: keras.KerasTensor, encoder_fn: Callable | None) -> keras.KerasTensor:
    if encoder_fn is None:
        return part if len(part.shape) == 2 else keras.layers.Reshape((int(np.prod(part.shape[1:])),))(part)
    encoder = encoder_fn(tuple(part.shape[1:]))
    if state_size_of(encoder):
        raise UsageError("Dict observations with images and memory need network='lstm', which encodes images itself")
    return _flat(encoder(part), encoder)


def _flat(latent: keras.KerasTensor, network: keras.Model) -> keras.KerasTensor:
    return latent if len(latent.shape) == 2 else keras.layers.Reshape((flat_width(network),))(latent)


def _convolves(network_fn: NetworkFn) -> bool:
    """Check whether a network has convolutions, which refuse rows of numbers."""
    try:
        return has_convolutions(network_fn((1,)))
    except ValueError:
        return True
