"""Networks by name, and functions that stand for networks.

A builder takes the network's arguments and returns ``network_fn(input_shape) -> keras.Model``. One function adds a
network:

    @register("two_towers")
    def two_towers(width=32):
        def network_fn(input_shape):
            ...
            return keras.Model(inputs, latent)
        return network_fn

Recurrent models are called with [x, episode_start, states], return [latent, new_states] and have a ``state_size``.
"""

import functools
import inspect
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from tfbaselines.errors import bad_argument, unknown
from tfbaselines.files import require_memory
from tfbaselines.limits import FILTERS, LAYERS, UNITS
from tfbaselines.loading import import_named
from tfbaselines.policy.builders import Builder, NetworkFn, builder_of, check_names, network_function
from tfbaselines.policy.layers import (
    Dense,
    activations,
    convolved,
    dense_layer,
    impala_features,
    model_with_memory,
    named_activation,
    nature_cnn,
    simple_cnn,
    small_cnn,
)
from tfbaselines.policy.recurrent import MaskedLSTM
from tfbaselines.policy.residual import EXPANSION, LAYER_NORM_EPSILON, ResidualBlock

# A registered network's name, or a builder.
NetworkSpec = str | Builder

NETWORKS: dict[str, Builder] = {}

# The original's mlp uses this epsilon in its layer norm.
MLP_LAYER_NORM_EPSILON = 1e-12

# Training holds four float32 numbers per weight: the weight, its gradient, and two slots of the optimizer.
BYTES_PER_WEIGHT = 4 * 4


def register(name: str) -> Callable[[Builder], Builder]:
    """Register the decorated builder as `name`."""

    def add(builder: Builder) -> Builder:
        NETWORKS[name] = builder
        return builder

    return add


def get_network_builder(name: NetworkSpec) -> Builder:
    """Look up a builder; it checks the names of its arguments.

    Args:
        name: a registered name; 'module:name', which imports the module that registers it; a builder; or a function
            from a tensor to the latent, as in baselines.
    """
    if callable(name):
        return builder_of(name)
    if not isinstance(name, str):
        raise bad_argument("network", name, "the name of a network, such as mlp, or a function that builds one")
    if ":" in name:
        whole = name
        module, name = name.split(":", 1)
        try:
            imported = import_named(module)
        except (ImportError, TypeError) as error:
            raise bad_argument("network", whole, f"module '{module}' cannot be imported ({error})") from None
        if name not in NETWORKS and hasattr(imported, name):
            raise bad_argument("network", whole, f'{module} does not register it: put @register("{name}") above it')
    if name not in NETWORKS:
        raise unknown("network", name, NETWORKS)

    @functools.wraps(NETWORKS[name])
    def checked(**kwargs: Any) -> NetworkFn:
        check_names(name, inspect.signature(NETWORKS[name]).parameters.values(), kwargs)
        return network_function(NETWORKS[name](**kwargs))

    return checked


def check_sizes(limit: int, least: int = 1, fewest: int = 1, **sizes: int | Sequence[int]) -> None:
    """Raise an error unless sizes are whole numbers from `least` to a limit, in lists of at least `fewest`."""
    for name, given in sizes.items():
        several = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str)
        whole = [isinstance(n, int | np.integer) and least <= n <= limit for n in (given if several else [given])]
        if len(whole) < fewest or not all(whole):
            each = "at least one number, " * bool(fewest) + "each " if several else ""
            raise bad_argument(name, given, f"{each}at least {least}, at most {limit}, and whole")


def require_weights(argument: str, input_shape: tuple[int, ...], widths: Sequence[int]) -> None:
    """Raise an error if training dense layers of these widths would exceed the free memory."""
    weights = sum(before * after for before, after in itertools.pairwise([math.prod(input_shape), *widths]))
    require_memory(weights * BYTES_PER_WEIGHT, argument, "the network")


@register("mlp")
def mlp(
    num_layers: int = 2, num_hidden: int = 64, activation: str | Callable = "tanh", layer_norm: bool = False
) -> NetworkFn:
    """Build fully connected layers.

    Args:
        num_layers: number of layers; 0 for policies and values that are linear in the observation.
        num_hidden: units in each layer.
        activation: a Keras activation's name, or a function.
        layer_norm: normalize each layer before its activation.
    """
    check_sizes(LAYERS, least=0, num_layers=num_layers)
    check_sizes(UNITS, num_hidden=num_hidden)
    activation = _activation(activation)

    def layer(x: Any, size: int, k: int) -> Any:
        x = dense_layer(size, None if layer_norm else activation, f"mlp_fc{k}")(x)
        return _normalized(x, activation, MLP_LAYER_NORM_EPSILON) if layer_norm else x

    return _dense_network("num_hidden", [num_hidden] * num_layers, layer)


