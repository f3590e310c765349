"""Spinning Up's functions: ppo(env_fn, ac_kwargs=..., seed=..., logger_kwargs=...), and the playing of a saved run.

The network is Spinning Up's multi-layer perceptron `dense`; ac_kwargs are its arguments.
A run's config.json describes env_fn's environment by an id and arguments.
"""

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from tfbaselines.algs import ALGORITHMS, get
from tfbaselines.cli.command_line import ENV_KWARGS, OF_THE_RUN, check_arguments, parse
from tfbaselines.cli.stored import check_config, make_config, read_config
from tfbaselines.config.argument import shown
from tfbaselines.config.groups import ACTIVATIONS, network_named
from tfbaselines.config.options import FILE_NAME, write_config
from tfbaselines.envs.adapt import CannotBeStored, env_arguments
from tfbaselines.errors import UsageError, bad_argument
from tfbaselines.logs import logger
from tfbaselines.logs.directory import forget, has_checkpoint, holds_checkpoints, holds_run, locked
from tfbaselines.logs.statistics import EpochTable, default_directory
from tfbaselines.parallel import mpi

SPINNING_UP = ("vpg", "trpo", "ppo", "ddpg", "td3", "sac")

# Spinning Up's multi-layer perceptrons.
NETWORK = "dense"
# In place of a directory in RunOptions(resume=...): continue the run in output_dir if it is the same one.
AUTO = "auto"
# Entries of config.json that are equal in two starts of a run.
OF_A_RUN = ("alg", "network", "env", "learn", "ranks")


def config_of(name: str, env: gymnasium.Env, arguments: dict[str, Any], exp_name: Any = None) -> dict[str, Any]:
    """Make the config.json of a run with these arguments of learn, as the command line would; or CannotBeStored."""
    env_kwargs = env_arguments(env)
    given = {"alg": name, "env": env.spec.id, "network": NETWORK}
    given |= {f"{ENV_KWARGS}{key}": repr(value) for key, value in env_kwargs.items()}
    for key, value in arguments.items():
        if callable(value):
            from tfbaselines.policy.layers import named_activation

            value = named_activation(value)
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


# Number of the first positional arguments: env_fn, actor_critic, ac_kwargs and seed.
BEFORE_POSITIONS = 4
# Arguments of learn that Spinning Up's functions do not take by position.
NOT_BY_POSITION = ("seed", "total_timesteps", "eval_env")
DDPG_POSITIONS = (
    *("steps_per_epoch", "epochs", "replay_size", "gamma", "polyak", "pi_lr", "q_lr", "batch_size", "start_steps"),
    *("update_after", "update_every", "act_noise", "num_test_episodes", "max_ep_len", "logger_kwargs", "save_freq"),
)

# ddpg has baselines' names.
DDPG_NAMES = {"pi_lr": "actor_lr", "q_lr": "critic_lr", "epochs": "nb_epochs", "save_freq": "save_interval"}
DDPG_DEFAULTS = {
    "replay_size": 1e6,
    "polyak": 0.995,
    "pi_lr": 1e-3,
    "q_lr": 1e-3,
    "batch_size": 100,
    "start_steps": 10_000,
    "update_after": 1000,
    "update_every": 50,
    "act_noise": 0.1,
    "num_test_episodes": 10,
    "max_ep_len": 1000,
    "save_freq": 1,
    # Parts that Spinning Up's ddpg does not have.
    "critic_l2_reg": 0.0,
    "normalize_observations": False,
}
DDPG_EPOCHS, DDPG_STEPS_PER_EPOCH = 100, 4000

# Algorithms with evaluations in environments of their own.
TESTED = ("ddpg", "td3", "sac")


def mlp_actor_critic(*args: Any, **kwargs: Any) -> None:
    """Refuse a call: this name is only a value of the argument actor_critic."""
    raise UsageError("mlp_actor_critic(...) is not called by scripts: give ac_kwargs, or call learn(network, env, ...)")


def _positions(name: str) -> list[str]:
    """List the arguments that follow seed by position in Spinning Up."""
    if name == "ddpg":
        return list(DDPG_POSITIONS)
    names = [one for one in get(name).config.arguments() if one not in NOT_BY_POSITION]
    return names[: names.index("algo" if name == "trpo" else "save_freq") + 1]


