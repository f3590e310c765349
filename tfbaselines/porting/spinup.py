"""Spinning Up's functions: ppo(env_fn, ac_kwargs=..., seed=..., logger_kwargs=...), and what plays a saved run.

Networks are Spinning Up's multi-layer perceptrons: the network `dense`, whose arguments ac_kwargs are.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from tfbaselines.algs.registry import ALGORITHMS, get
from tfbaselines.errors import bad_argument
from tfbaselines.logs import logger
from tfbaselines.logs.epoch_logger import EpochTable, default_directory
from tfbaselines.parallel import mpi
from tfbaselines.settings.activations import ACTIVATIONS
from tfbaselines.settings.argument import shown
from tfbaselines.settings.command_line import OF_THE_RUN, check_arguments, parse
from tfbaselines.settings.config_file import make_config, read_config, write_config
from tfbaselines.settings.signatures import network_named

NETWORK = "dense"

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
    # Which Spinning Up does not have.
    "critic_l2_reg": 0.0,
    "normalize_observations": False,
}
DDPG_EPOCHS, DDPG_STEPS_PER_EPOCH = 100, 4000

# Whose tests need environments of their own.
TESTED = ("ddpg", "td3", "sac")


def mlp_actor_critic(*args: Any, **kwargs: Any) -> None:
    """Stands for Spinning Up's networks in the argument actor_critic; to build one, call learn(network, env, ...)."""
    raise ValueError("mlp_actor_critic(...) is not called by scripts: give ac_kwargs, or call learn(network, env, ...)")


