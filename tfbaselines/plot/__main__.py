"""`python -m tfbaselines.plot DIR [DIR ...]`: learning curves of runs as a PNG."""

import argparse
import importlib.util
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfbaselines.cli import Parser, exit_status
from tfbaselines.errors import UsageError, bad_argument, complain

if TYPE_CHECKING:
    from tfbaselines.plot.panels import Panel
    from tfbaselines.plot.results import Run

ESTIMATES = ("mean", "max", "min")


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of the command's arguments."""
    parser = Parser(
        prog="python -m tfbaselines.plot",
        description="Draw learning curves of runs as a PNG: one curve for each experiment, its mean over seeds with "
        "a band of one standard deviation.",
    )
    parser.add_argument(
        "dirs", nargs="+", metavar="DIR", help="log directory, or a prefix of several paths; runs below it are found"
    )
    parser.add_argument("--out", metavar="FILE.png", help="output file (default: plot.png in the first DIR)")
    parser.add_argument(
        "--xaxis", "-x", metavar="COLUMN", help="x-axis: steps (the default), time, episodes, or a column of the logs"
    )
    parser.add_argument("--value", "-y", nargs="+", metavar="COLUMN", help="columns to draw (default: the mean return)")
    parser.add_argument("--smooth", "-s", type=int, metavar="S", help="average over S points (default: 1; 21 episodes)")
    parser.add_argument("--legend", "-l", nargs="+", metavar="NAME", help="a name for each DIR")
    parser.add_argument("--count", action="store_true", help="draw one curve for each run, without averaging")
    parser.add_argument("--est", choices=ESTIMATES, help="statistic over the seeds of an experiment (default: mean)")
    parser.add_argument("--select", nargs="+", metavar="TEXT", help="only runs with all of these texts in their path")
    parser.add_argument("--exclude", nargs="+", metavar="TEXT", help="no runs with any of these texts in their path")
    parser.add_argument(
        "--table", action="store_true", help="draw the table of a qlearning run, to table.png in its DIR"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Draw the curves or the table, and return the exit status."""
    parser = make_parser()
    args = parser.parse_args(argv)

    def command() -> int:
        check_matplotlib()
        print(f"Wrote {(plot_table if args.table else plot)(args)}")
        return 0

    return exit_status(parser.prog, command)


def plot(args: argparse.Namespace) -> str:
    """Read, merge and draw curves, and return the path of the picture."""
    from tfbaselines.plot import columns, results
    from tfbaselines.plot.panels import draw

    if args.smooth is not None and args.smooth < 1:
        raise bad_argument("--smooth", args.smooth, "a number of points, at least 1")
    check_out(args)
    runs = select_runs(args)
    for option, names in (("--xaxis", [args.xaxis]), ("--value", args.value or [])):
        for name in names:
            if name not in (None, columns.PERFORMANCE, *(columns.SHORT_XAXES if option == "--xaxis" else ())):
                results.check_column(runs, name, option)
    environments: dict[str, list[Run]] = {}
    for run in runs:
        environments.setdefault(run.env, []).append(run)
    values = dict.fromkeys(args.value or [columns.PERFORMANCE])
    panels = [panel for own in environments.values() for value in values for panel in make_panels(own, value, args)]
    if not panels:
        raise UsageError(f"no run has values of {', '.join(_shown(value, args) for value in values)}{_beside(args)}")
    out = os.path.expanduser(args.out) if args.out else results.file_in_first(args.dirs[0], "plot.png")
    draw(panels, out)
    return out


def plot_table(args: argparse.Namespace) -> str:
    """Draw the table of one run, and return the path of the picture."""
    from tfbaselines.plot.panels import draw_table, read_table

    for name in ("xaxis", "value", "smooth", "legend", "count", "est", "select", "exclude"):
        if getattr(args, name):
            raise UsageError(f"--{name} is for curves: remove it, or --table")
    if len(args.dirs) > 1:
        raise UsageError(f"--table draws one run: give one DIR, not {len(args.dirs)}")
    check_out(args)
    path = os.path.expanduser(args.dirs[0])
    beside = path if os.path.isdir(path) else os.path.dirname(path)
    out = os.path.expanduser(args.out) if args.out else os.path.join(beside, "table.png")
    draw_table(read_table(path), out)
    return out


def check_matplotlib() -> None:
    """Check that matplotlib is installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError("plots need matplotlib: pip install matplotlib")


def check_out(args: argparse.Namespace) -> None:
    """Check that the output file is a PNG."""
    if args.out is not None and not args.out.lower().endswith(".png"):
        raise bad_argument("--out", args.out, "a name that ends in .png")


def select_runs(args: argparse.Namespace) -> list["Run"]:
    """Find the runs of all directories, apply --select and --exclude, and label each run."""
    from tfbaselines.plot import results

    expanded, legend = [results.expand(given) for given in args.dirs], args.legend or []
    roots = [root for some in expanded for root in some]
    if len(legend) == len(expanded):
        legend = [name for name, some in zip(legend, expanded, strict=True) for _ in some]
    if legend and len(legend) != len(roots):
        raise UsageError(f"--legend has {len(legend)} names for {len(roots)} directories: give one for each")
    found, problems = results.find_all(roots, legend or [None] * len(roots))
    for line in problems:
        complain(line)
    kept = [
        run
        for run in found
        if all(text in run.dirname for text in args.select or ())
        and not any(text in run.dirname for text in args.exclude or ())
    ]
    if not kept:
        raise UsageError(f"--select and --exclude leave none of the {len(found)} runs")
    runs = results.labelled(kept)
    return results.labelled_each(runs, bool(args.legend)) if args.count else runs


def make_panels(runs: Sequence["Run"], value: str, args: argparse.Namespace) -> list["Panel"]:
    """Make the panels of a column of one environment's runs; success rates and returns never share one."""
    from tfbaselines.plot.columns import PERFORMANCE, RETURNS, SUCCESS

    if value != PERFORMANCE:
        panels = [make_panel(runs, [value], value, args)]
    else:
        succeeding = [run for run in runs if any(SUCCESS in table for table in run.tables.values())]
        panels = [make_panel(succeeding, [SUCCESS], value, args)] if succeeding else []
        if len(succeeding) < len(runs):
            panels.insert(0, make_panel(runs, RETURNS, value, args))
    return [panel for panel in panels if panel is not None]


def make_panel(runs: Sequence["Run"], columns: Sequence[str], value: str, args: argparse.Namespace) -> "Panel | None":
    """Merge runs into a curve for each group, or for each run with --count; warn about runs without the value.

    Args:
        runs: runs of one environment.
        columns: columns with the value; the first in a run's tables is drawn.
        value: the value's name on the command line.
        args: arguments of the command.

    Returns:
        The panel; None if no run has the value.
    """
    from tfbaselines.plot import results
    from tfbaselines.plot.columns import SHORT_XAXES, XAXES
    from tfbaselines.plot.panels import Panel

    xaxes = SHORT_XAXES.get(args.xaxis, [args.xaxis]) if args.xaxis else XAXES
    groups: dict[str, list] = {}
    for run in runs:
        try:
            series = results.series(run, xaxes, columns, args.smooth)
        except UsageError as error:
            if len(runs) == 1:
                raise
            complain(str(error))
            continue
        if series is None:
            complain(f"no values of {_shown(value, args)}{_beside(args)} in {run.dirname}")
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
    ylabel = y_names.pop() if len(y_names) == 1 else "return"
    return Panel(drawn[0].x_name, ylabel, curves, runs[0].env)


def _shown(value: str, args: argparse.Namespace) -> str:
    """Name the drawn value in the user's words."""
    return f"'{value}'" if args.value else "the mean return"


def _beside(args: argparse.Namespace) -> str:
    return f" beside '{args.xaxis}'" if args.xaxis else ""


if __name__ == "__main__":
    sys.exit(main())