@register("dense")
def dense(
    hidden_sizes: Sequence[int] = (256, 256), activation: str | Callable = "relu", layer_norm: bool = False
) -> NetworkFn:
    """Build fully connected layers as in Spinning Up, with Glorot initialization.

    Args:
        hidden_sizes: units in each layer; no numbers for policies and values that are linear in the observation.
        activation: a Keras activation's name, or a function.
        layer_norm: normalize each layer before its activation.
    """
    check_sizes(UNITS, fewest=0, hidden_sizes=hidden_sizes)
    activation = _activation(activation)

    def layer(x: Any, size: int, k: int) -> Any:
        x = Dense(size, None if layer_norm else activation, name=f"dense_{k}")(x)
        return _normalized(x, activation, LAYER_NORM_EPSILON, f"layer_normalization_{k}") if layer_norm else x

    return _dense_network("hidden_sizes", tuple(hidden_sizes), layer)


@register("simba")
def simba(width: int = 128, blocks: int = 1) -> NetworkFn:
    """Build the residual network of SimBa (Lee et al. 2024): a dense layer, residual blocks, layer normalization.

    Args:
        width: units of the layers; four times as many inside a block.
        blocks: number of blocks.
    """
    check_sizes(UNITS, width=width)
    check_sizes(LAYERS, blocks=blocks)

    @_of_shape_or_tensor
    def network_fn(input_shape: tuple[int, ...]) -> keras.Model:
        require_weights("width", input_shape, [width, *[EXPANSION * width, width] * blocks])
        inputs = keras.Input(input_shape)
        x = keras.layers.Flatten()(inputs) if len(input_shape) != 1 else inputs
        x = dense_layer(width, None, "embedding", gain=1.0)(x)
        for k in range(blocks):
            x = ResidualBlock(name=f"block_{k}")(x)
        norm = keras.layers.LayerNormalization(epsilon=LAYER_NORM_EPSILON, name="layer_normalization")
        return keras.Model(inputs, norm(x))

    return network_fn


@register("cnn")
def cnn(pad: str = "VALID", one_dim_bias: bool = False) -> NetworkFn:
    """Build the network of Mnih et al. 2015: three convolutions and 512 units.

    Args:
        pad: 'VALID', or 'SAME' to pad the image in every convolution.
        one_dim_bias: accepted for compatibility; biases have one dimension either way.
    """
    return _image_network(lambda x: nature_cnn(x, pad))


@register("cnn_small")
def cnn_small(pad: str = "VALID", one_dim_bias: bool = False) -> NetworkFn:
    """Build two small convolutions and 128 units.

    Args:
        pad: padding of the convolutions, as in cnn.
        one_dim_bias: shape of the biases, as in cnn.
    """
    return _image_network(lambda x: small_cnn(x, pad))


@register("cnn_simple")
def cnn_simple() -> NetworkFn:
    """Build two convolutions and 256 units: an encoder for small images."""
    return _image_network(simple_cnn)


@register("conv_only")
def conv_only(convs: Sequence[tuple[int, int, int]] = ((32, 8, 4), (64, 4, 2), (64, 3, 1))) -> NetworkFn:
    """Build padded convolutions alone; the output is an image, not flattened.

    Args:
        convs: (number of filters, their size, stride) of each layer.
    """
    if not convs or any(not isinstance(layer, list | tuple) or len(layer) != 3 for layer in convs):
        raise bad_argument("convs", convs, "a list of (number of filters, their size, stride)")
    check_sizes(FILTERS, convs=[number for layer in convs for number in layer])
    return _image_network(lambda x: convolved(x, convs))


@register("impala_cnn")
def impala_cnn(depths: Sequence[int] = (16, 32, 32)) -> NetworkFn:
    """Build the residual network of Espeholt et al. 2018.

    Args:
        depths: number of filters of each block.
    """
    check_sizes(UNITS, depths=depths)
    return _image_network(lambda x: impala_features(x, depths))


@register("lstm")
def lstm(nlstm: int = 128, layer_norm: bool = False) -> NetworkFn:
    """Build an LSTM over the observation itself.

    Args:
        nlstm: units.
        layer_norm: normalize inside the cell.
    """
    return _recurrent_network(lambda x: x if len(x.shape) == 2 else keras.layers.Flatten()(x), nlstm, layer_norm)


