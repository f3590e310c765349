"""Arguments from YAML files, below those that are typed: ``--config=FILE.yaml`` and ``--tuned``.

A file has a section `default`, and sections named after a type of environments (`atari`) or an environment
(`CartPole-v1`); the later of these count. The values are what would be typed.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import gymnasium

from tfbaselines.arrays import open_regular
from tfbaselines.cli.command_line import ENV_KWARGS, FLAGS, OF_THE_RUN, Arguments
from tfbaselines.config.argument import shown
from tfbaselines.config.networks import network_named
from tfbaselines.envs.ids import ENV_TYPES, VERSION, env_type_of
from tfbaselines.errors import UsageError, bad_argument, nearest, warn

TUNED = Path(__file__).parents[1] / "tuned"
DEFAULT = "default"
# In bytes.
LARGEST = 2**20
COMMENT_COLUMN = 44
# What the command does is typed; a file holds what a run is.
TYPED_ONLY = ("config", "tuned", "print_config", "help", "resume", "trust", "overwrite")

# A section's name and its arguments as they would be typed.
Sections = dict[str, dict[str, str]]


def read_sections(path: Path) -> Sections:
    """The sections of a file; ValueError in one line that names the mistake.

    Args:
        path: of a YAML file.
    """
    import yaml

    try:
        with open_regular(path) as file:
            document = yaml.load(file.read(LARGEST), _loader())
    except OSError as error:
        raise UsageError(f"'{path}' cannot be read ({(error.strerror or str(error)).lower()})") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"'{path}' is not YAML: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(document, dict) or not all(isinstance(section, dict) for section in document.values()):
        raise UsageError(f"'{path}' has no sections: write 'default:' or an environment's id, its arguments indented")
    return {str(name): _typed(section, f"{path}, section {name}") for name, section in document.items()}


def _loader() -> type:
    """A loader of plain values that refuses a key which is there twice: YAML's own takes the last one unsaid."""
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            keys = [key.value for key, _ in node.value if isinstance(key.value, str)]
            twice = next((key for key in keys if keys.count(key) > 1 and key != "<<"), None)
            if twice is not None:
                raise yaml.YAMLError(f"'{twice}' is there twice, in line {node.start_mark.line + 1} or below")
            return super().construct_mapping(node, deep)

    return Loader


def _typed(section: Mapping[Any, Any], place: str) -> dict[str, str]:
    """A section's values as they would be typed."""
    words: dict[str, str] = {}
    for key, value in section.items():
        name = str(key).replace("-", "_")
        if name in TYPED_ONLY:
            raise UsageError(f"{place}: '{name}' is typed on the command line, not kept in a file")
        if name == "env_kwargs" and isinstance(value, dict | None):
            # As Python writes them, a text in quotation marks, so that their types are those of the file.
            words |= {f"env_kwargs.{inner}": repr(item) for inner, item in (value or {}).items()}
        elif name == "env_kwargs":
            raise UsageError(f"{place}: env_kwargs must be the environment's arguments by name, as {{size: 4}}")
        else:
            words[name] = _word(value)
    return words


def _word(value: Any) -> str:
    return json.dumps(value) if isinstance(value, dict) else str(value)


def below(typed: Mapping[str, str | bool], stored: Mapping[str, str | bool]) -> tuple[dict[str, str], dict[str, str]]:
    """The arguments that --config and --tuned add to a command line.

    Args:
        typed: the command line, split.
        stored: of a run that is resumed; these count where nothing is typed.

    Returns:
        The arguments, and where each came from.
    """
    path, sections = typed.get("config"), {}
    if path is True:
        raise UsageError("--config needs a value: --config=FILE.yaml")
    if path is not None:
        sections = read_sections(Path(path).expanduser())
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
            _take(_named(alg, tuned), f"{place}, section {tuned}", values, origins)
        # A resumed run was started with these.
        for name in values.keys() & stored.keys():
            del values[name], origins[name]
    _warn_of_unknown(sections, given, str(path))
    _add(sections, given, str(path), values, origins)
    return values, origins


