"""Networks by name.

A builder takes the network's own arguments and returns ``network_fn(input_shape) -> keras.Model``. One more function
adds a network:

    @register("two_towers")
    def two_towers(width=32):
        def network_fn(input_shape):
            ...
            return keras.Model(inputs, latent)
        return network_fn

Recurrent models are called with [x, episode_start, states], return [latent, new_states] and have a ``state_size``.
"""

import functools
import importlib
import inspect
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.arrays import require_memory
from tfbaselines.errors import UsageError, bad_argument, nearest, unknown
from tfbaselines.limits import limit_of
from tfbaselines.policy.image_features import convolved, dense_layer, impala_features, nature_cnn, simple_cnn, small_cnn
from tfbaselines.policy.network_forms import builder_of, network_function, of_shape_or_tensor
from tfbaselines.policy.recurrent import MaskedLSTM

NetworkFn = Callable[[tuple[int, ...]], keras.Model]
Builder = Callable[..., NetworkFn]
# A registered network's name, or a builder.
NetworkSpec = str | Builder

NETWORKS: dict[str, Builder] = {}

# The epsilon of the layer norm that the original's mlp uses.
MLP_LAYER_NORM_EPSILON = 1e-12

# float32: the weight itself, its gradient, and two slots of the optimiser.
BYTES_PER_WEIGHT = 4 * 4


def register(name: str) -> Callable[[Builder], Builder]:
    """Decorator that registers a builder as `name`."""

    def add(builder: Builder) -> Builder:
        NETWORKS[name] = builder
        return builder

    return add


def get_network_builder(name: NetworkSpec) -> Builder:
    """The builder registered as `name`, with a check of its arguments' names.

    Args:
        name: a registered name; 'module:name' imports the module that registers it; a function without required
            arguments is a builder itself, one of a tensor the network itself, as in baselines (see network_function).
    """
    if callable(name):
        return builder_of(name)
    if not isinstance(name, str):
        raise bad_argument("network", name, "the name of a network, such as mlp, or a function that builds one")
    if ":" in name:
        whole, (module, name) = name, name.split(":", 1)
        try:
            imported = importlib.import_module(module)
        except (ImportError, TypeError) as error:
            raise bad_argument("network", whole, f"module '{module}' cannot be imported ({error})") from None
        if name not in NETWORKS and hasattr(imported, name):
            raise bad_argument("network", whole, f'{module} does not register it: put @register("{name}") above it')
    if name not in NETWORKS:
        raise unknown("network", name, NETWORKS)

    @functools.wraps(NETWORKS[name])
    def checked(**kwargs: Any) -> NetworkFn:
        check_network_kwargs(name, kwargs)
        return network_function(NETWORKS[name](**kwargs))

    return checked


def check_network_kwargs(name: str, kwargs: dict[str, Any]) -> None:
    """ValueError naming the nearest argument when the network has no argument of some name."""
    parameters = inspect.signature(NETWORKS[name]).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    accepted = [parameter.name for parameter in parameters]
    for key in kwargs:
        if key not in accepted:
            guess = nearest(key, accepted)
            hint = f"did you mean '{guess}'?" if guess else f"it has {', '.join(accepted) or 'none'}"
            raise UsageError(f"unknown argument '{key}' of network '{name}': {hint}")


def check_sizes(**sizes: int | Sequence[int]) -> None:
    """ValueError for sizes, or lists of them, that are not whole numbers from 1 to the limit of their name."""
    for name, given in sizes.items():
        several = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str)
        whole = [isinstance(n, int | np.integer) and 1 <= n <= limit_of(name) for n in (given if several else [given])]
        if not whole or not all(whole):
            each = "at least one number, each " if several else ""
            raise bad_argument(name, given, f"{each}at least 1, at most {limit_of(name)}, and whole")


def require_weights(argument: str, input_shape: tuple[int, ...], widths: Sequence[int]) -> None:
    """ValueError when dense layers, with what trains them, exceed the free memory."""
    weights = sum(before * after for before, after in itertools.pairwise([math.prod(input_shape), *widths]))
    require_memory(weights * BYTES_PER_WEIGHT, argument, "the network")


