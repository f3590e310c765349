"""`python -m tfbaselines.study`: many runs in one directory, by any number of workers on any number of machines."""

import argparse
import shlex
import sys

from tfbaselines.cli import Parser, exit_status
from tfbaselines.errors import UsageError

PROG = "python -m tfbaselines.study"


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of the command's arguments."""
    parser = Parser(prog=PROG, description="Many runs in one directory, carried out by any number of workers.")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=Parser)
    new = commands.add_parser("new", help="write a cell for each combination")
    new.add_argument("dir", metavar="DIR", help="directory of the study")
    new.add_argument("--from", dest="file", metavar="FILE", help="YAML file with these arguments, in place of flags")
    new.add_argument("--alg", nargs="+", metavar="ALG", help="algorithms")
    new.add_argument("--env", nargs="+", metavar="ENV", help="environments")
    new.add_argument("--seeds", type=int, metavar="N", help="runs of each combination, seeds 0 to N - 1 (default 1)")
    new.add_argument(
        "--set", nargs="+", action="extend", metavar="NAME=A,B", help="values of further arguments, as lr=1e-3,3e-4"
    )
    new.add_argument("--tuned", nargs="?", const="True", metavar="SET", help="tuned hyper-parameters, or a named set")
    new.add_argument("--config", metavar="FILE", help="YAML file of arguments for every run")
    new.add_argument("--num_timesteps", metavar="N", help="steps of a run")
    work = commands.add_parser("work", help="run cells until none is open")
    work.add_argument("dir", metavar="DIR", help="directory of the study")
    work.add_argument("--jobs", type=int, default=1, help="runs at once (default %(default)s)")
    work.add_argument("--trust", action="store_true", help="import the modules that the study's cells name")
    retry = commands.add_parser("retry", help="open failed cells again")
    retry.add_argument("dir", metavar="DIR", help="directory of the study")
    retry.add_argument("cells", nargs="*", metavar="CELL", help="their names; default: all that failed")
    status = commands.add_parser("status", help="progress, rates, latest returns and the time left")
    status.add_argument("dir", metavar="DIR", help="directory of the study")
    status.add_argument("--watch", action="store_true", help="show them again and again until the study is done")
    report = commands.add_parser("report", help="write the scores as CSV and Markdown, and the report as HTML")
    report.add_argument("dir", metavar="DIR", help="directory of the study")
    report.add_argument("--out", metavar="NAME", help="writes NAME.csv, .md and .html; default: DIR/report")
    watch = commands.add_parser("watch", help="serve the report on the loopback address while runs go on")
    watch.add_argument("dir", metavar="DIR", help="directory of the study")
    watch.add_argument("--port", type=int, default=0, help="port (default: a free one)")
    submit = commands.add_parser("submit", help="start workers by Slurm, Ray or Dask")
    submit.add_argument("dir", metavar="DIR", help="directory of the study, which all machines share")
    submit.add_argument("--workers", type=int, default=1, help="number of workers (default %(default)s)")
    submit.add_argument("--jobs", type=int, default=1, help="runs at once of each worker (default %(default)s)")
    submit.add_argument("--trust", action="store_true", help="import the modules that the study's cells name")
    engine = submit.add_mutually_exclusive_group(required=True)
    engine.add_argument(
        "--slurm", nargs="*", metavar="NAME=VALUE", help="settings of sbatch, as partition=gpu; cluster=local for none"
    )
    engine.add_argument("--ray", nargs="?", const="", metavar="ADDRESS", help="Ray's cluster; a local one without it")
    engine.add_argument("--dask", nargs="?", const="", metavar="ADDRESS", help="Dask's scheduler; a local one without")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = make_parser()
    args = parser.parse_args(argv)
    commands = {"new": _new, "work": _work, "retry": _retry, "submit": _submit}
    commands |= {"status": _status, "report": _report, "watch": _watch}
    command = commands[args.command]
    return exit_status(parser.prog, lambda: command(args))