def tuned_sections(alg: str) -> Sections:
    """The tuned settings of an algorithm, by environment; empty when it has none."""
    path = TUNED / f"{alg}.yaml"
    return read_sections(path) if path.exists() else {}


def tuned_environments(alg: str) -> Sections:
    """The tuned settings of single environments, without those of types and those that have a name."""
    return {name: section for name, section in tuned_sections(alg).items() if VERSION.search(name)}


def _named(alg: str, name: str) -> dict[str, str]:
    """The tuned settings of a name; ValueError when the algorithm has none."""
    sections = tuned_sections(alg)
    if name in sections:
        return sections[name]
    others = [text for text in sections if not VERSION.search(text)]
    raise bad_argument("tuned", name, ", ".join(["True", "False", *others]))


def _tuned(alg: str, given: Mapping[str, str | bool]) -> Sections:
    """The tuned settings of an algorithm; ValueError when there are none for the environment."""
    own, sections = set(_own_sections(given)), tuned_sections(alg)
    if own & sections.keys():
        return sections
    env = given.get("env", FLAGS["env"].default)
    others = [name for name in tuned_algorithms() if own & tuned_sections(name).keys()]
    has = f"{alg} has them for {', '.join(sections)}" if sections else f"{alg} has none"
    raise UsageError(f"no tuned settings of {alg} for {env}: {has}; for {env} there are {', '.join(others) or 'none'}")


def tuned_algorithms() -> list[str]:
    """The algorithms that have tuned settings."""
    return sorted(path.stem for path in TUNED.glob("*.yaml"))


def _own_sections(given: Mapping[str, str | bool]) -> list[str]:
    """Names of the sections that are an environment's own, the more general one first: its type, its id."""
    env, env_type = str(given.get("env", FLAGS["env"].default)), given.get("env_type")
    kind, env_id = env_type_of(env, None if env_type in (None, True, "None", "none") else env_type)
    return list(dict.fromkeys([kind, env_id, env]))


def _warn_of_unknown(sections: Sections, given: Mapping[str, str | bool], path: str) -> None:
    """Name the sections that no environment known here will ever look for: they may be misspelt."""
    if not sections:
        return
    # The first looks up the environment, and so registers those of packages.
    own = _own_sections(given)
    known = {DEFAULT, *own, *ENV_TYPES, *gymnasium.registry}
    for name in sections:
        if name not in known and ":" not in name:
            guess = nearest(name, known)
            hint = f": did you mean '{guess}'?" if guess else ""
            warn(f"'{path}', section {name}: neither a type of environments nor an environment known here{hint}")


def _add(
    sections: Sections, given: Mapping[str, str | bool], path: str, values: dict[str, str], origins: dict[str, str]
) -> None:
    """Add the arguments of the sections that fit an environment, the default ones first."""
    if not sections:
        return
    own = _own_sections(given)
    chosen = [name for name in (DEFAULT, *own) if name in sections]
    if not chosen:
        raise UsageError(f"'{path}' has no section for {own[-1]}, nor a default one: it has {', '.join(sections)}")
    for name in chosen:
        _take(sections[name], f"{path}, section {name}", values, origins)


def _take(section: Mapping[str, str], place: str, values: dict[str, str], origins: dict[str, str]) -> None:
    values.update(section)
    origins.update(dict.fromkeys(section, place))


def config_text(args: Arguments, origins: Mapping[str, str]) -> str:
    """YAML with a comment on every line.

    Args:
        args: the checked command line.
        origins: where an argument's value comes from, for those that are not defaults.
    """
    values, usual = dict(_values(args)), f"default for {args.env_type}"
    lines = [f"{DEFAULT}:"]
    for name, value in values.items():
        keys = [key for key in origins if key == name or (name == "env_kwargs" and key.startswith(ENV_KWARGS))]
        origin = ", ".join(dict.fromkeys(map(origins.get, keys))) or (usual if name in args.learn else "default")
        lines.append(f"  {name}: {_scalar(value)}".ljust(COMMENT_COLUMN) + f"  # {origin}")
    return "\n".join(lines) + "\n"


def _values(args: Arguments) -> Iterable[tuple[str, Any]]:
    """Every argument that text can stand for, the command's first, then the algorithm's, then the network's."""
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
