"""`python -m tfbaselines.bench`: measure speed and scores after minutes, collect and compare learning results."""

import argparse
import sys
from typing import Any

from tfbaselines.bench.table import SUITES
from tfbaselines.cli import Parser, exit_status


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of the command's arguments."""
    parser = Parser(prog="python -m tfbaselines.bench", description="Measure speed, or collect learning results.")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=Parser)
    speed = commands.add_parser("speed", help="environment steps per second, beside Stable-Baselines3's")
    speed.add_argument("--cases", nargs="+", default=["halfcheetah", "cartpole", "pong"], metavar="CASE")
    speed.add_argument("--precision", nargs="+", default=["float32", "bfloat16"], metavar="P", help="of our side")
    speed.add_argument("--peer-python", metavar="PATH", help="the Python that has Stable-Baselines3; default: none")
    speed.add_argument("--rounds", type=int, default=2, help="runs of each program, in turn (default %(default)s)")
    speed.add_argument("--fraction", type=float, default=1.0, help="of each case's steps (default %(default)s)")
    speed.add_argument(
        "--ranks", type=int, metavar="N", help="measure N ranks of one thread beside one, in float32 and without a peer"
    )
    _add_clock(speed)
    speed.add_argument("--out", metavar="FILE.csv", help="write every measurement")
    scores = commands.add_parser("scores", help="collect the learning curves of runs")
    scores.add_argument(
        "dirs", nargs="+", metavar="DIR", help="log directories, directories above them, or tables to add to"
    )
    scores.add_argument("--out", default="scores", metavar="NAME", help="writes NAME.csv and NAME.png")
    table = commands.add_parser("table", help="run what is missing of a suite, and compare with what was published")
    table.add_argument("--suite", default="mujoco1m", help=f"{', '.join(SUITES)}, tuned, zoo (default %(default)s)")
    table.add_argument("--algs", nargs="+", metavar="ALG", help="default: ppo2; all that the suite zoo has")
    table.add_argument("--envs", nargs="+", metavar="ENV", help="some of the suite's; default: all")
    table.add_argument("--seeds", type=int, default=5, help="runs of each cell (default %(default)s)")
    table.add_argument("--jobs", type=int, default=1, help="runs at once (default %(default)s)")
    table.add_argument("--num_timesteps", type=float, help="steps of a run; default: the suite's")
    table.add_argument("--logs", default="logs", metavar="DIR", help="of runs, DIR/ALG/ENV/SEED (default %(default)s)")
    table.add_argument("--out", metavar="NAME", help="writes NAME.csv and NAME.md; default: the suite's name")
    table.add_argument("--finished", action="store_true", help="write the tables of finished runs, and run nothing")
    _add_minutes(commands)
    return parser


def _add_minutes(commands: Any) -> None:
    from tfbaselines.bench.minutes import BUDGETS, LIBRARIES, TASKS

    minutes = commands.add_parser("minutes", help="scores after minutes of training, beside other libraries'")
    minutes.add_argument("--tasks", nargs="+", default=TASKS, metavar="ENV", help=f"default: {', '.join(TASKS)}")
    minutes.add_argument(
        "--budgets", nargs="+", type=float, default=BUDGETS, metavar="MINUTES", help="default: 10, 30 and 60"
    )
    minutes.add_argument("--seeds", type=int, default=2, help="runs of each program (default %(default)s)")
    minutes.add_argument(
        "--libraries", nargs="+", default=LIBRARIES, metavar="NAME", help=f"{', '.join(LIBRARIES)}, or such as sbx:tqc"
    )
    minutes.add_argument("--peer-python", metavar="PATH", help="the Python that has the peers and rl_zoo3")
    _add_clock(minutes)
    minutes.add_argument("--logs", default="logs", metavar="DIR", help="of runs (default %(default)s)")
    minutes.add_argument("--out", default="minutes", metavar="NAME", help="writes NAME.csv and NAME.md")
    minutes.add_argument("--finished", action="store_true", help="write the tables of finished runs, and run nothing")


def _add_clock(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--clock",
        choices=("wall", "cpu"),
        default="wall",
        help="wall, or cpu: processor time of one core, where other work shares the machine (default %(default)s)",
    )


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    parser = make_parser()
    args = parser.parse_args(argv)
    command = {"speed": _speed, "scores": _scores, "table": _table, "minutes": _minutes}[args.command]
    return exit_status(parser.prog, lambda: command(args))


def _speed(args: argparse.Namespace) -> int:
    from tfbaselines.bench import speed

    rows = []
    try:
        what = args.cases, args.precision, args.peer_python, args.rounds, args.fraction, args.ranks, args.clock
        for row in speed.measure(*what):
            rows.append(row)
            if args.out:
                # Keep the measurements made so far if a later case fails.
                speed.write_rows(rows, args.out)
    finally:
        if rows:
            print(f"\n{speed.summary(rows)}")
    return 0


def _scores(args: argparse.Namespace) -> int:
    from tfbaselines.bench import table as scores

    curves = scores.collect(args.dirs)
    print(scores.final_scores(curves).to_string(index=False))
    print("Wrote", *scores.write_curves(curves, args.out))
    return 0


def _table(args: argparse.Namespace) -> int:
    from tfbaselines.bench import table

    wanted = table.cells(args.suite, args.algs, args.seeds, args.envs, args.num_timesteps)
    out, failed, status = args.out or args.suite, [], 0
    table.write(args.suite, wanted, args.logs, out)

    def ended(cell: table.Cell, problem: str | None) -> None:
        # Keep finished runs whatever happens later.
        table.write(args.suite, wanted, args.logs, out)
        failed.extend([cell] if problem else [])
        print(f"{cell.name} {cell.env} seed {cell.seed}: {problem or 'done'}", flush=True)

    if not args.finished:
        status = table.run_missing(wanted, args.logs, args.jobs, ended)
    if status:
        return status
    paths = table.write(args.suite, wanted, args.logs, out)
    print(paths[1].read_text(encoding="utf-8"))
    print("Wrote", *paths)
    return 1 if failed else 0


def _minutes(args: argparse.Namespace) -> int:
    from tfbaselines.bench import minutes, minutes_page

    failed = 0
    chosen = minutes.cells(args.tasks, args.budgets, args.seeds, args.libraries)
    # The page has lines for runs of other libraries too.
    every = minutes.cells(args.tasks, args.budgets, args.seeds)

    def ended(cell: minutes.Cell, what: str) -> None:
        minutes_page.write(every, args.logs, args.clock, args.out)
        print(f"{cell}: {what}", flush=True)

    if not args.finished:
        failed = minutes.measure(chosen, args.logs, args.clock, args.peer_python, ended)
    paths = minutes_page.write(every, args.logs, args.clock, args.out)
    print(paths[1].read_text(encoding="utf-8"))
    print("Wrote", *paths)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
