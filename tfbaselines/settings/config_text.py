"""The text of --print_config: every argument, and where its value comes from, as a file for --config."""

from collections.abc import Iterable, Mapping
from typing import Any

from tfbaselines.settings.argument import shown
from tfbaselines.settings.command_line import ENV_KWARGS, OF_THE_RUN, Arguments
from tfbaselines.settings.flags import FLAGS
from tfbaselines.settings.sections import DEFAULT, TYPED_ONLY
from tfbaselines.settings.signatures import network_named

COMMENT_COLUMN = 44


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
