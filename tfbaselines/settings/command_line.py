"""The command line: flags of the run, arguments of the algorithm and of its network, checked before anything starts."""

import ast
import math
import os
import sys
import warnings
from dataclasses import dataclass, field
from typing import Any

from tfbaselines import ALGORITHMS
from tfbaselines.envs.make import ENV_TYPES, WORKERS, env_type_of
from tfbaselines.errors import bad_argument, check_at_least, nearest, unknown
from tfbaselines.settings.options import PRECISIONS
from tfbaselines.settings.schedules import parse_schedule
from tfbaselines.settings.signatures import Algorithm, Argument, Network, algorithm, networks

ACTIVATIONS = [
    "celu",
    "elu",
    "exponential",
    "gelu",
    "hard_shrink",
    "hard_sigmoid",
    "hard_silu",
    "hard_swish",
    "hard_tanh",
    "leaky_relu",
    "linear",
    "log_sigmoid",
    "log_softmax",
    "mish",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "soft_shrink",
    "softmax",
    "softplus",
    "softsign",
    "sparse_plus",
    "sparse_sigmoid",
    "sparsemax",
    "squareplus",
    "swish",
    "tanh",
    "tanh_shrink",
]

# What is accepted, in words.
KINDS = {"bool": "True or False", "int": "a whole number", "float": "a number", "None": "None"}
KINDS |= dict.fromkeys(("Sequence", "list", "tuple"), "a list")


@dataclass(frozen=True)
class Flag:
    """One flag of the command line."""

    name: str
    annotation: str
    default: Any
    meaning: str
    choices: tuple[str, ...] = ()


FLAGS = {
    flag.name: flag
    for flag in (
        Flag("env", "str", "CartPole-v1", "environment id; 'module:id' imports the module first"),
        Flag("env_type", "str | None", None, "type of environment, when the registry does not tell it", ENV_TYPES),
        Flag("seed", "int | None", None, "seed of everything random; one is drawn and noted when none is given"),
        Flag("alg", "str", "ppo2", "algorithm", ALGORITHMS),
        Flag("num_timesteps", "float", 1e6, "environment steps to train for; 0 trains nothing"),
        Flag("network", "str | None", None, "network; default: cnn for atari, else mlp. 'module:name' imports first"),
        Flag("gamestate", "str | None", None, "game state to load (retro only)"),
        Flag("num_env", "int | None", None, "copies of the environment; default: number of CPUs for atari, else 1"),
        Flag("reward_scale", "float", 1.0, "rewards are multiplied by this"),
        Flag("save_path", "str | None", None, "file for the trained model"),
        Flag("save_video_interval", "int", 0, "record a video every so many steps; 0 for none"),
        Flag("save_video_length", "int", 200, "steps in a video"),
        Flag("log_path", "str | None", None, "directory of logs and checkpoints"),
        Flag("play", "bool", False, "run the trained policy afterwards, showing it"),
        Flag("resume", "str | None", None, "log directory of an earlier run to continue; its arguments are kept"),
        Flag("keep_checkpoints", "int", 5, "how many of the latest checkpoints to keep"),
        Flag("precision", "str", "float32", "of convolutions and matrix products", PRECISIONS),
        Flag("worker", "str | None", None, "where environments run: in this process or in their own", tuple(WORKERS)),
    )
}


@dataclass
class Arguments:
    """A checked command line.

    Attributes:
        flags: every flag's value.
        learn: arguments for learn(), the algorithm's defaults for this type of environment included.
        given: what the user gave, by name, as text or True: enough to repeat the command.
        env_type: the environment's type.
        env_id: the environment's id without a module.
    """

    flags: dict[str, Any]
    learn: dict[str, Any]
    given: dict[str, str | bool] = field(default_factory=dict)
    env_type: str = ""
    env_id: str = ""

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["flags"][name]
        except KeyError:
            raise AttributeError(name) from None


def split(argv: list[str]) -> dict[str, str | bool]:
    """'--key=value', '--key value' and '--key' (True) as a dictionary; the last of a repeated key counts."""
    given: dict[str, str | bool] = {}
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--") or word == "--":
            raise ValueError(f"'{word}' is not an argument: write --name=value")
        key, equals, value = word[2:].partition("=")
        key = key.replace("-", "_")
        if equals:
            given[key] = value
        elif rest and not rest[0].startswith("--"):
            given[key] = rest.pop(0)
        else:
            given[key] = True
    return given


