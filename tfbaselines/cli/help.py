"""Text that commands print: --help, --print_config, and the next commands after a run."""

import shlex
import shutil
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from tfbaselines.cli.command_line import ENV_KWARGS, FLAGS, OF_THE_RUN, Arguments
from tfbaselines.cli.sections import DEFAULT, TYPED_ONLY
from tfbaselines.cli.stored import READ_AGAIN, needs_trust
from tfbaselines.config.algorithm import Algorithm, named
from tfbaselines.config.argument import Argument, shown
from tfbaselines.config.groups import NETWORKS, network_named, reads_demonstrations
from tfbaselines.config.schedules import FRACTION_SCHEDULES
from tfbaselines.envs import ENV_TYPES

COMMENT_COLUMN = 44
# Arguments that end a run before its steps are done.
ENDING = ("max_total_reward", "stop_max_score", "stop_at", "stop_without_gain")


MAX_WIDTH = 110
INDENT = 26

USAGE = "usage: python -m tfbaselines.run [--alg=ALG] [--env=ENV] [--name=value ...]"

PURPOSE = """Train an agent, save it, play it. Other commands: python -m tfbaselines.evaluate, .plot, .record,
.check_env, .bench (each has --help). Spinning Up's form of the command runs every combination of several values:
python -m tfbaselines.run ppo --help."""

MORE = """--alg=ALG --help lists the arguments of an algorithm, --network=NAME --help those of a network; with both
the network's follow the algorithm's."""

SCHEDULE = f"""A schedule is a number, or SHAPE_NUMBER: linear_3e-4 falls from 3e-4 to 0 over training. Shapes:
{", ".join(FRACTION_SCHEDULES)}."""

# A paragraph of the help, or a name and its text in two columns.
Item = str | tuple[str, str]


def help_text(algorithms: Mapping[str, Algorithm], alg: str | None = None, network: str | None = None) -> str:
    """Describe flags, algorithms and networks; or the arguments of one algorithm, of one network, or of both."""
    items: list[Item] = [USAGE]
    if alg is None and network is None:
        items += _general(algorithms)
    if alg is not None:
        items += _of_algorithm(named(algorithms, alg), network is None)
    if network is not None:
        arguments = network_named(network).arguments.values()
        listed = map(_described, arguments) if arguments else [("none", "")]
        items += ["", f"Arguments of network {network}:", *listed]
    if alg is not None or network is not None:
        items += ["", "--help alone lists flags, algorithms and networks."]
    items += ["", f"Read on: {_page(alg, network)}"]
    width = min(shutil.get_terminal_size().columns, MAX_WIDTH)
    return "".join(f"{_formatted(item, width)}\n" for item in items)


def _page(alg: str | None, network: str | None) -> str:
    """Name the page of the documentation on an algorithm, on networks, or on the command line."""
    if alg is not None:
        return f"docs/algorithms/{alg}.md" if ":" not in alg else "docs/architecture.md"
    return "docs/howto/command-line.md" if network is None else "docs/howto/networks.md"


def _formatted(item: Item, width: int) -> str:
    if isinstance(item, str):
        return textwrap.fill(" ".join(item.split()), width, break_on_hyphens=False)
    name, text = item
    margin = " " * INDENT
    lines = textwrap.wrap(text, max(width - INDENT, 20), break_on_hyphens=False, break_long_words=False)
    lead = f"  {name}".ljust(INDENT)
    if not lead.endswith(" "):
        lead += f"\n{margin}"
    return (lead + f"\n{margin}".join(lines)).rstrip()


def _described(argument: Argument, by_env_type: dict[str, Any] | None = None) -> Item:
    notes = argument.notes(by_env_type, from_python=False)
    return f"--{argument.name}", f"{argument.meaning} ({notes})".lstrip()


def _general(algorithms: Mapping[str, Algorithm]) -> Iterable[Item]:
    yield from ("", PURPOSE, "", "Flags:", *map(_described, FLAGS.values()), "", "Algorithms:")
    for algorithm in algorithms.values():
        actions = ", ".join(algorithm.actions)
        yield algorithm.name, f"{algorithm.summary}. Actions: {actions}. Network: {_default_network(algorithm)}"
    yield from ("", "Networks:", *((network.name, network.summary) for network in NETWORKS.values()), "", MORE)


