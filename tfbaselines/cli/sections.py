"""Arguments from files: ``--config=FILE.yaml`` and ``--tuned``; and ``--print_config``, which prints such a file.

``--config=LOGDIR`` takes those that another run was given: like that run, but for what is typed.

Typed arguments take precedence over the files. A file has a section `default`, and sections named after a type of
environment (`atari`) or an environment (`CartPole-v1`); the more specific section takes precedence. Values are written
as they would be typed.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gymnasium

from tfbaselines.cli.command_line import FLAGS
from tfbaselines.cli.mlagents import is_trainer_file, section_of, trainer_sections
from tfbaselines.cli.stored import given_again, read_config
from tfbaselines.config.options import FILE_NAME
from tfbaselines.envs import ENV_TYPES, VERSION, env_type_of, is_known
from tfbaselines.errors import UsageError, bad_argument, nearest, warn
from tfbaselines.yaml_files import read_yaml

TUNED = Path(__file__).parents[1] / "tuned"
DEFAULT = "default"
# Separates a named set of tuned settings from the environments of a section, as in 10min@CartPole-v1.
OF_SET = "@"
# Number of unknown sections that are named.
MOST_WARNINGS = 5
# A file describes a run. These arguments are for the command alone.
TYPED_ONLY = ("config", "tuned", "print_config", "help", "resume", "trust", "overwrite")

# Arguments as they would be typed, by the section's name.
Sections = dict[str, dict[str, str | bool]]


def read_sections(path: Path, num_env: int = 1, wanted: Callable[[str], bool] = lambda name: True) -> Sections:
    """Read the sections of a YAML file, our own or a trainer file of ML-Agents.

    Args:
        path: the file.
        num_env: environments that a buffer of ML-Agents is shared out over.
        wanted: returns whether a behavior of ML-Agents is of interest.
    """
    document = read_yaml(path)
    if is_trainer_file(document):
        return trainer_sections(document, str(path), num_env, wanted)
    if not isinstance(document, dict) or not all(isinstance(section, dict) for section in document.values()):
        raise UsageError(f"'{path}' has no sections: write 'default:' or an environment's id, its arguments indented")
    return {str(name): _typed(section, f"{path}, section {name}") for name, section in document.items()}


def _typed(section: Mapping[Any, Any], place: str) -> dict[str, str]:
    words: dict[str, str] = {}
    for key, value in section.items():
        name = str(key).replace("-", "_")
        if name in TYPED_ONLY:
            raise UsageError(f"{place}: '{name}' is typed on the command line, not kept in a file")
        if name == "env_kwargs" and isinstance(value, dict | None):
            # Python's notation, with quotation marks around text, keeps the types.
            words |= {f"env_kwargs.{inner}": repr(item) for inner, item in (value or {}).items()}
        elif name == "env_kwargs":
            raise UsageError(f"{place}: env_kwargs must be the environment's arguments by name, as {{size: 4}}")
        else:
            words[name] = _word(value)
    return words


def _word(value: Any) -> str:
    return json.dumps(value) if isinstance(value, dict) else str(value)


def below(typed: Mapping[str, str | bool], stored: Mapping[str, str | bool]) -> tuple[dict[str, str], dict[str, str]]:
    """Collect the arguments that --config and --tuned add to a command line.

    Args:
        typed: the command line, split.
        stored: arguments of a resumed run, which take precedence over tuned ones.

    Returns:
        The arguments, and the source of each.
    """
    path, sections = typed.get("config"), {}
    if path is True:
        raise UsageError("--config needs a value: --config=FILE.yaml")
    if path is not None:
        path = Path(path).expanduser()
        # A run's own arguments, or a file of sections.
        of_run = path.is_dir() or path.name == FILE_NAME
        sections = {DEFAULT: _given_to(path, typed)} if of_run else _sections_for(path, {**stored, **typed})
    given = {**stored, **sections.get(DEFAULT, {}), **typed}
    values: dict[str, str] = {}
    origins: dict[str, str] = {}
    tuned = str(typed.get("tuned", False))
    if tuned.lower() not in ("false", "0"):
        alg = str(given.get("alg", FLAGS["alg"].default))
        place = f"tuned/{alg}.yaml"
        if tuned.lower() in ("true", "1"):
            _add(_tuned(alg, given), given, place, values, origins)
        else:
            for name, section in _named(alg, tuned, given).items():
                _take(section, f"{place}, section {name}", values, origins)
        # The stored arguments of a resumed run include its tuned ones.
        for name in values.keys() & stored.keys():
            del values[name], origins[name]
    _warn_of_unknown(sections, given, str(path))
    _add(sections, given, str(path), values, origins)
    return values, origins


def _sections_for(path: Path, given: Mapping[str, str | bool]) -> Sections:
    """Return the sections of a file, or what a trainer file of ML-Agents has for the environment."""
    document = read_yaml(path)
    if not is_trainer_file(document):
        return read_sections(path)
    num_env = str(given.get("num_env", 1))
    count = int(num_env) if num_env.isdigit() else 1
    own = own_sections(given)
    name, words = section_of(document, str(path), own, max(1, count))
    # The only behavior of a file counts for any environment.
    return {name if name in own else DEFAULT: words}


def _given_to(path: Path, typed: Mapping[str, str | bool]) -> dict[str, str | bool]:
    """Return the arguments that a run was given, from its log directory or its config.json, without its paths."""
    given = read_config(path if path.is_dir() else path.parent)["given"]
    own = {name: value for name, value in typed.items() if name != "config"}
    return {name: value for name, value in given_again(given, own).items() if name not in own}


def tuned_sections(alg: str) -> Sections:
    """Return the tuned settings of an algorithm, by environment; empty if there are none."""
    path = TUNED / f"{alg}.yaml"
    return read_sections(path) if path.exists() else {}


def tuned_environments(alg: str) -> Sections:
    """Return the tuned settings of single environments, without types of environments and named sets."""
    sections = tuned_sections(alg)
    return {name: section for name, section in sections.items() if VERSION.search(name) and OF_SET not in name}


def named_sets(alg: str) -> list[str]:
    """List the named sets of an algorithm's tuned settings, and the types of environments that may be named."""
    names = (name.split(OF_SET)[0] for name in tuned_sections(alg))
    return [name for name in dict.fromkeys(names) if not VERSION.search(name)]


