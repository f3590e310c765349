"""Behaviors: which agents share a policy, and the settings of each behavior's trainer."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tfbaselines.algs import ALGORITHMS, get
from tfbaselines.cli.command_line import FLAGS, Arguments, parse
from tfbaselines.config.algorithm import Algorithm
from tfbaselines.config.config import NetworkSpec
from tfbaselines.config.groups import network_named
from tfbaselines.errors import UsageError, nearest, unknown

# Algorithms that learn from valid rows alone.
SUITED = ("ppo2", "sac")
# Settings of agents whose behavior has none of its own.
DEFAULT = "default"
# Options of the run that a behavior may have.
OPTIONS = ("keep_checkpoints", "save_minutes", "on_nan", "save_every")
# Flags of the command that a behavior's section may have.
OF_SECTION = ("alg", "network", "num_timesteps", "seed", *OPTIONS)
# Arguments that need more than rows of agents.
REFUSED = ("reward_signals", "pretraining", "offline", "eval_env", "load_path", "model_fn", "comm")


@dataclass(frozen=True)
class Behavior:
    """A behavior's trainer.

    Attributes:
        algorithm: algorithm that trains it.
        network: network of its policy.
        arguments: arguments of the algorithm's learn.
        options: options of the run, by name.
    """

    algorithm: Algorithm
    network: NetworkSpec
    arguments: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.algorithm.name not in SUITED:
            raise UsageError(f"alg={self.algorithm.name} trains no behaviors of several agents: {' or '.join(SUITED)}")
        for name in REFUSED:
            if self.arguments.get(name) is not None:
                raise UsageError(f"{name} is for one agent alone: a behavior of several agents takes none")


def behavior_of_words(words: Mapping[str, str], place: str) -> Behavior:
    """Make a behavior of a section's words, as they would be typed on the command line."""
    for name in words:
        if name in FLAGS and name not in OF_SECTION:
            raise UsageError(f"{place}: {name} is no setting of a behavior")
    args: Arguments = parse(dict(words), ALGORITHMS, dict.fromkeys(words, place))
    own = dict(args.learn)
    if args.total_timesteps is not None:
        own["total_timesteps"] = args.total_timesteps
    if args.seed is not None:
        own["seed"] = args.seed
    options = {name: args.flags[name] for name in OPTIONS if name in words}
    try:
        return Behavior(args.algorithm, args.network, own, options)
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from None


def joined(common: Mapping[str, str], section: Mapping[str, str]) -> dict[str, str]:
    """Return a section's words on top of the default ones.

    A section with another algorithm than the default one's takes only those that its algorithm and network have.
    """
    alg = str(section.get("alg", common.get("alg", FLAGS["alg"].default)))
    if alg == common.get("alg", FLAGS["alg"].default):
        return {**common, **section}
    algorithm = get(alg)
    network = section.get("network") or algorithm.default_network("")
    known = {*OF_SECTION, *algorithm.config.arguments(), *network_named(network).arguments} - {"network", "alg"}
    return {name: value for name, value in common.items() if name in known} | dict(section)


def behavior_of(settings: Mapping[str, Any] | Behavior, name: str) -> Behavior:
    """Make a behavior of its settings: alg, network, and arguments of learn."""
    if isinstance(settings, Behavior):
        return settings
    if not isinstance(settings, Mapping):
        raise UsageError(f"the settings of behavior '{name}' are no dict, as {{'alg': 'ppo2', 'total_timesteps': 1e5}}")
    own = dict(settings)
    algorithm = get(own.pop("alg", "ppo2"))
    network = own.pop("network", None) or algorithm.default_network("")
    options = {option: own.pop(option) for option in OPTIONS if option in own}
    if "num_timesteps" in own:
        own["total_timesteps"] = own.pop("num_timesteps")
    return Behavior(algorithm, network, own, options)


def naming(names: Iterable[str]) -> Callable[[str], str]:
    """Return a function from an agent's name to its behavior.

    An agent belongs to the behavior of its own name, if there is one in `names`, else to the behavior of its name
    without the number behind it: of wolf_0 and wolf_1 that is wolf.
    """
    known = set(names)
    return lambda agent: agent if agent in known else re.sub(r"[_-]?\d+$", "", agent) or agent


def chosen(given: Mapping[str, Behavior], found: Iterable[str]) -> dict[str, Behavior]:
    """Return the behavior of each name found in the environment; refuse settings of others, and missing ones."""
    found = list(found)
    for name in given:
        if name not in found and name != DEFAULT:
            raise unknown("behavior", name, found)
    missing = [name for name in found if name not in given]
    if missing and DEFAULT not in given:
        guess = nearest(missing[0], given)
        hint = f"'{guess}' is not in the environment" if guess else f"give them, or those of '{DEFAULT}'"
        raise UsageError(f"behavior '{missing[0]}' has no settings: {hint}")
    return {name: given.get(name, given.get(DEFAULT)) for name in found}
