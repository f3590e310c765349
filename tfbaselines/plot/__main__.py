"""`python -m tfbaselines.plot DIR [DIR ...]`: learning curves of runs as a PNG."""

import argparse
import importlib.util
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfbaselines.cli.command import Parser, exit_status
from tfbaselines.errors import UsageError, bad_argument

if TYPE_CHECKING:
    from tfbaselines.plot.panels import Panel
    from tfbaselines.plot.results import Run

ESTIMATES = ("mean", "max", "min")


def make_parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = Parser(
        prog="python -m tfbaselines.plot",
        description="Draws the learning curves of runs as a PNG; repetitions of an experiment become one curve with "
        "a band of one standard deviation.",
    )
    parser.add_argument("dirs", nargs="+", metavar="DIR", help="log directory, or the beginning of several; searched")
    parser.add_argument("--out", metavar="FILE.png", help="the picture (default: plot.png in the first DIR)")
    parser.add_argument(
        "--xaxis", metavar="COLUMN", help="what is at the bottom: steps (the default), time, episodes, or a column"
    )
    parser.add_argument("--value", nargs="+", metavar="COLUMN", help="what is drawn (default: the mean return)")
    parser.add_argument("--smooth", type=int, metavar="S", help="average over S points (default: 1; 21 episodes)")
    parser.add_argument("--legend", nargs="+", metavar="NAME", help="a name for each DIR")
    parser.add_argument("--count", action="store_true", help="each run its own curve, no averaging")
    parser.add_argument("--est", choices=ESTIMATES, help="the line over repetitions (default: mean)")
    parser.add_argument("--select", nargs="+", metavar="TEXT", help="only runs whose path contains all of these")
    parser.add_argument("--exclude", nargs="+", metavar="TEXT", help="no run whose path contains any of these")
    parser.add_argument("--table", action="store_true", help="the table of a run of qlearning, to table.png in its DIR")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Plot as the arguments say; returns the exit status."""
    parser = make_parser()
    args = parser.parse_args(argv)

    def command() -> int:
        check_matplotlib()
        print(f"Wrote {(plot_table if args.table else plot)(args)}")
        return 0

    return exit_status(parser.prog, command)


def plot(args: argparse.Namespace) -> str:
    """Read, merge, draw; returns the path of the picture."""
    from tfbaselines.plot import results
    from tfbaselines.plot.panels import draw

    if args.smooth is not None and args.smooth < 1:
        raise bad_argument("--smooth", args.smooth, "a number of points, at least 1")
    check_out(args)
    runs = select_runs(args)
    for option, names in (("--xaxis", [args.xaxis]), ("--value", args.value or [])):
        for name in names:
            if name not in (None, results.PERFORMANCE, *(results.SHORT_XAXES if option == "--xaxis" else ())):
                results.check_column(runs, name, option)
    environments: dict[str, list[Run]] = {}
    for run in runs:
        environments.setdefault(run.env, []).append(run)
    values = dict.fromkeys(args.value or [results.PERFORMANCE])
    panels = [make_panel(own, value, args) for own in environments.values() for value in values]
    panels = [panel for panel in panels if panel is not None]
    if not panels:
        raise UsageError(f"no run has values of {', '.join(_shown(value, args) for value in values)}{_beside(args)}")
    first, *others = results.expand(args.dirs[0])
    # Of several that begin alike, where they are.
    place = os.path.dirname(first) if others else first
    out = os.path.expanduser(args.out) if args.out else os.path.join(place, "plot.png")
    draw(panels, out)
    return out


def plot_table(args: argparse.Namespace) -> str:
    """Draw the table of one run; returns the path of the picture."""
    from tfbaselines.plot.panels import draw_table, read_table

    for name in ("xaxis", "value", "smooth", "legend", "count", "est", "select", "exclude"):
        if getattr(args, name):
            raise UsageError(f"--{name} is for curves: leave it out, or --table")
    if len(args.dirs) > 1:
        raise UsageError(f"--table draws one run: give one DIR, not {len(args.dirs)}")
    check_out(args)
    path = os.path.expanduser(args.dirs[0])
    beside = path if os.path.isdir(path) else os.path.dirname(path)
    out = os.path.expanduser(args.out) if args.out else os.path.join(beside, "table.png")
    draw_table(read_table(path), out)
    return out


def check_matplotlib() -> None:
    """ValueError where there is nothing to draw with."""
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError("plots need matplotlib: pip install matplotlib")


def check_out(args: argparse.Namespace) -> None:
    """ValueError for a name of the picture that is not one of a PNG."""
    if args.out is not None and not args.out.lower().endswith(".png"):
        raise bad_argument("--out", args.out, "a name that ends in .png")


def select_runs(args: argparse.Namespace) -> list["Run"]:
    """The runs of all directories that --select and --exclude leave, each once, labelled."""
    from tfbaselines.plot import results

    expanded, legend = [results.expand(given) for given in args.dirs], args.legend or []
    roots = [root for some in expanded for root in some]
    if len(legend) == len(expanded):
        legend = [name for name, some in zip(legend, expanded, strict=True) for _ in some]
    if legend and len(legend) != len(roots):
        raise UsageError(f"--legend has {len(legend)} names for {len(roots)} directories: give one for each")
    found: dict[str, Run] = {}
    bare: list[str] = []
    for root, name in zip(roots, legend or [None] * len(roots), strict=True):
        runs = results.find_runs(root, name)
        bare += [] if runs else [root]
        for run in runs:
            found.setdefault(os.path.realpath(run.dirname), run)
    if not found:
        raise UsageError(f"no progress.csv, progress.txt, progress.json or monitor files with rows: {', '.join(bare)}")
    for root in bare:
        print(f"nothing to plot yet in {root}", file=sys.stderr)
    kept = [
        run
        for run in found.values()
        if all(text in run.dirname for text in args.select or ())
        and not any(text in run.dirname for text in args.exclude or ())
    ]
    if not kept:
        raise UsageError(f"--select and --exclude leave none of the {len(found)} runs")
    runs = results.labelled(kept)
    return results.labelled_each(runs, bool(args.legend)) if args.count else runs


def make_panel(runs: Sequence["Run"], value: str, args: argparse.Namespace) -> "Panel | None":
    """A curve per group, or per run with --count; runs without the value are named on stderr and left out.

    Args:
        runs: of one environment.
        value: the column, or 'Performance'.
        args: the command's.

    Returns:
        The panel; None when no run has the value.
    """
    from tfbaselines.plot import results
    from tfbaselines.plot.panels import Panel

    values = results.RETURNS if value == results.PERFORMANCE else [value]
    xaxes = results.SHORT_XAXES.get(args.xaxis, [args.xaxis]) if args.xaxis else results.XAXES
    groups: dict[str, list] = {}
    for run in runs:
        series = results.series(run, xaxes, values, args.smooth)
        if series is None:
            print(f"no values of {_shown(value, args)}{_beside(args)} in {run.dirname}", file=sys.stderr)
            continue
        groups.setdefault(run.label, []).append(series)
    if not groups:
        return None
    drawn = [series for of_group in groups.values() for series in of_group]
    y_names = {series.y_name for series in drawn}
    curves = []
    for name, of_group in groups.items():
        label = f"{name} ({len(of_group)})" if len(of_group) > 1 else name
        curves.append(results.merge(label, of_group, args.est or ESTIMATES[0])._replace(experiment=name))
    ylabel = y_names.pop() if len(y_names) == 1 else "return" if value == results.PERFORMANCE else value
    return Panel(drawn[0].x_name, ylabel, curves, runs[0].env)


def _shown(value: str, args: argparse.Namespace) -> str:
    """What is drawn, as the user calls it."""
    return f"'{value}'" if args.value else "the mean return"


def _beside(args: argparse.Namespace) -> str:
    return f" beside '{args.xaxis}'" if args.xaxis else ""


if __name__ == "__main__":
    sys.exit(main())
