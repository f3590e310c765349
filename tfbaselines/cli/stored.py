"""config.json: description of a run, from which the run is repeated, resumed and evaluated.

The file may come from a stranger. Its form is checked before anything else, no module named in it is imported unless
the user trusts the run, and no path in it is ever used.
"""

import contextlib
import datetime
import functools
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from tfbaselines import __version__
from tfbaselines.cli.command_line import ENV_KWARGS, FLAGS, OF_THE_RUN, Arguments, check_arguments, own_arguments
from tfbaselines.config.algorithm import Algorithm
from tfbaselines.config.argument import shown
from tfbaselines.config.groups import network_named, reads_demonstrations
from tfbaselines.config.options import FILE_NAME, to_jsonable
from tfbaselines.envs.normalize import NORMALIZE
from tfbaselines.errors import UsageError, bad_argument
from tfbaselines.files import read_document
from tfbaselines.parallel import mpi

# Arguments that a resumed run does not keep: paths, the user's consent, and actions of one command.
NOT_KEPT = ("log_path", "save_path", "load_path", "demo_file", "demo_path", "resume", "overwrite", "trust", "config")
NOT_KEPT += ("checkpoint_path", "tuned", "print_config", "offline", "play")

# Arguments among NOT_KEPT that a resumed run needs again.
READ_AGAIN = ("offline", "demo_path", "demo_file")
# Arguments among NOT_KEPT that change the model by their presence; the paths are not read.
OF_THE_MODEL = ("offline",)

# Arguments that may name a module to import as 'module:name'.
IMPORTING = ("alg", "env", "network", "value_network", "wrapper")

# Prefix of this package's own modules that register environments.
OWN_MODULES = "tfbaselines.envs."

LONGEST_TEXT = 2**16
LARGEST_NUMBER = 1e300
# Largest size of a file, in bytes.
LARGEST = 2**20

REQUIRED = ("alg", "network", "env", "learn", "given")

ENV_NAMES = (
    *("env", "env_type", "num_env", "seed", "reward_scale", "gamestate", "worker", "env_threads"),
    *("in_series", "step_timeout", "restart_workers", "env_kwargs", "wrapper", "monitor_keys", "env_parameters"),
)

PACKAGES = ("tensorflow", "tensorflow-probability", "keras", "gymnasium", "numpy", "mpi4py", "ale-py", "mujoco")


def make_config(args: Arguments, ranks: int = 1) -> dict[str, Any]:
    """Describe a run of the command line that is about to start on `ranks` MPI ranks."""
    own = {"alg": args.alg, "network": args.network, "env": env_config(args), "learn": args.learn}
    return to_jsonable(own | {"arguments": args.flags, "given": args.given} | circumstances(ranks))


def circumstances(ranks: int) -> dict[str, Any]:
    """Describe the command, the versions and the machine of a run."""
    return {
        "command": [sys.executable, *sys.argv],
        "ranks": ranks,
        "started": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "versions": {"tfbaselines": __version__, "python": platform.python_version()} | _versions(),
        "git_commit": {"tfbaselines": _own_commit(), "working_directory": _commit(Path("."))},
        "host": platform.node(),
        "platform": platform.platform(),
    }


def describe_learn(algorithm: Algorithm, network: Any, config: Any, env: dict[str, Any]) -> dict[str, Any]:
    """Describe a run that Python's learn starts, as make_config does, or raise UsageError.

    `env` are the environments, as `describe_env` gives them; empty if they cannot be made from an id.
    """
    from tfbaselines.policy.layers import named_activation

    if not isinstance(network, str):
        raise UsageError("its network is a function")
    learn: dict[str, Any] = {}
    # A function given to Python's learn is no argument; a message about resuming names it by this text.
    given = {"alg": algorithm.name, "network": network, "env": env.get("env", "environments given in Python")}
    given |= {name: str(env[name]) for name in ("num_env", "seed") if env.get(name) is not None}
    given |= {f"{ENV_KWARGS}{name}": repr(value) for name, value in (env.get("env_kwargs") or {}).items()}
    arguments = {name: argument for name, argument in config.arguments().items() if argument.settable}
    values = {name: getattr(config, name) for name in arguments if name not in OF_THE_RUN}
    for name, value in (values | config.network_kwargs).items():
        value = named_activation(value)
        if callable(value) and name not in arguments:
            raise UsageError(f"{name} is a function")
        if name not in arguments or value != arguments[name].default:
            given[name] = shown(to_jsonable(value))
            if not callable(value):
                learn[name] = value
    if config.total_timesteps is not None:
        given["num_timesteps"] = shown(config.total_timesteps)
    described = {"alg": algorithm.name, "network": network, "env": env, "learn": learn, "given": given}
    check_config(described := to_jsonable(described))
    return described