def layers_of(*modules: Any) -> Iterator[keras.layers.Layer]:
    """All layers of networks and layers, those of nested networks included; anything else has none."""
    for module in modules:
        if isinstance(module, keras.Model):
            yield from layers_of(*module.layers)
        elif isinstance(module, keras.layers.Layer):
            yield module


def has_convolutions(*modules: Any) -> bool:
    """Whether a network or layer convolves images."""
    return any(isinstance(layer, keras.layers.Conv2D) for layer in layers_of(*modules))


def run_network(network: keras.Model, x: tf.Tensor) -> tf.Tensor:
    """The output of a network without memory, as rows [B, width]."""
    latent = network(x)
    return latent if len(latent.shape) == 2 else tf.reshape(latent, (-1, flat_width(network)))


def flat_width(network: keras.Model) -> int:
    """Numbers in one row of a network's output."""
    shape = network.output_shape
    shape = shape[0] if isinstance(shape, list) or isinstance(shape[0], tuple) else shape
    return int(np.prod(shape[1:]))


@register("mlp")
def mlp(
    num_layers: int = 2, num_hidden: int = 64, activation: str | Callable = "tanh", layer_norm: bool = False
) -> NetworkFn:
    """Fully connected layers.

    Args:
        num_layers: number of layers.
        num_hidden: units in each layer.
        activation: a Keras activation's name, or a function.
        layer_norm: normalise each layer before its activation.
    """
    check_sizes(num_layers=num_layers, num_hidden=num_hidden)
    activation = _activation(activation)

    @of_shape_or_tensor
    def network_fn(input_shape: tuple[int, ...]) -> keras.Model:
        require_weights("num_hidden", input_shape, [num_hidden] * num_layers)
        x = inputs = keras.Input(input_shape)
        if len(input_shape) != 1:
            x = keras.layers.Flatten()(x)
        for k in range(num_layers):
            x = dense_layer(num_hidden, None if layer_norm else activation, f"mlp_fc{k}")(x)
            if layer_norm:
                x = keras.layers.LayerNormalization(epsilon=MLP_LAYER_NORM_EPSILON)(x)
                x = keras.layers.Activation(activation)(x)
        return keras.Model(inputs, x)

    return network_fn


@register("dense")
def dense(hidden_sizes: Sequence[int] = (256, 256), activation: str | Callable = "relu") -> NetworkFn:
    """Fully connected layers as in Spinning Up, with Glorot initialisation.

    Args:
        hidden_sizes: units in each layer.
        activation: a Keras activation's name, or a function.
    """
    check_sizes(hidden_sizes=hidden_sizes)
    sizes, activation = tuple(hidden_sizes), _activation(activation)

    @of_shape_or_tensor
    def network_fn(input_shape: tuple[int, ...]) -> keras.Model:
        require_weights("hidden_sizes", input_shape, sizes)
        x = inputs = keras.Input(input_shape)
        if len(input_shape) != 1:
            x = keras.layers.Flatten()(x)
        for k, size in enumerate(sizes):
            x = keras.layers.Dense(size, activation, name=f"dense_{k}")(x)
        return keras.Model(inputs, x)

    return network_fn


@register("cnn")
def cnn(pad: str = "VALID", one_dim_bias: bool = False) -> NetworkFn:
    """The network of Mnih et al. 2015: three convolutions and 512 units.

    Args:
        pad: 'VALID', or 'SAME' to pad the image in every convolution.
        one_dim_bias: accepted for compatibility: biases have one dimension either way, the numbers are the same.
    """
    return _image_network(lambda x: nature_cnn(x, pad))


@register("cnn_small")
def cnn_small(pad: str = "VALID", one_dim_bias: bool = False) -> NetworkFn:
    """Two small convolutions and 128 units.

    Args:
        pad: as for cnn.
        one_dim_bias: as for cnn.
    """
    return _image_network(lambda x: small_cnn(x, pad))


@register("cnn_simple")
def cnn_simple() -> NetworkFn:
    """Two convolutions and 256 units: an encoder of small images."""
    return _image_network(simple_cnn)