def parse(given: dict[str, str | bool]) -> Arguments:
    """Check a split command line against the flags, the algorithm and the network.

    Args:
        given: from `split`.

    Returns:
        The checked arguments; ValueError in one line names the first mistake.
    """
    flags = {name: flag.default for name, flag in FLAGS.items()}
    flags |= {name: _flag_value(FLAGS[name], text) for name, text in given.items() if name in FLAGS}
    alg = algorithm(flags["alg"])
    _check_ranges(flags)
    env_type, env_id = env_type_of(flags["env"], flags["env_type"])
    learn = alg.defaults_for(env_type)
    default_network = learn.pop("network", "cnn" if env_type in ("atari", "retro") else "mlp")
    if flags["network"] is None:
        flags["network"] = default_network
    network = _network(flags["network"])
    flags["network"] = network.name
    if flags["num_env"] is None:
        flags["num_env"] = (os.cpu_count() or 1) if env_type == "atari" else 1
    for name, text in given.items():
        if name not in FLAGS:
            learn[name] = _learn_value(name, text, alg, network)
    return Arguments(flags, learn, dict(given), env_type, env_id)


def _flag_value(flag: Flag, text: str | bool) -> Any:
    value = parse_value(flag.name, text, flag.annotation)
    if flag.choices and value is not None and value not in flag.choices:
        kind = {"alg": "algorithm"}.get(flag.name, flag.name)
        raise unknown(kind, value, flag.choices)
    return value


def _check_ranges(flags: dict[str, Any]) -> None:
    check_at_least(0, **_present(flags, "num_timesteps", "save_video_interval", "seed"))
    check_at_least(1, **_present(flags, "save_video_length", "num_env", "keep_checkpoints"))
    for name in ("log_path", "save_path", "resume"):
        if flags[name] is not None and not flags[name].strip():
            raise bad_argument(name, flags[name], "a path, not an empty text")


def _present(flags: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: flags[name] for name in names if flags[name] is not None}


def _network(name: str) -> Network:
    if ":" in name:
        return _imported(name)
    if name not in networks():
        raise unknown("network", name, networks())
    return networks()[name]


def _imported(name: str) -> Network:
    """A network of the user's own: its module is imported, and TensorFlow with it."""
    import inspect

    from tfbaselines.policy.networks import get_network_builder

    arguments = {}
    for parameter in inspect.signature(get_network_builder(name)).parameters.values():
        default = None if parameter.default is parameter.empty else parameter.default
        literal = isinstance(default, bool | int | float | str | list | tuple)
        annotation = type(default).__name__ if literal else "str | float | None"
        arguments[parameter.name] = Argument(parameter.name, annotation, default, "")
    return Network(name, "", arguments)


def _learn_value(name: str, text: str | bool, alg: Algorithm, network: Network) -> Any:
    argument = alg.arguments.get(name) or network.arguments.get(name)
    if argument is None:
        known = [*FLAGS, *alg.arguments, *network.arguments]
        guess = nearest(name, known)
        hint = f"did you mean --{guess}?" if guess else f"--alg={alg.name} --help lists what there is"
        raise ValueError(f"unknown argument --{name} of {alg.name} with network {network.name}: {hint}")
    if not argument.settable:
        raise ValueError(
            f"--{name} takes a Python object: give it to tfbaselines.{alg.name}.learn, not on the command line"
        )
    value = parse_value(name, text, argument.annotation)
    if name == "activation" and value is not None and value not in ACTIVATIONS:
        raise unknown("activation", value, ACTIVATIONS)
    if name in alg.schedules and not math.isfinite(parse_schedule(value, name)(1.0)):
        raise bad_argument(name, text, "a finite number")
    return value


def parse_value(name: str, text: str | bool, annotation: str) -> Any:
    """Text as a value of the type that an annotation such as 'int | None' names; never evaluated.

    Args:
        name: for the error.
        text: what was given; True for a bare --name.
        annotation: kinds joined by '|'.
    """
    kinds = [kind.strip().split("[")[0] for kind in annotation.split("|")]
    if text is True:
        if "bool" in kinds:
            return True
        raise ValueError(f"--{name} needs a value: --{name}=...")
    if "None" in kinds and text in ("None", "none"):
        return None
    value = _literal(text)
    if "bool" in kinds and text.lower() in ("true", "false", "1", "0"):
        return text.lower() in ("true", "1")
    if isinstance(value, int | float) and not isinstance(value, bool):
        if "int" in kinds and value == int(value):
            return int(value)
        if "float" in kinds:
            return float(value)
    if isinstance(value, list | tuple) and {"Sequence", "tuple", "list"} & set(kinds):
        return value
    if "str" in kinds or "NetworkSpec" in kinds:
        return text
    raise bad_argument(name, text, " or ".join(KINDS[kind] for kind in kinds if kind in KINDS))


def _literal(text: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    # Neither nan nor infinite, nor a whole number that no float can hold.
    finite = not isinstance(value, int | float) or abs(value) <= sys.float_info.max
    return value if finite else None