def _named(alg: str, name: str, given: Mapping[str, str | bool]) -> Sections:
    """Return the sections of a named set for an environment: `NAME`, then `NAME@TYPE` and `NAME@ENVIRONMENT`."""
    sections = tuned_sections(alg)
    own = own_sections(given)
    chosen = [one for one in (name, *(f"{name}{OF_SET}{place}" for place in own)) if one in sections]
    if chosen:
        return {one: sections[one] for one in chosen}
    sets = named_sets(alg)
    if name in sets:
        there = [one.removeprefix(f"{name}{OF_SET}") for one in sections if one.startswith(f"{name}{OF_SET}")]
        raise bad_argument("tuned", name, f"{alg} has it for {', '.join(there)}, not for {own[-1]}")
    accepted = ", ".join(["True", "False", *sets])
    others = [other for other in tuned_algorithms() if name in named_sets(other)]
    if others:
        raise bad_argument("tuned", name, f"{', '.join(others)} has this set, {alg} has {accepted}")
    guess = nearest(name, sets)
    raise bad_argument("tuned", name, accepted + (f"; did you mean '{guess}'?" if guess else ""))


def _tuned(alg: str, given: Mapping[str, str | bool]) -> Sections:
    """Return the tuned settings of an algorithm; refuse an environment without any."""
    own, sections = set(own_sections(given)), tuned_sections(alg)
    if own & sections.keys():
        return sections
    env = given.get("env", FLAGS["env"].default)
    others = [name for name in tuned_algorithms() if own & tuned_sections(name).keys()]
    has = f"{alg} has them for {', '.join(sections)}" if sections else f"{alg} has none"
    there = f"for {env} there are {', '.join(others)}" if others else "no other algorithm has any for it"
    raise UsageError(f"no tuned settings of {alg} for {env}: {has}; {there}")


def tuned_algorithms() -> list[str]:
    """List the algorithms that have tuned settings."""
    return sorted(path.stem for path in TUNED.glob("*.yaml"))


def own_sections(given: Mapping[str, str | bool]) -> list[str]:
    """Return the names of an environment's sections: its type, its id, and its id with a module."""
    env, env_type = str(given.get("env", FLAGS["env"].default)), given.get("env_type")
    kind, env_id = env_type_of(env, None if env_type in (None, True, "None", "none") else env_type)
    return list(dict.fromkeys([kind, env_id, env]))


def _warn_of_unknown(sections: Sections, given: Mapping[str, str | bool], path: str) -> None:
    if not sections:
        return
    sure = {DEFAULT, *own_sections(given), *ENV_TYPES}
    unknown = [name for name in sections if name not in sure and ":" not in name and not is_known(name)]
    known = {*sure, *gymnasium.registry}
    for name in unknown[:MOST_WARNINGS]:
        guess = nearest(name, known)
        hint = f": did you mean '{guess}'?" if guess else ""
        warn(f"'{path}', section {name}: neither a type of environments nor an environment known here{hint}")
    if len(unknown) > MOST_WARNINGS:
        warn(f"'{path}': {len(unknown) - MOST_WARNINGS} more sections are unknown")


def _add(
    sections: Sections, given: Mapping[str, str | bool], path: str, values: dict[str, str], origins: dict[str, str]
) -> None:
    """Add the arguments of an environment's sections, the default ones first."""
    if not sections:
        return
    own = own_sections(given)
    chosen = [name for name in (DEFAULT, *own) if name in sections]
    if not chosen:
        raise UsageError(f"'{path}' has no section for {own[-1]}, nor a default one: it has {', '.join(sections)}")
    for name in chosen:
        _take(sections[name], f"{path}, section {name}", values, origins)


def _take(section: Mapping[str, str], place: str, values: dict[str, str], origins: dict[str, str]) -> None:
    values.update(section)
    origins.update(dict.fromkeys(section, place))