def _new(args: argparse.Namespace) -> int:
    from tfbaselines.cli.stored import needs_trust
    from tfbaselines.study.cells import combinations, read_study_file, split_settings
    from tfbaselines.study.store import Study

    flags = {"algs": args.alg, "envs": args.env, "seeds": args.seeds, "settings": split_settings(args.set or ())}
    flags |= {"num_timesteps": args.num_timesteps, "tuned": args.tuned, "config": args.config}
    flags = {name: value for name, value in flags.items() if value not in (None, {})}
    if args.file:
        if flags:
            raise UsageError("--from has all arguments of the study: give it alone")
        flags = read_study_file(args.file)
    for name in ("alg", "env"):
        if f"{name}s" not in flags:
            raise UsageError(f"--{name} is missing: study new DIR --alg ppo2 --env CartPole-v1, or --from FILE")
    cells = combinations(**{"seeds": 1, **flags})
    Study.create(args.dir, cells)
    groups = len({cell.group for cell in cells})
    trusted = " --trust" if any(needs_trust(cell.words) for cell in cells) else ""
    print(f"{len(cells)} cells in {groups} groups\nrun them:  {PROG} work {shlex.quote(args.dir)} --jobs 2{trusted}")
    return 0


def _work(args: argparse.Namespace) -> int:
    from tfbaselines.study.store import FAILED, Study
    from tfbaselines.study.worker import check_trust, work

    study = Study(args.dir)
    check_trust(study, args.trust)
    status = work(study, args.jobs)
    return status or int(bool(study.names(FAILED)))


def _retry(args: argparse.Namespace) -> int:
    from tfbaselines.study.cells import find_cell
    from tfbaselines.study.store import FAILED, Study

    study = Study(args.dir)
    failed = list(study.cells(FAILED))
    chosen = [find_cell(name, failed) for name in args.cells] or failed
    opened = [cell.label for cell in chosen if study.reopen(cell.name)]
    print(f"opened again: {', '.join(opened) or 'none, as no cell failed'}")
    return 0


def _status(args: argparse.Namespace) -> int:
    from tfbaselines.study import status
    from tfbaselines.study.store import Study

    study = Study(args.dir)
    if args.watch:
        status.watch(study)
    else:
        print(status.text(study))
    return 0


def _report(args: argparse.Namespace) -> int:
    from tfbaselines.report import build
    from tfbaselines.study.store import Study
    from tfbaselines.study.summary import write

    study = Study(args.dir)
    out = args.out or study.directory / "report"
    paths = write(study, out)
    print(paths[1].read_text(encoding="utf-8"))
    paths.append(build([study.directory], f"{out}.html", study.directory.resolve().name))
    print("Wrote", *paths)
    return 0


def _watch(args: argparse.Namespace) -> int:
    from tfbaselines.study.live import watch
    from tfbaselines.study.store import Study

    watch(Study(args.dir), args.port)
    return 0


def _submit(args: argparse.Namespace) -> int:
    from tfbaselines.study.store import FAILED, Study
    from tfbaselines.study.worker import check_trust

    study = Study(args.dir)
    check_trust(study, args.trust)
    if args.slurm is not None:
        from tfbaselines.study.engines.slurm import submit

        jobs = submit(study, args.workers, args.jobs, args.slurm)
        print(f"submitted {', '.join(job.job_id for job in jobs)}: {PROG} status {shlex.quote(args.dir)} --watch")
        return 0
    if args.ray is not None:
        from tfbaselines.study.engines.ray import run

        statuses = run(study, args.workers, args.jobs, args.ray or None)
    else:
        from tfbaselines.study.engines.dask import run

        statuses = run(study, args.workers, args.jobs, args.dask or None)
    return max(statuses) or int(bool(study.names(FAILED)))


if __name__ == "__main__":
    sys.exit(main())
