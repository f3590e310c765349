"""`tfbaselines doctor RUN`, or `python -m tfbaselines.doctor RUN`: what keeps a run from learning."""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tfbaselines.algs import NAMES, get
from tfbaselines.cli import Parser, exit_status


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of the command's arguments."""
    parser = Parser(
        prog="tfbaselines doctor",
        description="Read the files of a run and name what most likely keeps it from learning, the likeliest first. "
        "Runs of baselines, Spinning Up and Stable-Baselines3 are read as far as their columns go.",
    )
    parser.add_argument("run", metavar="RUN", help="log directory of the run (--log_path)")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    probe = "build the run's environment and model and examine them too, within 5 minutes of two cores"
    parser.add_argument("--probe", action="store_true", help=probe)
    parser.add_argument("--trust", action="store_true", help="--probe: import the modules named in config.json")
    return parser


def defaults(alg: str) -> Mapping[str, Any]:
    """Return the defaults of an algorithm's arguments; none for an unknown one."""
    if alg not in NAMES:
        return {}
    return {name: argument.default for name, argument in get(alg).config.arguments().items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Examine a run, print the findings, and return the exit status."""
    parser = make_parser()
    args = parser.parse_args(argv)

    def command() -> int:
        from tfbaselines.doctor.examine import examine_directory

        report = examine_directory(args.run, defaults)
        if args.probe:
            from tfbaselines.probes.examination import examine

            report = report.with_probes(*examine(os.path.expanduser(args.run), args.trust))
        print(report.as_json() if args.json else report.as_text())
        return 0

    return exit_status(parser.prog, command)


if __name__ == "__main__":
    sys.exit(main())
