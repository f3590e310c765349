"""config.json: everything that made a run, from which it is repeated, resumed and evaluated."""

import datetime
import json
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from tfbaselines import __version__
from tfbaselines.arrays import read_document
from tfbaselines.errors import bad_argument
from tfbaselines.files import write_whole
from tfbaselines.settings.command_line import Arguments
from tfbaselines.settings.jsonable import to_jsonable
from tfbaselines.settings.stored import ENV_NAMES, check_config

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
        raise ValueError(f"'{directory}' has no {FILE_NAME}: it is not the log directory of a run") from None
    except ValueError as error:
        raise ValueError(f"'{path}' is damaged: {error}") from None
    try:
        check_config(config)
    except ValueError as error:
        raise ValueError(f"'{path}' does not describe a run: {error}") from None
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