def _function(name: str) -> Callable[..., Any]:
    def call(
        env_fn: Callable[[], Any],
        actor_critic: Any = mlp_actor_critic,
        ac_kwargs: dict[str, Any] | None = None,
        seed: int = 0,
        *positional: Any,
        **named: Any,
    ) -> Any:
        kwargs = _by_name(name, positional, named)
        logger_kwargs = kwargs.pop("logger_kwargs", None) or {}
        if not callable(env_fn):
            raise bad_argument("env_fn", env_fn, "a function that makes an environment")
        defaults = {key: value for key, value in get(name).config.defaults_for("").items() if key != "network"}
        own = actor_critic is not mlp_actor_critic
        arguments = defaults | ({} if own else _network_arguments(ac_kwargs or {})) | {"seed": seed}
        arguments |= _ddpg_arguments(kwargs) if name == "ddpg" else kwargs
        check_arguments(arguments, get(name), network_named(NETWORK))
        return _run(name, env_fn, arguments, logger_kwargs, _own_networks(actor_critic, ac_kwargs) if own else NETWORK)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"""Train a policy as Spinning Up's {name} does.

    Args:
        env_fn: function that makes an environment.
        actor_critic: Spinning Up's own, or a function of observation space, action space and ac_kwargs that returns
            an object with Keras models pi and v, or pi and q; see policy/own.py.
        ac_kwargs: hidden_sizes, and activation as a Keras name or a function; or the arguments of your actor_critic.
        seed: random seed.
        positional: arguments by position in Spinning Up's order, or by name: {", ".join(_positions(name))}.
            logger_kwargs has output_dir, output_fname and exp_name: logs, checkpoints and config.json go to
            output_dir, and replace an earlier run there.
        named: other arguments of tfbaselines.{name}.learn.

    Returns:
        The model that learn returns.
    """
    return call


