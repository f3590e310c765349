"""`python -m tfbaselines.search`: search for the hyper-parameters of an algorithm on an environment."""

import argparse
import sys

from tfbaselines.cli import Parser, exit_status
from tfbaselines.cli.command_line import split

PROG = "python -m tfbaselines.search"


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of the command's own arguments; further ones belong to every run."""
    description = "Search for hyper-parameters. Further arguments are passed to every run, and are not searched."
    parser = Parser(prog=PROG, description=description, allow_abbrev=False)
    parser.add_argument("--alg", required=True, help="algorithm")
    parser.add_argument("--env", required=True, help="environment id; 'module:id' imports the module first")
    parser.add_argument("--trials", type=int, default=50, help="trials in all (default %(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="runs at once, which share the cores (default %(default)s)")
    parser.add_argument("--num_timesteps", type=float, default=1e5, help="steps of each run (default %(default)g)")
    parser.add_argument("--seeds", type=int, default=3, help="seeds of a trial (default %(default)s)")
    parser.add_argument("--space", metavar="FILE", help="YAML file of ranges; default: the algorithm's own")
    parser.add_argument("--log_path", metavar="DIR", help="directory of the search; default: logs/search/ALG-ENV")
    parser.add_argument(
        "--timeout", type=float, metavar="MINUTES", help="minutes for the trials; finals and judgement follow"
    )
    parser.add_argument(
        "--finalists", type=int, default=4, help="best trials that get more seeds; 1 for none (default %(default)s)"
    )
    parser.add_argument(
        "--judge_seeds", type=int, default=5, help="unseen seeds that judge; 0 for none (default %(default)s)"
    )
    parser.add_argument(
        "--judge_episodes",
        type=int,
        default=100,
        help="episodes of each seed in finals and judgement (default %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=0, help="first seed of the trials (default %(default)s)")
    parser.add_argument("--evaluations", type=int, default=20, help="evaluations in a run (default %(default)s)")
    parser.add_argument("--evaluate_episodes", type=int, default=10, help="episodes of each (default %(default)s)")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = make_parser()
    known, others = parser.parse_known_args(argv)

    def command() -> int:
        from tfbaselines.search.command import search

        # A bare --flag is True.
        return search(**vars(known), **split(others), say=_say).status

    return exit_status(parser.prog, command)


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