@register("cnn_lstm")
def cnn_lstm(
    nlstm: int = 128, layer_norm: bool = False, conv_fn: str | Callable = "nature_cnn", **conv_kwargs: Any
) -> NetworkFn:
    """Build an LSTM over the features of a convolutional network.

    Args:
        nlstm: units.
        layer_norm: normalize inside the cell.
        conv_fn: 'nature_cnn', 'impala_cnn', or a function from a Keras tensor of pixels to features.
        conv_kwargs: further arguments of conv_fn, such as pad='SAME'.
    """
    known = {"nature_cnn": nature_cnn, "impala_cnn": impala_features}
    if isinstance(conv_fn, str) and conv_fn not in known:
        raise unknown("conv_fn", conv_fn, known)
    if conv_fn == "nature_cnn":
        # Biases have one dimension either way, as in cnn.
        conv_kwargs.pop("one_dim_bias", None)
    function = known.get(conv_fn, conv_fn)
    _, *parameters = inspect.signature(function).parameters.values()
    check_names("cnn_lstm", parameters, conv_kwargs)
    return _recurrent_network(functools.partial(function, **conv_kwargs), nlstm, layer_norm)


@register("cnn_lnlstm")
def cnn_lnlstm(nlstm: int = 128, **conv_kwargs: Any) -> NetworkFn:
    """Build cnn_lstm with layer_norm.

    Args:
        nlstm: units.
        conv_kwargs: arguments of the convolutions, as in cnn_lstm.
    """
    return cnn_lstm(nlstm, True, **conv_kwargs)


@register("impala_cnn_lstm")
def impala_cnn_lstm(nlstm: int = 256, layer_norm: bool = False) -> NetworkFn:
    """Build an LSTM over the features of impala_cnn.

    Args:
        nlstm: units.
        layer_norm: normalize inside the cell.
    """
    return cnn_lstm(nlstm, layer_norm, conv_fn="impala_cnn")


@register("table")
def table() -> NetworkFn:
    """Choose a table of values, one for each observation cell and action; only qlearning has one."""

    def network_fn(input_shape: tuple[int, ...]) -> keras.Model:
        raise bad_argument("network", "table", "a table is for --alg=qlearning")

    return network_fn


def _dense_network(argument: str, sizes: Sequence[int], layer: Callable[[Any, int, int], Any]) -> NetworkFn:
    """Make a network of dense layers."""

    @_of_shape_or_tensor
    def network_fn(input_shape: tuple[int, ...]) -> keras.Model:
        require_weights(argument, input_shape, sizes)
        x = inputs = keras.Input(input_shape)
        if len(input_shape) != 1:
            x = keras.layers.Flatten()(x)
        for k, size in enumerate(sizes):
            x = layer(x, size, k)
        return keras.Model(inputs, x)

    return network_fn


def _normalized(x: Any, activation: Callable, epsilon: float, name: str | None = None) -> Any:
    return keras.layers.Activation(activation)(keras.layers.LayerNormalization(epsilon=epsilon, name=name)(x))


def _image_network(features: Callable[[Any], Any]) -> NetworkFn:
    @_of_shape_or_tensor
    def network_fn(input_shape: tuple[int, ...]) -> keras.Model:
        inputs = keras.Input(input_shape)
        return keras.Model(inputs, features(inputs))

    return network_fn


def _recurrent_network(features: Callable[[Any], Any], nlstm: int, layer_norm: bool) -> NetworkFn:
    check_sizes(UNITS, nlstm=nlstm)

    def network_fn(input_shape: tuple[int, ...]) -> keras.Model:
        require_weights("nlstm", (), [nlstm, 4 * nlstm])
        inputs = keras.Input(input_shape)
        cell = MaskedLSTM(nlstm, layer_norm, name="lnlstm" if layer_norm else "lstm")
        return model_with_memory(inputs, 2 * nlstm, lambda memory: cell([features(inputs), *memory]))

    return network_fn


def _activation(activation: str | Callable) -> Callable:
    activation = named_activation(activation)
    try:
        return keras.activations.get(activation)
    except ValueError:
        raise unknown("activation", str(activation), activations().values()) from None


def _of_shape_or_tensor(network_fn: NetworkFn) -> Callable[[Any], Any]:
    """Let a network also be applied to a Keras tensor, as baselines allows for networks within networks."""

    @functools.wraps(network_fn)
    def applied(input_shape: Any) -> Any:
        if isinstance(input_shape, keras.KerasTensor):
            return network_fn(input_shape.shape[1:])(input_shape)
        return network_fn(input_shape)

    return applied
