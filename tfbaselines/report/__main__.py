"""`python -m tfbaselines.report DIR [DIR ...]`: curves, scores and comparisons of runs as one HTML file."""

import sys
from collections.abc import Sequence

from tfbaselines.cli import Parser, exit_status


def make_parser() -> Parser:
    """Make the parser of the command's arguments."""
    parser = Parser(
        prog="python -m tfbaselines.report",
        description="Write a page about runs: curves, scores, comparisons of configurations, videos. It is one file "
        "and needs no network.",
    )
    parser.add_argument(
        "dirs", nargs="+", metavar="DIR", help="log directory, or a prefix of several paths; runs below it are found"
    )
    parser.add_argument("--out", metavar="FILE.html", help="output file (default: report.html in the first DIR)")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Write the report, and return the exit status."""
    parser = make_parser()
    args = parser.parse_args(argv)

    def command() -> int:
        from tfbaselines.report import build

        print(f"Wrote {build(args.dirs, args.out)}")
        return 0

    return exit_status(parser.prog, command)


if __name__ == "__main__":
    sys.exit(main())
