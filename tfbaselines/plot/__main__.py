"""`python -m tfbaselines.plot DIR [DIR ...]`: learning curves of runs as a PNG."""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tfbaselines.command import Parser, exit_status
from tfbaselines.errors import bad_argument

if TYPE_CHECKING:
    from tfbaselines.plot.results import Curve, Run

ESTIMATES = ("mean", "max", "min")
PANEL_SIZE = (7.0, 4.5)


class Panel(NamedTuple):
    """One set of axes."""

    xlabel: str
    ylabel: str
    curves: list["Curve"]


def make_parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = Parser(
        prog="python -m tfbaselines.plot",
        description="Draws the learning curves of runs as a PNG; repetitions of an experiment become one curve with "
        "a band of one standard deviation.",
    )
    parser.add_argument("dirs", nargs="+", metavar="DIR", help="log directory, or the beginning of several; searched")
    parser.add_argument("--out", metavar="FILE.png", help="the picture (default: plot.png in the first DIR)")
    parser.add_argument("--xaxis", metavar="COLUMN", help="what is at the bottom (default: environment steps)")
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
        print(f"Wrote {(plot_table if args.table else plot)(args)}")
        return 0

    return exit_status(parser.prog, command)


def plot(args: argparse.Namespace) -> str:
    """Read, merge, draw; returns the path of the picture."""
    from tfbaselines.plot import results

    if args.smooth is not None and args.smooth < 1:
        raise bad_argument("--smooth", args.smooth, "a number of points, at least 1")
    check_out(args)
    runs = select_runs(args)
    for option, names in (("--xaxis", [args.xaxis]), ("--value", args.value or [])):
        for name in names:
            if name not in (None, results.PERFORMANCE):
                results.check_column(runs, name, option)
    panels = [make_panel(runs, value, args) for value in dict.fromkeys(args.value or [results.PERFORMANCE])]
    out = os.path.expanduser(args.out) if args.out else os.path.join(results.expand(args.dirs[0])[0], "plot.png")
    draw(panels, out)
    return out


def plot_table(args: argparse.Namespace) -> str:
    """Draw the table of one run; returns the path of the picture."""
    from tfbaselines.plot.table import draw_table, read_table

    for name in ("xaxis", "value", "smooth", "legend", "count", "est", "select", "exclude"):
        if getattr(args, name):
            raise ValueError(f"--{name} is for curves: leave it out, or --table")
    if len(args.dirs) > 1:
        raise ValueError(f"--table draws one run: give one DIR, not {len(args.dirs)}")
    check_out(args)
    path = os.path.expanduser(args.dirs[0])
    beside = path if os.path.isdir(path) else os.path.dirname(path)
    out = os.path.expanduser(args.out) if args.out else os.path.join(beside, "table.png")
    draw_table(read_table(path), out)
    return out


def check_out(args: argparse.Namespace) -> None:
    """ValueError for a name of the picture that is not one of a PNG."""
    if args.out is not None and not args.out.lower().endswith(".png"):
        raise bad_argument("--out", args.out, "a name that ends in .png")


def select_runs(args: argparse.Namespace) -> list["Run"]:
    """The runs of all directories that --select and --exclude leave, each once."""
    from tfbaselines.plot import results

    if args.legend and len(args.legend) != len(args.dirs):
        raise ValueError(f"--legend has {len(args.legend)} names for {len(args.dirs)} directories: give one for each")
    found: dict[str, Run] = {}
    for number, given in enumerate(args.dirs):
        for root in results.expand(given):
            for run in results.find_runs(root, args.legend[number] if args.legend else None):
                found.setdefault(os.path.realpath(run.dirname), run)
    if not found:
        raise ValueError(f"no progress.csv, progress.txt, progress.json or monitor files in {', '.join(args.dirs)}")
    kept = [
        run
        for run in found.values()
        if all(text in run.dirname for text in args.select or ())
        and not any(text in run.dirname for text in args.exclude or ())
    ]
    if not kept:
        raise ValueError(f"--select and --exclude leave none of the {len(found)} runs")
    return kept


def make_panel(runs: Sequence["Run"], value: str, args: argparse.Namespace) -> Panel:
    """A curve per group, or per run with --count; runs without the value are named on stderr and left out."""
    from tfbaselines.plot import results

    values = results.RETURNS if value == results.PERFORMANCE else [value]
    xaxes = [args.xaxis] if args.xaxis else results.XAXES
    groups: dict[str, list] = {}
    for run in runs:
        series = results.series(run, xaxes, values, args.smooth)
        if series is None:
            print(f"no values of '{value}' in {run.dirname}", file=sys.stderr)
            continue
        groups.setdefault(f"{run.group}: {run.dirname}" if args.count else run.group, []).append(series)
    if not groups:
        beside = f" beside '{args.xaxis}'" if args.xaxis else ""
        raise ValueError(f"no run has values of '{value}'{beside}")
    drawn = [series for of_group in groups.values() for series in of_group]
    y_names = {series.y_name for series in drawn}
    names = {label: f"{label} ({len(of_group)})" if len(of_group) > 1 else label for label, of_group in groups.items()}
    curves = [results.merge(names[label], of_group, args.est or ESTIMATES[0]) for label, of_group in groups.items()]
    return Panel(drawn[0].x_name, y_names.pop() if len(y_names) == 1 else value, curves)


def draw(panels: Sequence[Panel], out: str) -> None:
    """The panels one below the other, written to the PNG `out`; no display is needed."""
    from matplotlib.figure import Figure

    from tfbaselines.plot.picture import save

    figure = Figure(figsize=(PANEL_SIZE[0], PANEL_SIZE[1] * len(panels)), layout="constrained")
    axes = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
    for axis, panel in zip(axes, panels, strict=True):
        for number, curve in enumerate(panel.curves):
            color = f"C{number % 10}"
            # A run of one row is a dot, not an invisible line.
            axis.plot(curve.x, curve.y, color=color, label=curve.label, marker="o" if len(curve.x) == 1 else None)
            axis.fill_between(curve.x, curve.low, curve.high, color=color, alpha=0.2, linewidth=0)
        axis.set(xlabel=panel.xlabel, ylabel=panel.ylabel)
        if max(curve.x.max() for curve in panel.curves) > 5e3:
            axis.ticklabel_format(style="sci", axis="x", scilimits=(0, 0))
        axis.grid(alpha=0.3)
        axis.legend(loc="best", fontsize="small")
    save(figure, out)


if __name__ == "__main__":
    sys.exit(main())
