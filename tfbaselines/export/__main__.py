"""Export a saved run, or check an export: ``python -m tfbaselines.export RUN --to litert --out DIR``."""

from argparse import Namespace

from tfbaselines.cli import Parser, exit_status, leave
from tfbaselines.cli.stored import check_is_run
from tfbaselines.errors import UsageError
from tfbaselines.export import TARGETS, check, target

DESCRIPTION = "Write a saved run for use without this package, or check an export by its test vectors."


def _parser() -> Parser:
    parser = Parser(prog="tfbaselines export", description=DESCRIPTION)
    parser.add_argument("directory", nargs="?", help="log directory of the run (--log_path), or a saved model")
    parser.add_argument("out", nargs="?", help="directory of the export, the same as --out")
    parser.add_argument("--to", default="savedmodel", help=f"{', '.join(TARGETS)} (default %(default)s)")
    parser.add_argument("--out", dest="into", metavar="DIR", help="directory of the export")
    sampled = "sample actions from noise, which is an input, instead of taking the most likely ones"
    parser.add_argument("--sampled", action="store_true", help=sampled)
    precision = "type of the weights: float32, for litert also float16 and int8 (default %(default)s)"
    parser.add_argument("--precision", default="float32", help=precision)
    parser.add_argument("--episodes", type=int, default=20, help="episodes of the card's score (default %(default)s)")
    parser.add_argument("--checkpoint", default="last", help="last, best, or a number (default %(default)s)")
    parser.add_argument("--trust", action="store_true", help="import the modules named in config.json")
    parser.add_argument("--check", metavar="DIR", help="compare an export with its test vectors")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = _parser()
    args = parser.parse_args(argv)
    return exit_status(parser.prog, lambda: _check(args.check) if args.check else _export(args))


def _check(directory: str) -> int:
    difference, tolerance = check(directory)
    if tolerance is None:
        print(f"{directory}: largest difference {difference:.3g} over the test vectors; its card has its score")
        return 0
    good = difference <= tolerance
    verdict = "at most" if good else "ABOVE"
    print(f"{directory}: largest difference {difference:.3g} over the test vectors, {verdict} {tolerance:g}")
    return 0 if good else 1


def _export(args: Namespace) -> int:
    out = args.into or args.out
    if args.directory is None or out is None:
        raise UsageError("give the run's directory and --out, the directory of the export (or --check DIR)")
    if args.into and args.out:
        raise UsageError(f"the export's directory is given twice: '{args.out}' and --out={args.into}")
    check_is_run(args.directory)
    target(args.to)
    from tfbaselines.evaluate import load

    model = load(args.directory, checkpoint=args.checkpoint, trust=args.trust)
    model.export(out, args.to, sampled=args.sampled, precision=args.precision, episodes=args.episodes)
    print(f"Wrote {out}")
    return 0


if __name__ == "__main__":
    leave(main())