def _default_network(algorithm: Algorithm) -> str:
    usual = algorithm.default_network("")
    others: dict[str, list[str]] = {}
    for env_type in ENV_TYPES:
        if algorithm.default_network(env_type) != usual:
            others.setdefault(algorithm.default_network(env_type), []).append(env_type)
    return ", ".join([usual, *(f"{network} for {' and '.join(types)}" for network, types in others.items())])


def _of_algorithm(algorithm: Algorithm, with_networks: bool) -> Iterable[Item]:
    config, name = algorithm.config, algorithm.name
    yield from ("", f"{name}: {algorithm.summary}.")
    yield f"Actions: {', '.join(algorithm.actions)}. Default network: {_default_network(algorithm)}."
    yield from ("", f"Arguments of {name}:")
    for one in config.arguments().values():
        if one.settable and one.name not in (*OF_THE_RUN, *FLAGS):
            defaults = {kind: values[one.name] for kind, values in config.env_defaults.items() if one.name in values}
            yield _described(one, defaults)
    only_python = [one.name for one in config.arguments().values() if not one.settable]
    yield from ("", f"From Python only: {', '.join(only_python)}.", "", SCHEDULE)
    if with_networks:
        yield from ("", f"Arguments of networks (--alg={name} --network=NAME --help describes them):")
        for network in NETWORKS.values():
            own = [f"--{one.name}={shown(one.default).replace(' ', '')}" for one in network.arguments.values()]
            yield network.name, " ".join(own) or "none"


def config_text(args: Arguments, origins: Mapping[str, str]) -> str:
    """Write every argument as YAML, with the source of its value as a comment.

    Args:
        args: the arguments.
        origins: sources by argument; arguments with default values have none.
    """
    values, usual = dict(_values(args)), f"default for {args.env_type}"
    lines = [f"{DEFAULT}:"]
    for name, value in values.items():
        keys = [key for key in origins if key == name or (name == "env_kwargs" and key.startswith(ENV_KWARGS))]
        origin = ", ".join(dict.fromkeys(map(origins.get, keys))) or (usual if name in args.learn else "default")
        lines.append(f"  {name}: {_scalar(value)}".ljust(COMMENT_COLUMN) + f"  # {origin}")
    return "\n".join(lines) + "\n"


def _values(args: Arguments) -> Iterable[tuple[str, Any]]:
    """List the arguments that text can express: of the command, of the algorithm, of the network."""
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


def next_commands(args: Arguments, directory: str) -> str:
    """Write the commands for a finished run."""
    run, given = shlex.quote(directory), args.flags | args.learn
    trusted = run + (" --trust" if needs_trust(given) else "")
    lengths = {"num_timesteps": args.total_timesteps}
    if args.total_timesteps is None:
        lengths = {name: args.learn[name] for name in args.algorithm.config.length_arguments if args.learn.get(name)}
    further = [f"--{name}={2 * value:g}" for name, value in lengths.items()]
    # The bounds that ended this run would end the next one at once.
    further += [f"--{name}=None" for name in ENDING if given.get(name) is not None]
    place = f"\nthe run is in:  {run} (--log_path=DIR chooses another place)" if args.log_path is None else ""
    return (
        f"{place}\nplot it:        python -m tfbaselines.plot {run}"
        f"\nsee it:         python -m tfbaselines.evaluate {trusted} --episodes 5 --video videos"
        f"\ntrain it more:  python -m tfbaselines.run --resume={run}{given_again_flags(args)} {' '.join(further)}"
    )


def given_again_flags(args: Arguments) -> str:
    """List the flags that a resumed run needs again, which config.json does not keep."""
    names = (*READ_AGAIN, "pretraining")
    if reads_demonstrations(args.learn.get("reward_signals")):
        names += ("reward_signals",)
    again = "".join(f" --{name}={shlex.quote(args.learn[name])}" for name in names if args.learn.get(name))
    return again + (" --trust" if needs_trust(args.flags | args.learn) else "")
