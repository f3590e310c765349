"""`python -m tfbaselines.bench speed` and `... scores`: how fast, and how well."""

import argparse
import sys

from tfbaselines.command import Parser, exit_status


def make_parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = Parser(prog="python -m tfbaselines.bench", description="Measure speed, or collect learning results.")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=Parser)
    speed = commands.add_parser("speed", help="environment steps per second, beside Stable-Baselines3's")
    speed.add_argument("--cases", nargs="+", default=["halfcheetah", "cartpole", "pong"], metavar="CASE")
    speed.add_argument("--precision", nargs="+", default=["float32", "bfloat16"], metavar="P", help="of our side")
    speed.add_argument("--peer-python", metavar="PATH", help="the Python that has Stable-Baselines3; default: none")
    speed.add_argument("--rounds", type=int, default=2, help="runs of each program, in turn (default %(default)s)")
    speed.add_argument("--fraction", type=float, default=1.0, help="of each case's steps (default %(default)s)")
    speed.add_argument("--out", metavar="FILE.csv", help="write every measurement")
    scores = commands.add_parser("scores", help="collect the learning curves of runs")
    scores.add_argument(
        "dirs", nargs="+", metavar="DIR", help="log directories, directories above them, or tables to add to"
    )
    scores.add_argument("--out", default="scores", metavar="NAME", help="writes NAME.csv and NAME.png")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    parser = make_parser()
    args = parser.parse_args(argv)
    return exit_status(parser.prog, lambda: (_speed if args.command == "speed" else _scores)(args))


def _speed(args: argparse.Namespace) -> int:
    from tfbaselines.bench import speed

    rows = []
    try:
        for row in speed.measure(args.cases, args.precision, args.peer_python, args.rounds, args.fraction):
            rows.append(row)
            if args.out:
                # What was measured is kept when a later case fails.
                speed.write_rows(rows, args.out)
    finally:
        if rows:
            print(f"\n{speed.summary(rows)}")
    return 0


def _scores(args: argparse.Namespace) -> int:
    from tfbaselines.bench import scores

    curves = scores.collect(args.dirs)
    print(scores.final_scores(curves).to_string(index=False))
    print("Wrote", *scores.write(curves, args.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
