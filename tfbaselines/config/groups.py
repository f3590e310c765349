"""Groups of arguments: of each network, of reward signals (a dict of dicts) and of pretraining (a dict).

The last two are also JSON text. policy/networks.py builds the networks; this module does not load TensorFlow.
"""

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tfbaselines.config.argument import Argument
from tfbaselines.config.config import Declared, arg
from tfbaselines.errors import UsageError, bad_argument, nearest, unknown
from tfbaselines.limits import COUNT, FILTERS, LAYERS, PASSES, ROWS, UNITS
from tfbaselines.loading import load_tensorflow

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
    layer_norm: bool = arg(False, "normalize each layer before its activation")


@dataclass(kw_only=True)
class Simba(Declared):
    """Arguments of simba."""

    width: int = arg(128, "units of the layers; four times as many inside a block", limit=UNITS)
    blocks: int = arg(1, "number of residual blocks", limit=LAYERS)


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

    layer_norm: bool = arg(False, "normalize inside the cell")


@dataclass(kw_only=True)
class CnnLstm(Lstm):
    """Arguments of cnn_lstm."""

    conv_fn: str | Callable = arg(
        "nature_cnn", "'nature_cnn', 'impala_cnn', or a function from a Keras tensor of pixels to features"
    )


@dataclass(kw_only=True)
class ImpalaCnnLstm(Lstm):
    """Arguments of impala_cnn_lstm."""

    nlstm: int = 256


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
    # Further arguments of a network over convolutions are those of conv_fn.
    name: Network(name, summary, arguments.arguments(), name in ("cnn_lstm", "cnn_lnlstm"))
    for name, summary, arguments in (
        ("mlp", "fully connected layers", Mlp),
        ("dense", "fully connected layers as in Spinning Up, with Glorot initialization", Dense),
        ("simba", "residual blocks with layer normalization (SimBa, Lee et al. 2024)", Simba),
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
    load_tensorflow()
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


@dataclass(kw_only=True)
class Signal(Declared):
    """Arguments of every signal."""

    strength: float = arg(1.0, "weight of the signal's advantages or values in the policy's objective", at_least=0)
    gamma: float = arg(0.99, "discount factor of the signal's returns", at_least=0, at_most=1)


@dataclass(kw_only=True)
class Extrinsic(Signal):
    """The environment's rewards."""


@dataclass(kw_only=True)
class LearntSignal(Signal):
    """Arguments of every signal with networks."""

    encoding_size: int = arg(64, "units of each layer of the signal's networks", at_least=1, limit=UNITS)
    learning_rate: float = arg(3e-4, "learning rate of the signal's networks", at_least=0)


@dataclass(kw_only=True)
class Rnd(LearntSignal):
    """Random network distillation: the error of a network that predicts the output of a random network."""


@dataclass(kw_only=True)
class Curiosity(LearntSignal):
    """Curiosity: the error of a model that predicts the encoding of the next observation."""


DEMONSTRATIONS = "a file of demonstrations, a directory of such files, or minari:ID"


@dataclass(kw_only=True)
class Gail(LearntSignal):
    """Imitation: the logits of a discriminator between the agent's steps and demonstrations."""

    demo_path: str | None = arg(None, "demonstrations, as gail's --demo_path")
    use_actions: bool = arg(False, "the discriminator gets actions as well as observations")
    use_done: bool = arg(False, "the discriminator gets 1 for steps that terminate an episode, else 0; see ML-Agents")
    gradient_penalty: float = arg(0.0, "weight of the discriminator's gradient penalty; ML-Agents: 10", at_least=0)

    def check(self) -> None:
        if not self.demo_path:
            raise bad_argument("demo_path", self.demo_path, DEMONSTRATIONS)


SIGNALS: dict[str, type[Signal]] = {"extrinsic": Extrinsic, "curiosity": Curiosity, "gail": Gail, "rnd": Rnd}

EXAMPLE = '{"extrinsic": {"strength": 1.0, "gamma": 0.99}, "rnd": {"strength": 0.1}}'


@dataclass(kw_only=True)
class SignalsConfig(Declared):
    """Arguments of algorithms that learn from reward signals."""

    reward_signals: str | dict[str, Any] | None = arg(
        None,
        f"reward signals by name ({', '.join(SIGNALS)}) with their arguments, as a dict or as JSON, such as {EXAMPLE}; "
        "None for the environment's rewards alone",
    )
    reward_signal_num_update: int | None = arg(
        None, "gradient steps of each signal in an update; None for as many as the policy's", at_least=1, limit=COUNT
    )

    def check(self) -> None:
        super().check()
        if self.signals is None and self.reward_signal_num_update is not None:
            raise bad_argument("reward_signal_num_update", self.reward_signal_num_update, "needs reward_signals")

    @property
    def signals(self) -> dict[str, Signal] | None:
        """The signals by name; None for the environment's rewards alone, with one value function."""
        return None if self.reward_signals is None else parse_signals(self.reward_signals)


def parse_signals(given: Any) -> dict[str, Signal]:
    """Parse and check reward signals.

    Args:
        given: dict of the signals' arguments by the signals' names, or the same as JSON.
    """
    signals = mapping_of("reward_signals", given, EXAMPLE)
    return {name: _parse_signal(name, arguments) for name, arguments in signals.items()}


def reads_demonstrations(given: Any) -> bool:
    """Return True if reward signals name a file of demonstrations."""
    try:
        return given is not None and any(hasattr(signal, "demo_path") for signal in parse_signals(given).values())
    except ValueError:
        return False


def _parse_signal(name: Any, arguments: Any) -> Signal:
    if name not in SIGNALS:
        raise unknown("reward signal", str(name), SIGNALS)
    if not isinstance(arguments, Mapping):
        raise bad_argument(f"reward_signals: {name}", arguments, 'a dict of its arguments, such as {"strength": 1.0}')
    return declared_of(SIGNALS[name], name, arguments, "reward_signals: ")


CLONING_EXAMPLE = '{"demo_path": "demo.npz", "strength": 1.0, "steps": 20000}'


@dataclass(kw_only=True)
class Pretraining(Declared):
    """Arguments of behavior cloning in addition to reinforcement learning."""

    demo_path: str | None = arg(None, "demonstrations, as bc's --demo_path")
    strength: float = arg(1.0, "learning rate of cloning as a fraction of the policy's learning rate", at_least=0)
    steps: int = arg(
        0, "environment steps over which the strength decays linearly to 0; 0 for a constant strength", at_least=0
    )
    batch_size: int = arg(128, "demonstrated steps in a minibatch", at_least=1, limit=ROWS)
    sequence_length: int = arg(64, "length of the training sequences of a recurrent policy", at_least=1, limit=COUNT)
    num_epoch: int | None = arg(
        None,
        "passes over the demonstrations in an update; None for as many gradient steps as the policy takes, or for one "
        "pass with samples_per_update",
        at_least=1,
        limit=PASSES,
    )
    samples_per_update: int = arg(0, "demonstrated steps of a pass at most; 0 for all", at_least=0)

    def check(self) -> None:
        if not self.demo_path:
            raise bad_argument("demo_path", self.demo_path, DEMONSTRATIONS)

    @property
    def passes(self) -> int | None:
        """Passes over the demonstrations in an update; None for as many gradient steps as the policy takes."""
        return 1 if self.num_epoch is None and self.samples_per_update else self.num_epoch


@dataclass(kw_only=True)
class ExplorationConfig(Declared):
    """The exploration noise of off-policy algorithms, and the bound of the rewards that it meets."""

    noise_correlation: float = arg(
        0.0,
        "correlation of continuous actions' exploration noise from one step to the next; 1 for one draw an episode",
        at_least=0,
        at_most=1,
    )
    reward_clip: float | None = arg(
        None, "bound of the magnitude of rewards in the replay, not in logs and tests; None for none", above=0
    )


@dataclass(kw_only=True)
class PretrainingConfig(Declared):
    """Arguments of algorithms that can learn from demonstrations and rewards."""

    pretraining: str | dict[str, Any] | None = arg(
        None,
        f"behavior cloning in addition to the algorithm's own updates, as a dict or as JSON, such as "
        f"{CLONING_EXAMPLE}; None for none",
    )

    def check(self) -> None:
        super().check()
        _ = self.cloning

    @property
    def cloning(self) -> Pretraining | None:
        """Arguments of the group; None without cloning."""
        if self.pretraining is None:
            return None
        return declared_of(Pretraining, "pretraining", mapping_of("pretraining", self.pretraining, CLONING_EXAMPLE), "")


D = TypeVar("D", bound=Declared)


def mapping_of(name: str, given: Any, example: str) -> Any:
    """Parse a group of arguments: a non-empty dict, or the same as JSON text.

    Args:
        name: name of the argument.
        given: value of the argument.
        example: accepted JSON, for the error.
    """
    mapping = given
    if isinstance(given, str):
        try:
            mapping = json.loads(given)
        except (ValueError, RecursionError) as error:
            reason = " ".join(str(error).split())[:100]
            raise bad_argument(name, given, f"not JSON ({reason}): write {example}") from None
    if not isinstance(mapping, Mapping) or not mapping:
        raise bad_argument(name, given, f"a dict such as {example}")
    return mapping


def declared_of(kind: type[D], owner: str, arguments: Mapping[str, Any], prefix: str) -> D:
    """Make an object of a class of declared arguments; errors name the group.

    Args:
        kind: class that declares the arguments.
        owner: name of the group, for the error.
        arguments: values by name.
        prefix: start of the error's line.
    """
    known = kind.arguments()
    for key in arguments:
        if key not in known:
            guess = nearest(str(key), known)
            hint = f"did you mean '{guess}'?" if guess else f"it has {', '.join(known)}"
            raise UsageError(f"{prefix}{owner} has no argument '{key}': {hint}")
    try:
        return kind(**arguments)
    except ValueError as error:
        raise UsageError(f"{prefix}{owner}: {error}") from None
