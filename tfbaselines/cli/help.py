"""Text of --help."""

import shutil
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from tfbaselines.cli.command_line import FLAGS, OF_THE_RUN
from tfbaselines.config.algorithm import Algorithm, named
from tfbaselines.config.argument import Argument, shown
from tfbaselines.config.networks import NETWORKS, Network, network_named
from tfbaselines.config.schedules import FRACTION_SCHEDULES
from tfbaselines.envs import ENV_TYPES

# Columns.
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


def help_text(algorithms: Mapping[str, Algorithm], alg: str | None = None, network: str | None = None) -> str:
    """Describe flags, algorithms and networks; or the arguments of one algorithm, of one network, or of both.

    Args:
        algorithms: the registry.
        alg: name of an algorithm, or None.
        network: name of a network, or None.
    """
    page = _Page(min(shutil.get_terminal_size().columns, MAX_WIDTH))
    if alg is None and network is None:
        return _joined(_general(page, algorithms))
    parts: list[str] = [page.paragraph(USAGE)]
    if alg is not None:
        parts += _of_algorithm(page, named(algorithms, alg), network is None)
    if network is not None:
        parts += _of_network(page, network_named(network))
    return _joined([*parts, "", page.paragraph("--help alone lists flags, algorithms and networks.")])


class _Page:
    """Lines of at most `width` columns."""

    def __init__(self, width: int) -> None:
        self._width = width

    def paragraph(self, text: str) -> str:
        """Fill a text from the margin."""
        return textwrap.fill(" ".join(text.split()), self._width, break_on_hyphens=False)

    def entry(self, head: str, text: str) -> str:
        """Put a name and its text into two columns."""
        column = max(self._width - INDENT, 20)
        lines = textwrap.wrap(text, column, break_on_hyphens=False, break_long_words=False) or [""]
        lead = f"  {head}".ljust(INDENT)
        if not lead.endswith(" "):
            lead += "\n" + " " * INDENT
        return lead + ("\n" + " " * INDENT).join(lines)

    def argument(self, argument: Argument, by_env_type: dict[str, Any] | None = None) -> str:
        """Describe an argument with its meaning, type, bounds and defaults."""
        notes = argument.notes(by_env_type, from_python=False)
        return self.entry(f"--{argument.name}", f"{argument.meaning} ({notes})".lstrip())


def _general(page: _Page, algorithms: Mapping[str, Algorithm]) -> Iterable[str]:
    yield from (page.paragraph(USAGE), "", page.paragraph(PURPOSE), "", "Flags:")
    yield from map(page.argument, FLAGS.values())
    yield from ("", "Algorithms:")
    for algorithm in algorithms.values():
        summary = f"{algorithm.summary}. Actions: {', '.join(algorithm.actions)}. Network: {_default(algorithm)}"
        yield page.entry(algorithm.name, summary)
    yield from ("", "Networks:")
    yield from (page.entry(network.name, network.summary) for network in NETWORKS.values())
    yield from ("", page.paragraph(MORE))


def _default(algorithm: Algorithm) -> str:
    """Describe the default network, and the types of environments with another one."""
    usual = algorithm.default_network("")
    others: dict[str, list[str]] = {}
    for env_type in ENV_TYPES:
        if algorithm.default_network(env_type) != usual:
            others.setdefault(algorithm.default_network(env_type), []).append(env_type)
    return ", ".join([usual, *(f"{network} for {' and '.join(types)}" for network, types in others.items())])


def _of_algorithm(page: _Page, algorithm: Algorithm, with_networks: bool) -> Iterable[str]:
    config = algorithm.config
    arguments = [one for one in config.arguments().values() if one.name not in (*OF_THE_RUN, *FLAGS)]
    yield from ("", page.paragraph(f"{algorithm.name}: {algorithm.summary}."))
    yield page.paragraph(f"Actions: {', '.join(algorithm.actions)}. Default network: {_default(algorithm)}.")
    yield from ("", f"Arguments of {algorithm.name}:")
    for one in arguments:
        if one.settable:
            defaults = {kind: values[one.name] for kind, values in config.env_defaults.items() if one.name in values}
            yield page.argument(one, defaults)
    only_python = [one.name for one in config.arguments().values() if not one.settable]
    yield from ("", page.paragraph(f"From Python only: {', '.join(only_python)}."))
    yield from ("", page.paragraph(SCHEDULE))
    if with_networks:
        yield from (
            "",
            page.paragraph(f"Arguments of networks (--alg={algorithm.name} --network=NAME --help describes them):"),
        )
        for network in NETWORKS.values():
            own = [f"--{one.name}={shown(one.default).replace(' ', '')}" for one in network.arguments.values()]
            yield page.entry(network.name, " ".join(own) or "none")


def _of_network(page: _Page, network: Network) -> Iterable[str]:
    yield from ("", f"Arguments of network {network.name}:")
    yield from map(page.argument, network.arguments.values())
    if not network.arguments:
        yield "  none"


def _joined(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"
