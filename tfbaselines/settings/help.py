"""The text of --help."""

import textwrap
from collections.abc import Iterable
from typing import Any

from tfbaselines import ALGORITHMS
from tfbaselines.settings.command_line import FLAGS
from tfbaselines.settings.signatures import Argument, algorithm, networks

WIDTH = 110
INDENT = 26

USAGE = """usage: python -m tfbaselines.run [--alg=ALG] [--env=ENV] [--name=value ...]

Train an agent, save it, play it. Other commands: python -m tfbaselines.evaluate, .plot, .bench (each has --help).
"""


def help_text(alg: str | None) -> str:
    """The general help; with an algorithm, its arguments and those of the networks as well.

    Args:
        alg: the algorithm that was named, or None.
    """
    parts = [USAGE, "Flags:", *(_entry(flag.name, flag.default, flag.meaning, flag.choices) for flag in FLAGS.values())]
    parts += ["", "Algorithms:", *(_line(name, algorithm(name).summary) for name in ALGORITHMS)]
    parts += ["", "Networks:", *(_line(network.name, network.summary) for network in networks().values())]
    if alg is None:
        parts += ["", "--alg=ALG --help adds the arguments of that algorithm and of the networks."]
        return "\n".join(parts) + "\n"
    return "\n".join([*parts, *_of_algorithm(alg)]) + "\n"


def _of_algorithm(name: str) -> Iterable[str]:
    alg = algorithm(name)
    yield f"\nArguments of {name}:"
    for argument in alg.arguments.values():
        if not argument.settable:
            continue
        by_type = {kind: values[argument.name] for kind, values in alg.defaults.items() if argument.name in values}
        yield _entry(argument.name, argument.default, argument.meaning, by_type=by_type)
    only_python = [argument.name for argument in alg.arguments.values() if not argument.settable]
    yield f"\nFrom Python only: {', '.join(only_python)}."
    for network in networks().values():
        if network.arguments:
            yield f"\nArguments of network {network.name}:"
            yield from map(_argument, network.arguments.values())


def _argument(argument: Argument) -> str:
    return _entry(argument.name, argument.default, argument.meaning)


def _entry(
    name: str,
    default: Any,
    meaning: str,
    choices: Iterable[str] = (),
    by_type: dict[str, Any] | None = None,
) -> str:
    notes = [f"one of {', '.join(choices)}"] if choices else []
    if default is not None and default is not False:
        notes.append(f"default {default}")
    notes += [f"{kind}: {value}" for kind, value in (by_type or {}).items()]
    return _line(f"--{name}", f"{meaning} ({'; '.join(notes)})" if notes else meaning)


def _line(head: str, text: str) -> str:
    wrapped = textwrap.wrap(text, WIDTH - INDENT) or [""]
    lead = f"  {head}".ljust(INDENT)
    if not lead.endswith(" "):
        lead += "\n" + " " * INDENT
    return lead + ("\n" + " " * INDENT).join(wrapped)
