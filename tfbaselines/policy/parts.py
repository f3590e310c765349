"""Networks over observations of several parts, with an encoder for each image, and the parts of an action mask."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from gymnasium import spaces

from tfbaselines.envs.vec.action_mask import MASK as ACTION_MASK
from tfbaselines.envs.vec.observations import ONLY, is_image, parts_of
from tfbaselines.envs.vec.packed import opened
from tfbaselines.policy.encoding import encoded_shape
from tfbaselines.policy.networks import NetworkFn, flat_width, get_network_builder, has_convolutions

# Added to the logits, or values, of actions that the action mask forbids.
FORBIDDEN = -1e9

# Of images, below a network without convolutions.
ENCODER = "cnn_simple"


def without_mask(space: spaces.Space) -> spaces.Space:
    """The observation space of the networks: all parts but the action mask."""
    parts = parts_of(space)
    if ACTION_MASK not in parts:
        return space
    rest = {name: part for name, part in parts.items() if name != ACTION_MASK}
    return rest[ONLY] if list(rest) == [ONLY] else spaces.Dict(rest)


def networks_part(encoded: Any, seen: spaces.Space) -> Any:
    """What the networks take of observations as `encode` gives them: all parts but the action mask.

    Args:
        encoded: [B, ...], or a dictionary.
        seen: the space of what they take, by `without_mask`.
    """
    if not isinstance(encoded, dict):
        return encoded
    rest = {name: part for name, part in encoded.items() if name != ACTION_MASK}
    return rest if isinstance(seen, spaces.Dict) else rest[ONLY]


def seen_in_numpy(policy: Any) -> tuple[bool, spaces.Space | None]:
    """Whether numpy can take a policy's observations apart, and what is left without the mask; None without one.

    Args:
        policy: of observations whose parts its networks take, and perhaps of a mask.
    """
    space = opened(policy.observation_space)
    if not policy.masked:
        return not isinstance(space, spaces.Dict), None
    rest = without_mask(space)
    # Statistics of a Dict are those of each of its parts.
    return not (isinstance(rest, spaces.Dict) or policy.normalizer), rest


def network_over(network_fn: NetworkFn, space: spaces.Space) -> keras.Model:
    """A network over observations, as `encode` gives them; of Dict observations it takes a dictionary.

    Each image of a Dict passes through an encoder: the network itself if it has convolutions, and else ENCODER, above
    which the network takes the features and what is not an image side by side.

    Args:
        network_fn: builds the network.
        space: of observations, without an action mask.
    """
    if not isinstance(space, spaces.Dict):
        return network_fn(encoded_shape(space))
    convolves = _convolves(network_fn)
    encoder_fn = network_fn if convolves else get_network_builder(ENCODER)()
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
    state_size = getattr(network, "state_size", None)
    if not state_size:
        return keras.Model(inputs, _flat(network(features), network))
    memory = [keras.Input(()), keras.Input((state_size,))]
    model = keras.Model([inputs, *memory], network([features, *memory]))
    model.state_size = state_size
    return model


def _row(part: keras.KerasTensor, encoder_fn: Callable | None) -> keras.KerasTensor:
    """A part as a row of features."""
    if encoder_fn is None:
        return part if len(part.shape) == 2 else keras.layers.Reshape((int(np.prod(part.shape[1:])),))(part)
    encoder = encoder_fn(tuple(part.shape[1:]))
    if getattr(encoder, "state_size", None):
        raise ValueError("Dict observations with images and memory need network='lstm', which encodes images itself")
    return _flat(encoder(part), encoder)


def _flat(latent: keras.KerasTensor, network: keras.Model) -> keras.KerasTensor:
    return latent if len(latent.shape) == 2 else keras.layers.Reshape((flat_width(network),))(latent)


def _convolves(network_fn: NetworkFn) -> bool:
    """Whether a network has convolutions, which refuse rows of numbers."""
    try:
        return has_convolutions(network_fn((1,)))
    except ValueError:
        return True