def _by_name(name: str, positional: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    order = _positions(name)
    if len(positional) > len(order):
        most, count = (BEFORE_POSITIONS + len(some) for some in (order, positional))
        raise TypeError(f"{name}() takes at most {most} arguments by position, not {count}: {order[-1]} is the last")
    given = dict(zip(order, positional, strict=False))
    for twice in sorted(given.keys() & named.keys()):
        raise TypeError(f"{name}() got argument '{twice}' twice, by position and by name")
    return given | named


def _own_networks(actor_critic: Any, ac_kwargs: dict[str, Any] | None) -> Any:
    from tfbaselines.policy.own import OwnNetworks

    return OwnNetworks(actor_critic, ac_kwargs or {})


def _run(
    name: str, env_fn: Callable[[], Any], arguments: dict[str, Any], logger_kwargs: dict[str, Any], network: Any
) -> Any:
    from tfbaselines.config.options import RunOptions

    directory = default_directory(logger_kwargs.get("output_dir"))
    options = arguments.get("run") or RunOptions()
    env = env_fn()
    try:
        if network is not NETWORK:
            raise CannotBeStored("actor_critic is a function: resume and load it in Python")
        config, missing = config_of(name, env, arguments, logger_kwargs.get("exp_name")), None
    except CannotBeStored as why:
        config, missing = {}, str(why)
    if options.resume == AUTO:
        options = dataclasses.replace(options, resume=directory if _holds(directory, config) else None)
    resumes = options.resume is not None and os.path.realpath(options.resume) == os.path.realpath(directory)
    arguments = arguments | {"run": dataclasses.replace(options, config=config)}
    with _logged(directory, config, missing, resumes):
        return _learn(name, network, env, env_fn, arguments, {"output_dir": directory} | logger_kwargs)


def _holds(directory: str, config: dict[str, Any]) -> bool:
    """Return True if a directory has a checkpoint of the run that a config.json describes."""
    if not config or not has_checkpoint(directory):
        return False
    earlier = read_config(directory)
    return all(earlier.get(name) == config.get(name) for name in OF_A_RUN)


@contextlib.contextmanager
def _logged(directory: str, config: dict[str, Any], missing: str | None, resumes: bool) -> Iterator[None]:
    """Log to a directory, on rank 0 with a config.json, unless it is empty for the reason `missing`."""
    if mpi.world().rank != 0:
        with logger.scoped_configure(directory, resume=resumes):
            yield
        return
    with locked(directory):
        replaces = not resumes and holds_run(directory)
        if replaces:
            (Path(directory) / FILE_NAME).unlink(missing_ok=True)
        with logger.scoped_configure(directory, resume=resumes):
            if replaces:
                logger.warn(f"'{directory}' holds an earlier run, which this one replaces")
            if missing:
                logger.warn(f"evaluate, --resume and load will not take '{directory}': {missing}")
            # Checkpoints of an earlier run stay until the first checkpoint of this one, which writes config.json.
            if config and not holds_checkpoints(directory):
                write_config(directory, config)
            try:
                yield
            except ValueError:
                if not resumes:
                    forget(directory)
                raise


def _learn(
    name: str,
    network: Any,
    env: Any,
    env_fn: Callable[[], Any],
    arguments: dict[str, Any],
    logger_kwargs: dict[str, Any],
) -> Any:
    from tfbaselines.envs.adapt import as_vec_env

    algorithm = get(name)
    flatten = not algorithm.dict_observations
    own = {"logger_kwargs": logger_kwargs} if "logger_kwargs" in algorithm.config.arguments() else {}
    if name in TESTED:
        own["eval_env"] = env_fn
    # Train on the environment that was made for config.json.
    venv = as_vec_env(lambda: env, arguments.get("seed"), flatten)
    try:
        return algorithm.learn(network, venv, **own | arguments)
    finally:
        venv.close()


def _network_arguments(ac_kwargs: dict[str, Any]) -> dict[str, Any]:
    arguments = dict(ac_kwargs)
    if arguments.pop("output_activation", None) is not None:
        raise bad_argument("output_activation", ac_kwargs["output_activation"], "leave it out: actions are bounded")
    if "hidden_sizes" in arguments:
        arguments["hidden_sizes"] = [int(size) for size in arguments["hidden_sizes"]]
    return arguments


def _ddpg_arguments(kwargs: dict[str, Any]) -> dict[str, Any]:
    given = DDPG_DEFAULTS | kwargs
    steps = given.pop("steps_per_epoch", DDPG_STEPS_PER_EPOCH)
    given["nb_epoch_cycles"] = max(1, round(steps / given["update_every"]))
    if given.get("total_timesteps") is None:
        given.setdefault("epochs", DDPG_EPOCHS)
    return {DDPG_NAMES.get(key, key): value for key, value in given.items()}


vpg, trpo, ppo, ddpg, td3, sac = map(_function, SPINNING_UP)


def load_policy_and_env(
    fpath: str, itr: str | int = "last", deterministic: bool = False, trust: bool = False, render: bool = True
) -> tuple[gymnasium.Env, Callable[[np.ndarray], np.ndarray]]:
    """Make the environment of a saved run, and its policy as a function of one observation.

    Args:
        fpath: log directory of the run.
        itr: 'last', 'best', or the number of a checkpoint.
        deterministic: choose the most likely actions.
        trust: import the modules named in config.json, and let the environment open the files named there.
        render: render in a window if there is a display.
    """
    from tfbaselines.envs.make import make_env, rendered
    from tfbaselines.envs.vec.wrappers import has_display
    from tfbaselines.evaluate import load

    config = read_config(fpath)
    stored = rendered(config["env"], "human") if render and has_display() else config["env"]
    model = load(fpath, checkpoint="last" if itr in (-1, "last") else str(itr), trust=trust)
    env = make_env(
        stored["env"],
        stored.get("env_type"),
        flatten_dict_observations=stored.get("flatten", True),
        env_kwargs=stored.get("env_kwargs"),
    )
    return env, lambda obs: model.act(obs, deterministic=deterministic)[0]


def run_policy(
    env: gymnasium.Env,
    get_action: Callable[[Any], Any],
    max_ep_len: int | None = None,
    num_episodes: int = 100,
    render: bool = True,
) -> dict[str, Any]:
    """Run a policy, print each episode, and return mean, deviation, minimum and maximum of the returns.

    Args:
        env: the environment.
        get_action: function from one observation to an action.
        max_ep_len: largest number of steps in an episode; None or 0 for the environment's own limit.
        num_episodes: number of episodes.
        render: show them if the environment has a render_mode.
    """
    table = EpochTable()
    for episode in range(num_episodes):
        (obs, _), ret, length, over = env.reset(), 0.0, 0, False
        while not over:
            if render and env.render_mode is not None:
                env.render()
                time.sleep(1e-3)
            obs, reward, terminated, truncated, _ = env.step(get_action(obs))
            ret, length = ret + float(reward), length + 1
            over = terminated or truncated or length == max_ep_len
        table.store(EpRet=ret, EpLen=length)
        print(f"Episode {episode} \t EpRet {ret:.3f} \t EpLen {length}", flush=True)
    table.log_tabular("EpRet", with_min_and_max=True)
    table.log_tabular("EpLen", average_only=True)
    return table.take_row()
