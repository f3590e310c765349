"""config.json for runs of Spinning Up's functions: env_fn's environment is described by an id and arguments."""

import math
from typing import Any

import gymnasium
import numpy as np

from tfbaselines.algs.registry import ALGORITHMS, get
from tfbaselines.cli.command_line import ENV_KWARGS, OF_THE_RUN, parse
from tfbaselines.cli.stored import check_config, make_config
from tfbaselines.config.argument import shown
from tfbaselines.config.networks import ACTIVATIONS
from tfbaselines.envs import env_type_of
from tfbaselines.parallel import mpi

# Spinning Up's multi-layer perceptrons.
NETWORK = "dense"

# Value of max_episode_steps for gymnasium.make.
NO_LIMIT = -1


class CannotBeStored(Exception):
    """The run cannot be described by config.json."""


def config_of(name: str, env: gymnasium.Env, arguments: dict[str, Any], exp_name: Any = None) -> dict[str, Any]:
    """Make the config.json of a run as the command line would, or raise CannotBeStored.

    Args:
        name: name of the algorithm.
        env: an environment of env_fn.
        arguments: arguments of learn and of the network.
        exp_name: name of the experiment, or None.
    """
    env_kwargs = _env_kwargs(env)
    given = {"alg": name, "env": env.spec.id, "network": NETWORK}
    given |= {f"{ENV_KWARGS}{key}": repr(value) for key, value in env_kwargs.items()}
    for key, value in arguments.items():
        text = getattr(value, "__name__", None) if callable(value) else value
        if callable(value) and text not in ACTIVATIONS and key not in OF_THE_RUN:
            others = "those with a name of Keras's" if key == "activation" else "text such as linear_1e-3"
            raise CannotBeStored(f"{key} is a function: {others} can be stored")
        if key not in OF_THE_RUN or key == "seed":
            given[key] = shown(text)
    if arguments.get("total_timesteps") is not None:
        given["num_timesteps"] = shown(arguments["total_timesteps"])
    elif name != "ddpg":
        given.setdefault("epochs", str(get(name).config.arguments()["epochs"].default))
    config = make_config(parse(given, ALGORITHMS), mpi.world().size)
    # The command does not wrap env_fn's environments.
    config["env"]["normalize"] = False
    if exp_name is not None:
        config["exp_name"] = str(exp_name)
    try:
        check_config(config)
    except ValueError as error:
        raise CannotBeStored(str(error)) from None
    return config


def _env_kwargs(env: gymnasium.Env) -> dict[str, Any]:
    """Return the arguments with which gymnasium.make repeats the environment, or raise CannotBeStored."""
    spec = getattr(env, "spec", None)
    registered = gymnasium.registry.get(spec.id) if spec is not None else None
    if registered is None:
        raise _not_from_an_id("it has none that is registered")
    if spec.additional_wrappers != registered.additional_wrappers:
        raise _not_from_an_id(f"it is wrapped in {', '.join(one.name for one in spec.additional_wrappers)}")
    if env_type_of(spec.id)[0] == "atari":
        raise _not_from_an_id("Atari games are made with baselines' wrappers")
    kwargs = {}
    for name, value in spec.kwargs.items():
        usual = name in registered.kwargs and np.array_equal(registered.kwargs[name], value)
        if name != "render_mode" and not usual:
            kwargs[name] = _as_json(name, value)
    limit = _step_limit(env)
    if limit != (registered.max_episode_steps or NO_LIMIT):
        kwargs["max_episode_steps"] = limit
    return kwargs


def _not_from_an_id(why: str) -> CannotBeStored:
    return CannotBeStored(f"env_fn's environment cannot be made again from an id: {why}")


def _step_limit(env: gymnasium.Env) -> int:
    """Return the shortest of the time limits around an environment."""
    limits = []
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, gymnasium.wrappers.TimeLimit):
            limits.append(env.spec.max_episode_steps)
        env = env.env
    return min(limits, default=NO_LIMIT)


def _as_json(name: str, value: Any) -> Any:
    """Convert an argument of the environment to JSON, or raise CannotBeStored."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, list | tuple):
        return [_as_json(name, item) for item in value]
    if isinstance(value, dict) and all(type(key) is str for key in value):
        return {key: _as_json(name, item) for key, item in value.items()}
    if value is None or type(value) in (bool, int, str) or (type(value) is float and math.isfinite(value)):
        return value
    raise _not_from_an_id(f"its argument '{name}' is not JSON")
