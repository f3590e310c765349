"""Arguments of a run that differ from the settings known to work, and the causes that they stand for."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tfbaselines.algs import get
from tfbaselines.cli.command_line import parse_value
from tfbaselines.cli.sections import tuned_sections
from tfbaselines.doctor.settings import number_of
from tfbaselines.envs import env_type_of
from tfbaselines.errors import UsageError

# Causes by argument: of a value above the known one, and of a value below it.
CAUSES = {
    **dict.fromkeys(
        ("lr", "pi_lr", "vf_lr", "actor_lr", "critic_lr", "q_lr", "vf_stepsize", "optim_stepsize", "max_kl", "delta"),
        ("rate_large", "rate_small"),
    ),
    **dict.fromkeys(("gamma", "lam"), ("discount_large", "discount_small")),
    **dict.fromkeys(("ent_coef", "entcoeff", "alpha"), ("entropy_large", "no_exploration")),
    **dict.fromkeys(("cliprange", "clip_ratio", "clip_param"), ("settings", "clip_small")),
    "init_logstd": ("endless_exploration", "deviation_small"),
    **dict.fromkeys(("polyak",), ("target_frozen", "target_copied")),
    **dict.fromkeys(("tau",), ("target_copied", "target_frozen")),
    "target_network_update_freq": ("target_frozen", "target_copied"),
    **dict.fromkeys(("replay_size", "buffer_size", "batch_size"), ("settings", "replay_small")),
    **dict.fromkeys(
        ("exploration_fraction", "exploration_final_eps", "epsilon_start", "act_noise", "start_steps"),
        ("endless_exploration", "no_exploration"),
    ),
    "reward_scale": ("rewards_large", "rewards_small"),
    "n_step": ("settings", "reward_sparse"),
}
# Causes of an environment's normalization that is not the known one, by what the known one normalizes.
OF_NORMALIZATION = {"both": "observation_scale", "observations": "observation_scale", "rewards": "rewards_large"}
# Arguments that change no learning: logs, files, tests, lengths.
WITHOUT_EFFECT = {"log_interval", "print_freq", "save_freq", "save_interval", "checkpoint_freq", "num_test_episodes"}
WITHOUT_EFFECT |= {"total_timesteps", "epochs", "steps_per_epoch", "save_replay_buffer", "max_total_reward", "seed"}
WITHOUT_EFFECT |= {"max_ep_len", "max_ep_reward", "num_timesteps", "load_path", "stop_max_score", "checkpoint_path"}


class Difference(NamedTuple):
    """An argument that differs from a known setting.

    Attributes:
        name, value: the argument.
        known: the known setting.
        origin: where it comes from: the tuned settings of an environment, or the defaults.
        decades: distance of two numbers in powers of ten; infinite between 0 and another number; 1 for other values.
        of_env: the argument is one of the environments, not of `learn`.
    """

    name: str
    value: Any
    known: Any
    origin: str
    decades: float
    of_env: bool = False


def differences(config: Mapping[str, Any]) -> list[Difference]:
    """List the arguments of a run that differ from the tuned settings, or else the defaults; the farthest first."""
    algorithm = get(config["alg"])
    own = algorithm.config.arguments()
    env = config["env"].get("env") or ""
    try:
        env_type, env_id = env_type_of(env, config["env"].get("env_type")) if env else ("", "")
    except UsageError:
        env_type, env_id = "", ""
    defaults = {name: argument.default for name, argument in own.items()} | dict(
        algorithm.config.defaults_for(env_type)
    )
    section = tuned_sections(algorithm.name).get(env_id, {})
    tuned = _parsed(own, section)
    found = []
    # What a run leaves at its default may be tuned as well.
    given = {name: defaults.get(name) for name in tuned} | dict(config["learn"])
    for name, value in given.items():
        if name not in own or name in WITHOUT_EFFECT or not own[name].settable:
            continue
        known, origin = (tuned[name], f"tuned for {env_id}") if name in tuned else (defaults.get(name), "default")
        if far := _distance(value, known, name):
            found.append(Difference(name, value, known, origin, far))
    return sorted([*found, *_of_env(config["env"], section, env_type, env_id)], key=lambda one: -one.decades)


def _of_env(env: Mapping[str, Any], section: Mapping[str, Any], env_type: str, env_id: str) -> Iterator[Difference]:
    """Yield the differences of the environments' normalization and scale of rewards from tuned ones."""
    if "normalize" in section:
        # True stands for the default of the environment's type.
        value = env.get("normalize")
        value = ("both" if value and env_type == "mujoco" else "none") if isinstance(value, bool | None) else value
        if value != section["normalize"]:
            yield Difference("normalize", value, section["normalize"], f"tuned for {env_id}", 1.0, True)
    if "reward_scale" in section:
        value, known = float(env.get("reward_scale") or 1.0), float(section["reward_scale"])
        if far := _distance(value, known, "reward_scale"):
            yield Difference("reward_scale", value, known, f"tuned for {env_id}", far, True)


def _distance(value: Any, known: Any, name: str) -> float:
    """Return the distance of two settings as Difference has it; 0 for equal ones."""
    numbers = number_of(value), number_of(known)
    if None in numbers:
        return 0.0 if _plain(value) == _plain(known) else 1.0
    return _decades(*numbers, name)


def cause_of(difference: Difference) -> str:
    """Return the cause that an argument's difference stands for."""
    if difference.name == "normalize":
        # Where observations are normalized already, rewards are not.
        known = "rewards" if (difference.value, difference.known) == ("observations", "both") else difference.known
        return OF_NORMALIZATION.get(known, "settings")
    above, below = CAUSES.get(difference.name, ("settings", "settings"))
    value, known = number_of(difference.value), number_of(difference.known)
    if value is None or known is None:
        return "settings"
    return above if value > known else below


def _parsed(own: Mapping[str, Any], section: Mapping[str, Any]) -> dict[str, Any]:
    return {name: parse_value(own[name], text) for name, text in section.items() if name in own}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _decades(value: float, known: float, name: str) -> float:
    if value == known:
        return 0.0
    if name in ("gamma", "lam", "polyak"):
        # Distances from 1 are horizons.
        value, known = 1.0 - value, 1.0 - known
    if name == "init_logstd":
        return abs(value - known) / math.log(10.0)
    if value <= 0 or known <= 0:
        return math.inf
    return abs(math.log10(value / known))
