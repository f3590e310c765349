"""`python -m tfbaselines.check_env ID` examines an environment and lists what to change."""

import math
import sys
from collections.abc import Sequence
from typing import Any

import gymnasium
from gymnasium import spaces

from tfbaselines.algs import ALGORITHMS
from tfbaselines.cli import Parser, exit_status
from tfbaselines.cli.command_line import ENV_KWARGS, own_arguments, split
from tfbaselines.envs import env_type_of
from tfbaselines.envs.bare import making
from tfbaselines.envs.check import ADVICE, MISTAKE, check
from tfbaselines.envs.vec.observations import MASK, array_parts, is_image, named_parts_of
from tfbaselines.envs.wrappers import GOALS
from tfbaselines.errors import check_at_least, printable

# A table with two cells for each number of a Box observation fits into memory up to this size.
MOST_OF_TABLES = 20


def main(argv: list[str] | None = None) -> int:
    """Run the command; return 0 if nothing must be changed, otherwise 1."""
    parser = Parser(prog="python -m tfbaselines.check_env", description="Examine your environment.")
    parser.add_argument("env", metavar="ID", help="environment id; 'module:id' imports the module first")
    parser.add_argument("--steps", type=int, default=1000, help="random steps (default %(default)s)")
    parser.add_argument(f"--{ENV_KWARGS}NAME", metavar="VALUE", help="an argument of the environment")
    words = sys.argv[1:] if argv is None else argv
    env_words, others = _apart(words)
    args = parser.parse_args(others)
    return exit_status(parser.prog, lambda: _check(args.env, args.steps, own_arguments(split(env_words)) or {}))


def _apart(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separate the environment's arguments and their values from all other words."""
    env_words, others, rest = [], [], list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith(f"--{ENV_KWARGS[:-1]}"):
            others.append(word)
            continue
        env_words.append(word)
        if "=" not in word and rest and not rest[0].startswith("--"):
            env_words.append(rest.pop(0))
    return env_words, others


def _check(name: str, steps: int, env_kwargs: dict[str, Any]) -> int:
    check_at_least(1, steps=steps)
    env_type, env_id = env_type_of(name)

    def make() -> gymnasium.Env:
        with making(env_id, env_type, env_kwargs):
            return gymnasium.make(env_id, disable_env_checker=True, **env_kwargs)

    counts = {MISTAKE: 0, ADVICE: 0}
    for finding in check(make, steps):
        counts[finding.kind] = counts.get(finding.kind, 0) + 1
        print(f"{finding.kind:7} {printable(finding.text)}", flush=True)
    if not counts[MISTAKE]:
        env = make()
        print(f"algorithms that take it: {', '.join(_algorithms(env))}")
        env.close()
    print(f"{printable(env_id)}: {counts[MISTAKE]} to change, {counts[ADVICE]} to consider")
    return 1 if counts[MISTAKE] else 0


def _algorithms(env: gymnasium.Env) -> list[str]:
    """Return the algorithms that accept the actions and observations."""
    actions, parts = env.action_space, {}
    if isinstance(env.observation_space, spaces.Dict | spaces.Tuple):
        parts = array_parts(named_parts_of(env.observation_space).spaces)
    spaces_of = parts.values() or [env.observation_space]
    kinds = {type(actions).__name__}
    if isinstance(actions, spaces.Box) and actions.is_bounded():
        kinds.add("bounded Box")
    masked = MASK in parts or MASK in env.reset()[1]
    numbers = sum(math.prod(one.shape) for one in spaces_of if isinstance(one, spaces.Box))
    goals, images = parts.keys() >= set(GOALS), any(map(is_image, parts.values()))
    return [
        name
        for name, algorithm in ALGORITHMS.items()
        if kinds & set(algorithm.actions)
        and (algorithm.takes_masks or not masked)
        and (algorithm.several_observations or not images)
        and (goals or not algorithm.goals)
        and (numbers <= MOST_OF_TABLES or not algorithm.tabular)
    ]


if __name__ == "__main__":
    sys.exit(main())
