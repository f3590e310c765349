"""The networks and their arguments, without TensorFlow: policy/networks.py builds them."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfbaselines.config.argument import Argument
from tfbaselines.config.config import Declared, arg
from tfbaselines.errors import unknown
from tfbaselines.limits import FILTERS, LAYERS, UNITS

# Keras's activations.
ACTIVATIONS = (
    *("celu", "elu", "exponential", "gelu", "hard_shrink", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh"),
    *("leaky_relu", "linear", "log_sigmoid", "log_softmax", "mish", "relu", "relu6", "selu", "sigmoid", "silu"),
    *("soft_shrink", "softmax", "softplus", "softsign", "sparse_plus", "sparse_sigmoid", "sparsemax", "squareplus"),
    *("swish", "tanh", "tanh_shrink"),
)


@dataclass(kw_only=True)
class Mlp(Declared):
    """Arguments of mlp."""

    num_layers: int = arg(2, "number of layers", limit=LAYERS)
    num_hidden: int = arg(64, "units of each layer", limit=UNITS)
    activation: str | Callable = arg("tanh", "a Keras activation's name, or a function", choices=ACTIVATIONS)
    layer_norm: bool = arg(False, "normalize each layer before its activation")


@dataclass(kw_only=True)
class Dense(Declared):
    """Arguments of dense."""

    hidden_sizes: Sequence[int] = arg((256, 256), "units of each layer", limit=UNITS)
    activation: str | Callable = arg("relu", "a Keras activation's name, or a function", choices=ACTIVATIONS)


@dataclass(kw_only=True)
class Cnn(Declared):
    """Arguments of cnn and cnn_small."""

    pad: str = arg("VALID", "'VALID', or 'SAME' to pad the image in every convolution")
    one_dim_bias: bool = arg(False, "accepted for compatibility; biases have one dimension either way")


@dataclass(kw_only=True)
class ConvOnly(Declared):
    """Arguments of conv_only."""

    convs: Sequence[tuple[int, int, int]] = arg(
        ((32, 8, 4), (64, 4, 2), (64, 3, 1)), "(number of filters, their size, stride) of each layer", limit=FILTERS
    )


@dataclass(kw_only=True)
class ImpalaCnn(Declared):
    """Arguments of impala_cnn."""

    depths: Sequence[int] = arg((16, 32, 32), "number of filters of each block", limit=UNITS)


@dataclass(kw_only=True)
class CnnLnLstm(Declared):
    """Arguments of cnn_lnlstm."""

    nlstm: int = arg(128, "units", limit=UNITS)


@dataclass(kw_only=True)
class Lstm(CnnLnLstm):
    """Arguments of lstm."""

    nlstm: int
    layer_norm: bool = arg(False, "normalize inside the cell")


@dataclass(kw_only=True)
class CnnLstm(Lstm):
    """Arguments of cnn_lstm."""

    nlstm: int
    layer_norm: bool
    conv_fn: str | Callable = arg(
        "nature_cnn", "'nature_cnn', 'impala_cnn', or a function from a Keras tensor of pixels to features"
    )


@dataclass(kw_only=True)
class ImpalaCnnLstm(Lstm):
    """Arguments of impala_cnn_lstm."""

    nlstm: int = arg(256, "units", limit=UNITS)
    layer_norm: bool


@dataclass(frozen=True)
class Network:
    """A network builder.

    Attributes:
        name: name that it is registered under.
        summary: one line for --help.
        arguments: arguments of the builder by name.
        open_ended: the builder takes any argument.
    """

    name: str
    summary: str
    arguments: dict[str, Argument] = field(default_factory=dict)
    open_ended: bool = False


NETWORKS = {
    name: Network(name, summary, arguments.arguments())
    for name, summary, arguments in (
        ("mlp", "fully connected layers", Mlp),
        ("dense", "fully connected layers as in Spinning Up, with Glorot initialization", Dense),
        ("cnn", "three convolutions and 512 units (Mnih et al. 2015)", Cnn),
        ("cnn_small", "two small convolutions and 128 units", Cnn),
        ("cnn_simple", "two convolutions and 256 units: an encoder for small images", Declared),
        ("conv_only", "padded convolutions alone; the output is an image, not flattened", ConvOnly),
        ("impala_cnn", "the residual network of Espeholt et al. 2018", ImpalaCnn),
        ("lstm", "LSTM over the observation itself", Lstm),
        ("cnn_lstm", "LSTM over the features of a convolutional network", CnnLstm),
        ("cnn_lnlstm", "cnn_lstm with layer_norm", CnnLnLstm),
        ("impala_cnn_lstm", "LSTM over the features of impala_cnn", ImpalaCnnLstm),
        ("table", "a value for each cell of the observations and each action, for qlearning alone", Declared),
    )
}


def network_named(name: str) -> Network:
    """Return the network of this name; 'module:name' imports the module, and TensorFlow with it."""
    if ":" in name:
        return _imported(name)
    if name not in NETWORKS:
        raise unknown("network", name, NETWORKS)
    return NETWORKS[name]


def _imported(name: str) -> Network:
    """Describe a user's network: the arguments have the types of their defaults."""
    from tfbaselines.policy.networks import get_network_builder

    arguments, open_ended = {}, False
    for parameter in inspect.signature(get_network_builder(name)).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            open_ended = True
            continue
        default = None if parameter.default is parameter.empty else parameter.default
        choices = ACTIVATIONS if parameter.name == "activation" else ()
        arguments[parameter.name] = Argument(parameter.name, _kinds(default), default, "", choices=choices)
    return Network(name, "", arguments, open_ended)


def _kinds(default: Any) -> tuple[str, ...]:
    if isinstance(default, bool | int | float | str):
        return (type(default).__name__,)
    return ("list",) if isinstance(default, list | tuple) else ("str", "float", "None")
