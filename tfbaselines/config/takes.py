"""Signature and documentation of `learn`, from the arguments that its Config declares."""

import dataclasses
import functools
import inspect
import textwrap
from collections.abc import Callable
from numbers import Integral
from typing import Annotated, Any, Union, get_args, get_origin

import gymnasium

from tfbaselines.config.config import Config
from tfbaselines.envs import VERSION
from tfbaselines.envs.adapt import as_vec_env, check_apart
from tfbaselines.errors import UsageError

WIDTH = 100

NETWORK = "name of a registered network, or a network builder"
ENV = "the environments: a VecEnv, a Gymnasium environment, an id, a function that makes one, or a list of functions"
# Distance of the seeds for evaluation from the seeds for training.
EVAL_SEEDS_APART = 5_000
NETWORK_KWARGS = "arguments of the network builder"
SCHEDULE = """A schedule is a number, a text SHAPE_NUMBER such as 'linear_3e-4', which falls from 3e-4 to 0 over
training, or a function of the fraction of training left, from 1 down to 0."""


def takes(
    config: type[Config], env: str = ENV, flatten: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate ``def learn(network, env, **kwargs)``: name, document and sort its arguments.

    The Config's order gives names to arguments after network and env that are given by position; the function gets
    all of them by name. `inspect.signature` and `help` of the function list every argument.

    Args:
        config: class that declares the arguments.
        env: meaning of `env` for the documentation.
        flatten: flatten Dict and Tuple observations of environments that are made or wrapped here.
    """

    def decorate(learn: Callable[..., Any]) -> Callable[..., Any]:
        names = ("network", "env", *config.arguments())

        @functools.wraps(learn)
        def with_names(*positional: Any, **named: Any) -> Any:
            if positional and "network" in named and "env" not in named:
                # The form of baselines' deepq is learn(env, network="mlp").
                positional = (named.pop("network"), *positional)
            arguments = _by_name(names, positional, named)
            network, env = arguments.pop("network"), arguments.pop("env")
            if hasattr(network, "action_space") or (_is_id(network) and _may_be_network(env)):
                # The form of baselines' deepq is learn(env, "mlp").
                network, env = env, network
            seed = arguments.get("seed")
            # The Config refuses a seed of another type.
            seed = seed if isinstance(seed, Integral) else None
            # Environments need the seed before the Config checks the arguments.
            if seed is not None and "seed" in config.arguments():
                config.arguments()["seed"].checked(seed)
            env = as_vec_env(env, seed, flatten)
            if arguments.get("eval_env") is not None:
                seed = None if seed is None else seed + EVAL_SEEDS_APART
                arguments["eval_env"] = as_vec_env(arguments["eval_env"], seed, flatten, "eval_env")
                check_apart(env, arguments["eval_env"], "eval_env")
            return learn(network, env, **arguments)

        with_names.__signature__ = _signature(learn, config)
        with_names.__doc__ = _documentation(learn, config, env)
        return with_names

    return decorate


def _is_id(value: Any) -> bool:
    """Return True if a text is the id of an environment, also of one that a module registers later."""
    if not isinstance(value, str) or not (VERSION.search(value) or value in gymnasium.registry):
        return False
    from tfbaselines.policy.networks import NETWORKS

    return value not in NETWORKS


def _may_be_network(value: Any) -> bool:
    return callable(value) or (isinstance(value, str) and not _is_id(value))


def _by_name(names: tuple[str, ...], positional: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """Name the positional arguments; refuse too many, and one that is missing or given twice."""
    if len(positional) > len(names):
        raise UsageError(
            f"learn takes at most {len(names)} arguments by position, not {len(positional)}: {names[-1]} is the last"
        )
    by_position = dict(zip(names, positional, strict=False))
    twice = sorted(by_position.keys() & named.keys())
    if twice:
        raise UsageError(f"argument '{twice[0]}' is given twice, by position and by name")
    arguments = by_position | named
    missing = [name for name in names[:2] if name not in arguments]
    if missing:
        raise TypeError(f"argument '{missing[0]}' is missing: learn(network, env, ...)")
    return arguments


def _signature(learn: Callable[..., Any], config: type[Config]) -> inspect.Signature:
    own = inspect.signature(learn)
    types = {field.name: field.type for field in dataclasses.fields(config)}
    first = [own.parameters[name] for name in ("network", "env")]
    arguments = [
        inspect.Parameter(
            argument.name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=argument.default,
            annotation=_plain(types[argument.name]),
        )
        for argument in config.arguments().values()
    ]
    rest = inspect.Parameter("network_kwargs", inspect.Parameter.VAR_KEYWORD, annotation=Any)
    return inspect.Signature([*first, *arguments, rest], return_annotation=own.return_annotation)


def _plain(annotation: Any) -> Any:
    """Replace a Schedule in an annotation by the types that it stands for."""
    if get_origin(annotation) is Annotated:
        return annotation.__origin__
    members = get_args(annotation)
    if any(get_origin(member) is Annotated for member in members):
        return Union[tuple(_plain(member) for member in members)]  # noqa: UP007
    return annotation


def _documentation(learn: Callable[..., Any], config: type[Config], env: str) -> str:
    """Add a section Args to the function's docstring, before its section Returns."""
    text, _, returns = (inspect.getdoc(learn) or "").partition("\n\nReturns:")
    entries = [f"network: {NETWORK}.", f"env: {env}."]
    entries += [f"{one.name}: {one.meaning} ({one.notes()})." for one in config.arguments().values()]
    entries += [f"network_kwargs: {NETWORK_KWARGS}."]
    lines = [f"{text}\n\nArgs:", *map(_indented, entries)]
    if any("schedule" in one.kinds for one in config.arguments().values()):
        lines += ["", textwrap.fill(SCHEDULE, WIDTH, break_on_hyphens=False)]
    return "\n".join(lines) + (f"\n\nReturns:{returns}" if returns else "")


def _indented(entry: str) -> str:
    return textwrap.fill(
        entry,
        WIDTH,
        initial_indent="    ",
        subsequent_indent="        ",
        break_long_words=False,
        break_on_hyphens=False,
    )
