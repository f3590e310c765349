"""``python -m tfbaselines.multi``: train several behaviors of a PettingZoo environment, or evaluate them."""

import importlib.util
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tfbaselines.cli import Parser, exit_status, leave
from tfbaselines.cli.command_line import own_arguments, split
from tfbaselines.cli.sections import read_sections
from tfbaselines.errors import UsageError, bad_argument
from tfbaselines.loading import import_named, load_tensorflow

NAME = "python -m tfbaselines.multi"

DESCRIPTION = """Train several behaviors of an environment in PettingZoo's parallel form, each with an algorithm and
settings of its own; the agents of a behavior share its parameters. The file has a section for each behavior, and may
have one named default. --env_kwargs.NAME=VALUE is an argument of the environment."""


def main(argv: list[str] | None = None) -> int:
    """Run the command and return its exit status."""
    words = sys.argv[1:] if argv is None else argv
    return exit_status(NAME, lambda: _main(words))


def _main(words: list[str]) -> int:
    own = [word for word in words if word.startswith("--env_kwargs.")]
    args = _parser().parse_args([word for word in words if word not in own])
    make = environment(args.env, own_arguments(split(own)) or {})
    if args.evaluate is None:
        return _train(args, make)
    if args.log_path is None:
        raise bad_argument("evaluate", args.evaluate, "needs log_path, the directory of the trained behaviors")
    if not os.path.isdir(args.log_path):
        raise bad_argument("log_path", args.log_path, "the directory of trained behaviors")
    load_tensorflow()
    from tfbaselines.multi.training import evaluate

    seed = 0 if args.seed is None else args.seed
    found = evaluate(make, args.log_path, episodes=args.evaluate, deterministic=args.deterministic, seed=seed)
    for name, result in found.items():
        lengths = sum(result["lengths"]) / len(result["lengths"])
        numbers = "  ".join(f"{key} {result[key]:.4f}" for key in ("mean", "std", "min", "max"))
        print(f"{name}: {len(result['returns'])} episodes of agents  {numbers}  mean length {lengths:.1f}")
    return 0


def _train(args: Any, make: Callable[[], Any]) -> int:
    if args.config is None:
        raise bad_argument("config", None, "a YAML file with a section for each behavior")
    sections = read_sections(Path(args.config).expanduser(), args.num_env)
    from tfbaselines.multi.behaviors import DEFAULT, behavior_of_words, joined

    common = sections.get(DEFAULT, {})
    typed = {} if args.num_timesteps is None else {"num_timesteps": args.num_timesteps}
    behaviors = {
        name: behavior_of_words(joined(common, section) | typed, f"'{args.config}', section {name}")
        for name, section in sections.items()
    }
    load_tensorflow()
    from tfbaselines.multi.training import learn
    from tfbaselines.training.guards import Interrupted

    own = {"num_env": args.num_env, "seed": args.seed, "log_path": args.log_path}
    try:
        models = learn(make, behaviors, **own, resume=args.resume, overwrite=args.overwrite, shows=True)
    except Interrupted as stop:
        print(f"{stop}\nto continue: {NAME} {shlex.join([*sys.argv[1:], '--resume'])}", flush=True)
        return 128 + stop.signal
    if args.log_path is not None:
        print(f"\nsee them act:   {NAME} --env={args.env} --log_path={shlex.quote(args.log_path)} --evaluate=20")
        for name in models:
            print(f"plot {name}:  python -m tfbaselines.plot {shlex.quote(os.path.join(args.log_path, name))}")
    return 0


def _parser() -> Parser:
    parser = Parser(prog=NAME, description=DESCRIPTION)
    parser.add_argument("--env", required=True, help="module of PettingZoo, or 'module:function' that makes it")
    parser.add_argument("--config", help="YAML file of settings, a section for each behavior; ML-Agents' too")
    parser.add_argument("--log_path", help="directory of the behaviors' log directories")
    parser.add_argument("--num_timesteps", help="rows of training, in place of the file's")
    parser.add_argument("--num_env", type=int, default=1, help="copies of the environment (default %(default)s)")
    parser.add_argument("--seed", type=int, help="seed of environments and behaviors")
    parser.add_argument("--resume", action="store_true", help="continue from the latest checkpoints in log_path")
    parser.add_argument("--overwrite", action="store_true", help="delete the files of an earlier run in log_path")
    parser.add_argument(
        "--evaluate", type=int, help="in place of training, episodes to play with the trained behaviors"
    )
    parser.add_argument("--deterministic", action="store_true", help="evaluate the most likely actions")
    return parser


def environment(name: str, kwargs: dict[str, Any]) -> Callable[[], Any]:
    """Return a function that makes the environment of a name: 'module', with parallel_env, or 'module:function'."""
    module, _, function = name.partition(":")
    function = function or "parallel_env"
    if module.partition(".")[0] == "pettingzoo" and importlib.util.find_spec("pettingzoo") is None:
        raise bad_argument("env", name, 'PettingZoo is missing: pip install "tfbaselines[multiagent]"')
    try:
        make = getattr(import_named(module), function)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise bad_argument("env", name, f"a module with {function} ({error!s:.200})") from None

    def made() -> Any:
        try:
            return make(**kwargs)
        except TypeError as error:
            raise UsageError(f"env={name} cannot be made with {kwargs}: {error}") from None

    return made


if __name__ == "__main__":
    leave(main())
