"""Environment ids: their type, their entry in Gymnasium's registry, and errors for ids that fail."""

import contextlib
import importlib.util
import io
import re
from collections.abc import Iterator
from typing import Any

import gymnasium

from tfbaselines.errors import UsageError, bad_argument, nearest, unknown
from tfbaselines.loading import import_named

ENV_TYPES = ("atari", "box2d", "classic_control", "mujoco", "retro", "robotics", "toy_text")

# The version at the end of an environment's id; names of types, networks and settings have none.
VERSION = re.compile(r"-v\d+$")

# Packages of the types of environments.
PACKAGES = {
    "atari": "ale-py",
    "box2d": '"gymnasium[box2d]"',
    "classic_control": '"gymnasium[classic-control]"',
    "mujoco": '"gymnasium[mujoco]"',
    "robotics": "gymnasium-robotics",
    "toy_text": '"gymnasium[toy-text]"',
}

# Least similarity of an unknown id and the one that its error suggests.
SIMILAR = 0.75

# Packages that are imported for an unknown id, the type of their environments, and a pattern of their ids.
_PROVIDERS = {
    "ale_py": ("atari", r"NoFrameskip|^ALE/"),
    "gymnasium_robotics": ("robotics", r"^(Fetch|Hand|Adroit|PointMaze|AntMaze|FrankaKitchen)"),
}


def env_type_of(env_id: str, env_type: str | None = None) -> tuple[str, str]:
    """Return the type of an environment and its id without a module.

    Args:
        env_id: a registered id, or 'module:id' to import the module that registers it first.
        env_type: overrides the type of the registry.

    Returns:
        (type, id); the type is one of ENV_TYPES, or the package of a user's environment.
    """
    if env_type is not None and env_type not in ENV_TYPES:
        raise unknown("env_type", env_type, ENV_TYPES)
    if ":" in env_id:
        module, env_id = env_id.split(":", 1)
        try:
            import_named(module)
        except (ImportError, TypeError) as error:
            hint = f": write {module[:-3]:.80}:{env_id:.80}, without .py" if module.endswith(".py") else ""
            why = f"module '{module:.80}' cannot be imported ({error!s:.200}){hint}"
            raise bad_argument("env", f"{module}:{env_id}", why) from None
    if env_type == "retro":
        raise UsageError("env_type='retro' needs the package stable-retro, which is not supported yet")
    try:
        spec = spec_of(env_id)
    except OnlyInPool as error:
        return env_type or error.env_type, env_id
    if env_type is not None:
        return env_type, env_id
    entry_point = spec.entry_point if isinstance(spec.entry_point, str) else spec.entry_point.__module__
    parts = re.split(r"[.:]", entry_point)
    if parts[0] in _PROVIDERS:
        return _PROVIDERS[parts[0]][0], env_id
    return next((part for part in parts if part in ENV_TYPES), parts[0]), env_id


class OnlyInPool(UsageError):
    """EnvPool has an environment, Gymnasium does not.

    Attributes:
        env_type: type of the environment.
    """

    def __init__(self, env_id: str, env_type: str) -> None:
        super().__init__(f"environment '{env_id}' is one of EnvPool, not of Gymnasium: --worker=envpool makes it")
        self.env_type = env_type


def spec_of(env_id: str) -> Any:
    """Return the registry's entry; UsageError with the nearest id if there is none, OnlyInPool for one of EnvPool."""
    if _is_registered(env_id):
        return gymnasium.registry[env_id]
    pooled = _pooled_type(env_id)
    if pooled is not None:
        raise OnlyInPool(env_id, pooled)
    newest = _newest_version(env_id)
    if newest is not None:
        raise UsageError(f"unknown environment '{env_id:.80}': did you mean '{newest}'?")
    for package, (env_type, ids) in _PROVIDERS.items():
        if re.search(ids, env_id) and not _installed(package):
            raise UsageError(f"environment '{env_id:.80}' needs {PACKAGES[env_type]}: pip install {PACKAGES[env_type]}")
    module = f"if your module registers it, write 'module:{env_id:.80}'"
    # Names of environments resemble each other: 'MiniGrid-Empty-5x5-v0' and 'FishingDerby-v0' by a half.
    guess = nearest(env_id, gymnasium.registry, SIMILAR)
    hint = f": did you mean '{guess}'?" if guess else ""
    raise UsageError(f"unknown environment '{env_id:.80}'{hint}; {module}")


def is_known(env_id: str) -> bool:
    """Return whether an installed package has an environment of this id."""
    return _is_registered(env_id) or _pooled_type(env_id) is not None


def layers_of(env: gymnasium.Env) -> Iterator[gymnasium.Env]:
    """Yield an environment's wrappers from the outermost, then the environment."""
    while isinstance(env, gymnasium.Wrapper):
        yield env
        env = env.env
    yield env


def _is_registered(env_id: str) -> bool:
    """Return whether the registry has an id; import the packages of environments until it has."""
    for provider in _PROVIDERS:
        if env_id in gymnasium.registry:
            break
        with contextlib.suppress(ImportError), _without_notices():
            gymnasium.register_envs(importlib.import_module(provider))
    return env_id in gymnasium.registry


def _pooled_type(env_id: str) -> str | None:
    """Return the type of an environment that EnvPool has; None without one, or without EnvPool."""
    if not _installed("envpool"):
        return None
    from tfbaselines.envs.vec.envpool import envpool_type

    return envpool_type(env_id)


def _newest_version(env_id: str) -> str | None:
    """Return the newest registered version of an environment."""
    base = VERSION.sub("", env_id)
    versions = [name for name in gymnasium.registry if VERSION.sub("", name) == base]
    return max(versions, key=lambda name: int(re.search(r"\d*$", name)[0] or 0), default=None)


@contextlib.contextmanager
def _without_notices() -> Iterator[None]:
    """Drop the output of a package's import."""
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        yield


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def cannot_be_made(env_id: str, env_type: str, error: Exception) -> UsageError:
    """Return the error for an environment that needs missing or outdated packages."""
    newest = _newest_version(env_id)
    if newest not in (None, env_id) and "mujoco" in str(error).lower() and _installed("mujoco"):
        return UsageError(f"environment '{env_id:.80}' needs outdated packages: use '{newest}'")
    failed = f"environment '{env_id}' cannot be made ({str(error).splitlines()[0]})"
    return UsageError(f"{failed}: pip install {PACKAGES[env_type]}" if env_type in PACKAGES else failed)