def _function(name: str) -> Callable[..., Any]:
    def call(
        env_fn: Callable[[], Any],
        actor_critic: Any = mlp_actor_critic,
        ac_kwargs: dict[str, Any] | None = None,
        seed: int = 0,
        *,
        logger_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        if actor_critic is not mlp_actor_critic:
            accepted = f"leave it out; for networks of your own call tfbaselines.{name}.learn(network, env, ...)"
            raise bad_argument("actor_critic", actor_critic, accepted)
        if not callable(env_fn):
            raise bad_argument("env_fn", env_fn, "a function that makes an environment")
        defaults = {key: value for key, value in get(name).config.defaults_for("").items() if key != "network"}
        arguments = defaults | _network_arguments(ac_kwargs or {}) | {"seed": seed}
        arguments |= _ddpg_arguments(kwargs) if name == "ddpg" else kwargs
        check_arguments(arguments, get(name), network_named(NETWORK))
        output_dir = default_directory((logger_kwargs or {}).get("output_dir"))
        env = env_fn()
        config = _config(name, env, arguments, logger_kwargs or {})
        with logger.scoped_configure(output_dir):
            if config and mpi.world().rank == 0:
                write_config(output_dir, config)
            return _learn(name, env, env_fn, arguments, config, {"output_dir": output_dir} | (logger_kwargs or {}))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"""Train a policy as Spinning Up's {name} does.

    Args:
        env_fn: makes an environment.
        actor_critic: None but Spinning Up's own.
        ac_kwargs: hidden_sizes, and activation by a Keras name or as a function.
        seed: of everything random.
        logger_kwargs: output_dir, output_fname and exp_name; logs, checkpoints and config.json go there.
        kwargs: further arguments, see tfbaselines.{name}.learn.

    Returns:
        The model, as learn returns it.
    """
    return call


def _learn(
    name: str,
    env: Any,
    env_fn: Callable[[], Any],
    arguments: dict[str, Any],
    config: dict[str, Any],
    logger_kwargs: dict[str, Any],
) -> Any:
    from tfbaselines.envs.adapt import as_vec_env
    from tfbaselines.settings.options import RunOptions

    algorithm = get(name)
    flatten = not algorithm.dict_observations
    seed = arguments.get("seed")
    own = {"run": RunOptions(config=config)}
    if "logger_kwargs" in algorithm.config.arguments():
        own["logger_kwargs"] = logger_kwargs
    if name in TESTED:
        own["eval_env"] = env_fn
    # The environment that was made to look at is the one to train on.
    venv = as_vec_env(lambda: env, seed, flatten)
    try:
        return algorithm.learn(NETWORK, venv, **own | arguments)
    finally:
        venv.close()


def _network_arguments(ac_kwargs: dict[str, Any]) -> dict[str, Any]:
    """ac_kwargs as the network takes them."""
    arguments = dict(ac_kwargs)
    if arguments.pop("output_activation", None) is not None:
        raise bad_argument("output_activation", ac_kwargs["output_activation"], "leave it out: actions are bounded")
    if "hidden_sizes" in arguments:
        arguments["hidden_sizes"] = [int(size) for size in arguments["hidden_sizes"]]
    return arguments


def _ddpg_arguments(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Spinning Up's arguments by baselines' names."""
    given = DDPG_DEFAULTS | kwargs
    steps = given.pop("steps_per_epoch", DDPG_STEPS_PER_EPOCH)
    given["nb_epoch_cycles"] = max(1, round(steps / given["update_every"]))
    if given.get("total_timesteps") is None:
        given.setdefault("epochs", DDPG_EPOCHS)
    return {DDPG_NAMES.get(key, key): value for key, value in given.items()}


def _config(name: str, env: Any, arguments: dict[str, Any], logger_kwargs: dict[str, Any]) -> dict[str, Any]:
    """What evaluates and resumes the run, as the command line would make it; empty for an environment without an id."""
    spec = getattr(env, "spec", None)
    registered = gymnasium.registry.get(spec.id) if spec is not None else None
    if registered is None or spec.additional_wrappers or spec.kwargs != registered.kwargs:
        return {}
    given = {"alg": name, "env": spec.id, "network": NETWORK}
    for key, value in arguments.items():
        text = getattr(value, "__name__", None) if callable(value) else value
        if callable(value) and text not in ACTIVATIONS:
            return {}
        if key not in OF_THE_RUN or key == "seed":
            given[key] = shown(text)
    if arguments.get("total_timesteps") is not None:
        given["num_timesteps"] = shown(arguments["total_timesteps"])
    elif name != "ddpg":
        given.setdefault("epochs", str(get(name).config.arguments()["epochs"].default))
    config = make_config(parse(given, ALGORITHMS), mpi.world().size)
    # As env_fn makes it.
    config["env"]["normalize"] = False
    exp_name = logger_kwargs.get("exp_name")
    return config | ({} if exp_name is None else {"exp_name": str(exp_name)})


vpg, trpo, ppo, ddpg, td3, sac = map(_function, ("vpg", "trpo", "ppo", "ddpg", "td3", "sac"))


def load_policy_and_env(
    fpath: str, itr: str | int = "last", deterministic: bool = False
) -> tuple[gymnasium.Env, Callable[[np.ndarray], np.ndarray]]:
    """An environment as a saved run's, and its policy as a function of one observation.

    Args:
        fpath: the run's log directory.
        itr: 'last', 'best', or a checkpoint's number.
        deterministic: take the most likely actions instead of sampling.
    """
    from tfbaselines.envs.make import make_env
    from tfbaselines.envs.vec.viewer import has_display
    from tfbaselines.evaluate import load

    config = read_config(fpath)
    stored = config["env"]
    model = load(fpath, checkpoint="last" if itr in (-1, "last") else str(itr))
    if model.tree()["normalization"]:
        raise ValueError(
            f"'{Path(fpath)}' normalises observations outside of its model: python -m tfbaselines.evaluate"
        )
    env = make_env(
        stored["env"],
        stored.get("env_type"),
        flatten_dict_observations=stored.get("flatten", True),
        env_kwargs={"render_mode": "human"} if has_display() else None,
    )
    return env, lambda obs: model.act(obs, deterministic=deterministic)[0]


def run_policy(
    env: gymnasium.Env,
    get_action: Callable[[Any], Any],
    max_ep_len: int | None = None,
    num_episodes: int = 100,
    render: bool = True,
) -> dict[str, Any]:
    """Run a policy; prints each episode, and gives mean, deviation, minimum and maximum of what they returned.

    Args:
        env: an environment.
        get_action: of one observation.
        max_ep_len: steps after which an episode ends; None or 0 for the environment's own limit.
        num_episodes: how many.
        render: show it, where it was made with a render_mode.
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
