"""config.json: everything that made a run, from which it is repeated, resumed and evaluated.

The text of --print_config: every argument, and where its value comes from, as a file for --config.

Anything at all as JSON: what is not JSON becomes a readable string.
"""

import datetime
import functools
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from tfbaselines import __version__
from tfbaselines.arrays import read_document
from tfbaselines.config.argument import shown
from tfbaselines.config.command_line import ENV_KWARGS, FLAGS, OF_THE_RUN, Arguments
from tfbaselines.config.networks import network_named
from tfbaselines.config.sections import DEFAULT, TYPED_ONLY
from tfbaselines.config.stored import ENV_NAMES, check_config
from tfbaselines.errors import UsageError, bad_argument
from tfbaselines.files import write_whole

COMMENT_COLUMN = 44


def config_text(args: Arguments, origins: Mapping[str, str]) -> str:
    """YAML with a comment on every line.

    Args:
        args: the checked command line.
        origins: where an argument's value comes from, for those that are not defaults.
    """
    values, usual = dict(_values(args)), f"default for {args.env_type}"
    lines = [f"{DEFAULT}:"]
    for name, value in values.items():
        keys = [key for key in origins if key == name or (name == "env_kwargs" and key.startswith(ENV_KWARGS))]
        origin = ", ".join(dict.fromkeys(map(origins.get, keys))) or (usual if name in args.learn else "default")
        lines.append(f"  {name}: {_scalar(value)}".ljust(COMMENT_COLUMN) + f"  # {origin}")
    return "\n".join(lines) + "\n"


def _values(args: Arguments) -> Iterable[tuple[str, Any]]:
    """Every argument that text can stand for, the command's first, then the algorithm's, then the network's."""
    for name in FLAGS:
        if name not in TYPED_ONLY and (name != "num_timesteps" or args.total_timesteps is not None):
            yield name, args.flags[name]
    config, of_network = args.algorithm.config, network_named(args.network).arguments
    own = config.arguments()
    counting = [name for name in of_network if name not in own and (name in args.learn or not config.sizes_networks)]
    for name, argument in (own | {name: of_network[name] for name in counting}).items():
        if argument.settable and name not in (*OF_THE_RUN, *FLAGS):
            yield name, args.learn.get(name, argument.default)


def _scalar(value: Any) -> str:
    import yaml

    if isinstance(value, float):
        return shown(value)
    if isinstance(value, tuple):
        value = list(value)
    return yaml.safe_dump(value, default_flow_style=True, width=1000).removesuffix("...\n").strip()


# Longer arrays are described, not listed: a config file is for reading.
MAX_LISTED = 100


def to_jsonable(obj: Any, _parents: frozenset[int] = frozenset()) -> Any:
    """`obj` built from dicts with string keys, lists, strings, numbers, booleans and None only.

    Args:
        obj: any value. Containers are walked; NumPy scalars become Python numbers, arrays of up to 100
            elements lists; functions and classes become their dotted name; anything else its ``repr``
            without memory addresses, so that two equal runs give equal files.
    """
    if isinstance(obj, np.generic):
        obj = obj.item()
    if obj is None or isinstance(obj, bool | int | float | str):
        return obj
    if id(obj) in _parents:
        return "<circular reference>"
    inner = functools.partial(to_jsonable, _parents=_parents | {id(obj)})
    if isinstance(obj, Mapping):
        return {str(key): inner(value) for key, value in obj.items()}
    if isinstance(obj, list | tuple):
        return [inner(value) for value in obj]
    if isinstance(obj, set | frozenset):
        return [inner(value) for value in sorted(obj, key=str)]
    if isinstance(obj, np.ndarray):
        return inner(obj.tolist()) if obj.size <= MAX_LISTED else f"array of shape {obj.shape}, {obj.dtype}"
    return _described(obj)


def _described(obj: Any) -> str:
    """A readable string for a value that JSON does not know."""
    if isinstance(obj, functools.partial):
        given = [*map(repr, obj.args), *(f"{key}={value!r}" for key, value in obj.keywords.items())]
        return f"{_described(obj.func)}({_without_addresses(', '.join(given))})"
    if isinstance(obj, bytes):
        return obj.decode("utf-8", errors="replace")
    if callable(obj) and hasattr(obj, "__qualname__"):
        return f"{obj.__module__}.{obj.__qualname__}"
    return _without_addresses(str(obj) if hasattr(obj, "__fspath__") else repr(obj))


def _without_addresses(text: str) -> str:
    return re.sub(r" at 0x[0-9a-fA-F]+", "", text)


FILE_NAME = "config.json"

# In bytes.
LARGEST = 2**20

PACKAGES = ("tensorflow", "tensorflow-probability", "keras", "gymnasium", "numpy", "mpi4py", "ale-py", "mujoco")


def make_config(args: Arguments, ranks: int = 1) -> dict[str, Any]:
    """Describe a run that is about to start.

    Args:
        args: the checked command line.
        ranks: MPI processes.
    """
    return to_jsonable(
        {
            "alg": args.alg,
            "network": args.network,
            "env": env_config(args),
            "learn": args.learn,
            "arguments": args.flags,
            "given": args.given,
            "command": [sys.executable, *sys.argv],
            "ranks": ranks,
            "started": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
            "versions": {"tfbaselines": __version__, "python": platform.python_version()} | _versions(),
            "git_commit": {"tfbaselines": _commit(Path(__file__).parent), "working_directory": _commit(Path("."))},
            "host": platform.node(),
            "platform": platform.platform(),
        }
    )


def env_config(args: Arguments) -> dict[str, Any]:
    """What envs.make.build_env rebuilds the environments from."""
    return {name: args.flags[name] for name in ENV_NAMES} | {
        "normalize": args.algorithm.normalized_environments,
        "flatten": not args.algorithm.dict_observations,
    }


def write_config(directory: str | os.PathLike, config: dict[str, Any]) -> None:
    """Write config.json whole or not at all."""
    write_whole(Path(directory) / FILE_NAME, json.dumps(config, indent=2) + "\n")


def read_config(directory: str | os.PathLike) -> dict[str, Any]:
    """Read a run's config.json; ValueError in one line when there is none or it is not one."""
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


def _versions() -> dict[str, str]:
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _commit(directory: Path) -> str | None:
    """The checkout's commit, marked when files differ from it; None outside a checkout."""
    try:
        command = ["git", "-C", str(directory), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