def env_config(args: Arguments) -> dict[str, Any]:
    """Describe the environments for envs.make.build_env."""
    return {name: args.flags[name] for name in ENV_NAMES} | {
        "normalize": args.flags["normalize"] or args.algorithm.normalized_environments,
        "flatten": not args.algorithm.dict_observations,
    }


@functools.cache
def _versions() -> dict[str, str]:
    versions = {}
    for package in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return versions


@functools.cache
def _own_commit() -> str | None:
    return _commit(Path(__file__).parent)


def _commit(directory: Path) -> str | None:
    """Return the commit of a git checkout, marked if files differ from it; None outside a checkout.

    None in the log directory of a run, too: the settings of a stranger's checkout name programs that git starts.
    """
    if (directory / FILE_NAME).exists() and (directory / "checkpoints").exists():
        return None
    try:
        command = ["git", "-C", str(directory), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def read_config(directory: str | os.PathLike) -> dict[str, Any]:
    """Read and check the config.json of a run."""
    path = Path(directory) / FILE_NAME
    if not Path(directory).is_dir():
        raise bad_argument("directory", os.fspath(directory), "the log directory of a run")
    try:
        config = read_document(path, LARGEST)
    except OSError:
        raise UsageError(f"'{directory}' has no {FILE_NAME}: it is not the log directory of a run") from None
    except ValueError as error:
        raise UsageError(f"'{path}' is damaged: {error}") from None
    try:
        check_config(config)
    except ValueError as error:
        raise UsageError(f"'{path}' does not describe a run: {error}") from None
    return config


def check_is_run(path: str | os.PathLike) -> None:
    """Raise a UsageError for a path that is neither a file nor a log directory, before TensorFlow is loaded."""
    path = Path(path).expanduser()
    if not path.is_file():
        read_config(path)


def check_config(config: Any) -> None:
    """Raise a UsageError unless a document has the form of a config.json."""
    if not isinstance(config, dict) or not set(REQUIRED) <= config.keys():
        raise UsageError(f"it needs {', '.join(REQUIRED)}")
    for name, value in config.items():
        if name not in FORM:
            raise UsageError(f"'{name:.80}' is unknown")
        if not FORM[name](value):
            raise UsageError(f"'{name}' does not have the form that it needs")
    unknown = config["env"].keys() - {*ENV_NAMES, "normalize", "flatten"}
    # Environments that Python's learn was given may have no id.
    if unknown or (config["env"] and "env" not in config["env"]):
        raise UsageError(f"'env' has the unknown entry '{min(unknown):.80}'" if unknown else "'env' does not name one")
    for section in ("env", "given"):
        text = config[section].get("env_parameters")
        if text is not None and not (isinstance(text, str) and text.startswith("[")):
            raise UsageError(f"'env_parameters' of '{section}' is not the content of files")
    for name in ENV_NAMES:
        if name in config["env"]:
            FLAGS[name].checked(config["env"][name])
    if not isinstance(config["env"].get("env_kwargs"), dict | None):
        raise UsageError("'env_kwargs' of 'env' is not a dict")
    for name, others in (("normalize", tuple(NORMALIZE)), ("flatten", ())):
        value = config["env"].get(name, True)
        if not isinstance(value, bool) and value not in others:
            raise UsageError(f"'{name}' of 'env' is neither true nor false")


def needs_trust(arguments: Mapping[str, Any]) -> str | None:
    """Return the first argument of a run that needs the user's trust; None if there is none.

    It names a module to import, other than this package's own, or is an environment's argument with a path.
    """
    found = _needing_trust(arguments)
    return found and found[0]


def _needing_trust(arguments: Mapping[str, Any]) -> tuple[str, str] | None:
    # Words of a command line may stand for lists and dicts.
    words = {name: value for name, value in arguments.items() if name.startswith(ENV_KWARGS)}
    given = arguments.get("env_kwargs")
    of_env = (own_arguments(words) or {}) | (given if isinstance(given, dict) else {})
    flat = {**arguments, **{f"{ENV_KWARGS}{name}": value for name, value in of_env.items()}}
    for name, value in flat.items():
        # A wrapper is several names, with arguments that may name more.
        own = isinstance(value, str) and value.startswith(OWN_MODULES) and name != "wrapper"
        if name in IMPORTING and isinstance(value, str) and ":" in value and not own:
            return name, value
        if name.startswith(ENV_KWARGS):
            for text in _texts(value):
                if re.search(r"[/\\~:]", text) and not text.startswith(OWN_MODULES):
                    return name, text
    return None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple | set | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def require_trust(arguments: Mapping[str, Any], trust: bool) -> None:
    """Raise a UsageError when a config.json names a module to import or a file, unless the user trusts the run.

    The arguments are those from config.json, without the user's own.
    """
    found = None if trust else _needing_trust(arguments)
    if found:
        name, value = found
        harm = "importing that module runs its code"
        if name.startswith("env_kwargs."):
            harm = f"the environment may {'import that module' if ':' in value else 'open that file'}"
        raise UsageError(
            f"the run's config.json has {name}='{value:.200}', and {harm}: "
            "add --trust (in Python trust=True) if you know the run (docs/howto/resume.md)"
        )


def given_again(stored: Mapping[str, str | bool], typed: Mapping[str, str | bool]) -> dict[str, str | bool]:
    """Merge the arguments of a resumed run: typed ones take precedence over stored ones.

    A module that only config.json names requires --trust.
    """
    kept = {name: value for name, value in stored.items() if name not in NOT_KEPT and name not in typed}
    lost = {name: stored[name] for name in READ_AGAIN if stored.get(name, "None") != "None" and name not in typed}
    if "pretraining" in kept:
        lost["pretraining"] = kept.pop("pretraining")
    if reads_demonstrations(kept.get("reward_signals")):
        lost["reward_signals"] = kept.pop("reward_signals")
    # A file given as --config may have the paths.
    if lost and "config" not in typed:
        again = " ".join(f"--{name}={value!r:.300}" for name, value in lost.items())
        what = "the path in the run's {} is" if len(lost) == 1 else "the paths in the run's {} are"
        raise UsageError(f"{what.format(' and '.join(lost))} not kept: give {again} again")
    trust = typed.get("trust", False)
    trust = trust is True or str(trust).lower() in ("true", "1")
    require_trust(kept, trust)
    if kept.get("cpu", "1") != "1" and not (trust or mpi.launched()):
        cpu = f"{kept['cpu']:.20}"
        raise UsageError(f"the run's config.json has cpu={cpu}, processes to start: give --cpu={cpu} again, or --cpu=1")
    return kept | dict(typed)


def check_run(config: dict[str, Any], algorithm: Algorithm, trust: bool) -> None:
    """Raise a UsageError for arguments that the run's algorithm or network does not take, and for untrusted modules."""
    learn, own = config["learn"], algorithm.config.arguments()
    env = {name: config["env"].get(name) for name in ("env", "env_kwargs", "wrapper")}
    require_trust({**learn, "network": config["network"], **env}, trust)
    for name in learn:
        if name in OF_THE_RUN or (name in own and not own[name].settable):
            raise UsageError(f"the run's config.json has an argument '{name:.80}', which cannot be stored")
    check_arguments(learn, algorithm, network_named(config["network"]))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_TEXT


def _is_value(value: Any, depth: int = 2) -> bool:
    if isinstance(value, list | dict):
        names, items = (value.keys(), value.values()) if isinstance(value, dict) else ((), value)
        return depth > 0 and all(map(_is_text, names)) and all(_is_value(item, depth - 1) for item in items)
    if isinstance(value, int | float):
        # NaN fails the comparison.
        return abs(value) <= LARGEST_NUMBER
    return value is None or _is_text(value)


def _dict_of(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(map(_is_text, value)) and all(map(check, value.values()))


# Check of every possible entry.
FORM = {
    **dict.fromkeys(("alg", "network", "started", "host", "platform", "exp_name"), _is_text),
    **dict.fromkeys(("learn", "arguments", "env"), _dict_of(_is_value)),
    **dict.fromkeys(("versions", "git_commit"), _dict_of(lambda value: value is None or _is_text(value))),
    "given": _dict_of(lambda value: value is True or _is_text(value)),
    "command": lambda value: isinstance(value, list) and all(map(_is_text, value)),
    "ranks": lambda value: type(value) is int and value >= 1,
}