@register("conv_only")
def conv_only(convs: Sequence[tuple[int, int, int]] = ((32, 8, 4), (64, 4, 2), (64, 3, 1))) -> NetworkFn:
    """Padded convolutions alone; the output is an image, not flattened.

    Args:
        convs: (number of filters, their size, stride) of each layer.
    """
    if not convs or any(not isinstance(layer, list | tuple) or len(layer) != 3 for layer in convs):
        raise bad_argument("convs", convs, "a list of (number of filters, their size, stride)")
    check_sizes(convs=[number for layer in convs for number in layer])
    return _image_network(lambda x: convolved(x, convs))


@register("impala_cnn")
def impala_cnn(depths: Sequence[int] = (16, 32, 32)) -> NetworkFn:
    """The residual network of Espeholt et al. 2018.

    Args:
        depths: number of filters of each block.
    """
    check_sizes(depths=depths)
    return _image_network(lambda x: impala_features(x, depths))


@register("lstm")
def lstm(nlstm: int = 128, layer_norm: bool = False) -> NetworkFn:
    """LSTM over the observation itself.

    Args:
        nlstm: units.
        layer_norm: normalise inside the cell.
    """
    return _recurrent_network(lambda x: x if len(x.shape) == 2 else keras.layers.Flatten()(x), nlstm, layer_norm)


@register("cnn_lstm")
def cnn_lstm(nlstm: int = 128, layer_norm: bool = False, conv_fn: str | Callable = "nature_cnn") -> NetworkFn:
    """LSTM over the features of a convolutional network.

    Args:
        nlstm: units.
        layer_norm: normalise inside the cell.
        conv_fn: 'nature_cnn', 'impala_cnn', or a function from a Keras tensor of pixels to features.
    """
    known = {"nature_cnn": nature_cnn, "impala_cnn": impala_features}
    if isinstance(conv_fn, str) and conv_fn not in known:
        raise unknown("conv_fn", conv_fn, known)
    return _recurrent_network(known[conv_fn] if isinstance(conv_fn, str) else conv_fn, nlstm, layer_norm)


@register("cnn_lnlstm")
def cnn_lnlstm(nlstm: int = 128) -> NetworkFn:
    """cnn_lstm with layer_norm.

    Args:
        nlstm: units.
    """
    return cnn_lstm(nlstm, layer_norm=True)


@register("impala_cnn_lstm")
def impala_cnn_lstm(nlstm: int = 256, layer_norm: bool = False) -> NetworkFn:
    """LSTM over the features of impala_cnn.

    Args:
        nlstm: units.
        layer_norm: normalise inside the cell.
    """
    return cnn_lstm(nlstm, layer_norm, conv_fn="impala_cnn")


@register("table")
def table() -> NetworkFn:
    """No network, but a value for each cell of the observations and each action: of qlearning alone."""

    def network_fn(input_shape: tuple[int, ...]) -> keras.Model:
        raise bad_argument("network", "table", "a table is for --alg=qlearning")

    return network_fn


def _image_network(features: Callable[[Any], Any]) -> NetworkFn:
    @of_shape_or_tensor
    def network_fn(input_shape: tuple[int, ...]) -> keras.Model:
        inputs = keras.Input(input_shape)
        return keras.Model(inputs, features(inputs))

    return network_fn


def _recurrent_network(features: Callable[[Any], Any], nlstm: int, layer_norm: bool) -> NetworkFn:
    check_sizes(nlstm=nlstm)

    def network_fn(input_shape: tuple[int, ...]) -> keras.Model:
        require_weights("nlstm", (), [nlstm, 4 * nlstm])
        inputs = [keras.Input(input_shape), keras.Input(()), keras.Input((2 * nlstm,))]
        cell = MaskedLSTM(nlstm, layer_norm, name="lnlstm" if layer_norm else "lstm")
        model = keras.Model(inputs, cell([features(inputs[0]), *inputs[1:]]))
        model.state_size = 2 * nlstm
        return model

    return network_fn


def _activation(activation: str | Callable) -> Callable:
    try:
        return keras.activations.get(activation)
    except ValueError:
        known = [key for key in dir(keras.activations) if key.islower() and not key.startswith("_")]
        raise unknown("activation", str(activation), known) from None
