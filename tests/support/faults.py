"""Harm real runs of every algorithm and check what they lose: `python tests/support/faults.py --jobs 2` writes a table.

Each fault starts a run of the command line in its own directory, harms it, and checks what is left. Runs save about
eight times a second.
"""

import argparse
import contextlib
import itertools
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from trial import ORDINARY_USER, SECONDS_TO_END, SECONDS_TO_START, TWO_RANKS, Trial

from tfbaselines.algs import ALGORITHMS, get
from tfbaselines.cli import Parser, exit_status
from tfbaselines.errors import check_at_least, unknown
from tfbaselines.files import write_whole
from tfbaselines.loading import load_tensorflow
from tfbaselines.training.checkpoint import Checkpoints
from tfbaselines.training.guards import heed


def killed(trial: Trial) -> None:
    """Send SIGKILL to the process at a random moment."""
    with trial.run() as process:
        trial.until_saved(process)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    trial.goes_on()


def stopped(number: int, group: bool = False) -> Callable[[Trial], None]:
    """Return the fault of a signal to the process, or to its process group with workers."""

    def harm(trial: Trial) -> None:
        workers = ("--num_env=2", "--worker=subproc") if group else ()
        with trial.run(*workers) as process:
            trial.until_saved(process)
            (os.killpg if group else os.kill)(process.pid, number)
            trial.ended(process, 128 + number)
        said = f"stopped by {signal.Signals(number).name}: checkpoint saved in"
        assert said in trial.output(), trial.output()[-300:]
        trial.goes_on()

    return harm


def hindered(hindrance: Callable[[Trial, subprocess.Popen], None]) -> Callable[[Trial], None]:
    """Return the fault of some seconds without saving: training continues, and later saves succeed."""

    def harm(trial: Trial) -> None:
        lacking = [program for program in ORDINARY_USER[:1] if not shutil.which(program)]
        assert not lacking, f"root needs {lacking[0]} for this (of util-linux); or start it as another user"
        with trial.run(launcher=ORDINARY_USER) as process:
            trial.until_saved(process)
            hindrance(trial, process)
            assert process.poll() is None, f"ended with status {process.poll()}: {trial.output()[-300:]}"
            before = trial.saved()
            trial.until_saved(process, before)
            trial.stop(process)
        trial.goes_on()

    return harm


def full_disk(trial: Trial, process: subprocess.Popen) -> None:
    """Let no file grow while several saves fail."""
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    time.sleep(1.0)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def read_only(trial: Trial, process: subprocess.Popen) -> None:
    """Let no file be created in the log directory until a save has failed."""
    directories = [trial.log, *(path for path in trial.log.rglob("*") if path.is_dir())]
    for directory in directories:
        directory.chmod(0o555)
    try:
        trial.until(lambda: "could not be saved" in trial.output(), process, "a warning")
    finally:
        for directory in directories:
            directory.chmod(0o755)


def removed_directory(trial: Trial) -> None:
    """Delete the log directory while the run writes there."""
    with trial.run() as process:
        trial.until_saved(process)
        before = trial.saved()
        shutil.rmtree(trial.log, ignore_errors=True)
        trial.until_saved(process, before)
        trial.stop(process)
    trial.goes_on()


def damaged(trial: Trial) -> None:
    """Cut the latest checkpoint short."""
    with trial.run() as process:
        trial.until_saved(process)
        trial.until_saved(process, trial.saved())
        trial.stop(process)
    trial.damaged = Checkpoints(trial.log / "checkpoints").latest()
    os.truncate(trial.damaged, trial.damaged.stat().st_size // 2)
    trial.goes_on()


def two_runs(trial: Trial) -> None:
    """Start a second run in the same directory: it is refused, and the first continues."""
    with trial.run() as process:
        trial.until_saved(process)
        with trial.run("--overwrite") as other:
            status = other.wait(SECONDS_TO_START)
        assert status == 2 and f"process {process.pid}" in trial.output(), f"the second run ended with {status}"
        before = trial.saved()
        trial.until_saved(process, before)


def rank_killed(trial: Trial) -> None:
    """Send SIGKILL to one rank of two: the job ends and can be resumed."""
    with trial.run(launcher=TWO_RANKS) as process:
        trial.until_saved(process)
        os.kill(max(_processes(trial.log)), signal.SIGKILL)
        status = process.wait(6 * SECONDS_TO_END)
    assert status != 0, "the job ended with status 0"
    trial.goes_on()


def rank_stopped(trial: Trial) -> None:
    """Send SIGTERM to one rank of two: all ranks save and end."""
    with trial.run(launcher=TWO_RANKS) as process:
        trial.until_saved(process)
        os.kill(max(_processes(trial.log)), signal.SIGTERM)
        trial.ended(process, 128 + signal.SIGTERM)
    trial.goes_on()


def closed_output(trial: Trial) -> None:
    """Close the output after three lines."""
    with trial.run(launcher=("bash", "-o", "pipefail", "-c", '"$@" | head -n 3', "bash")) as process:
        trial.until_saved(process)
        trial.until_saved(process, trial.saved())
        os.kill(max(_processes(trial.log)), signal.SIGTERM)
        trial.ended(process, 128 + signal.SIGTERM)
    trial.goes_on()


def _processes(log: Path) -> list[int]:
    """Return the Python processes of a run; the launcher's command line begins with another program."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            program, _, words = path.read_text().partition("\0")
            if program == sys.executable and str(log) in words:
                found.append(int(path.parent.name))
    return found


def spoilt(environment: str, status: int, *flags: str) -> Callable[[Trial], None]:
    """Return the fault of a harmful environment: an error line names it, and saved parameters stay finite."""

    def harm(trial: Trial) -> None:
        env = f"spoilt:{environment}{trial.env.split('/')[-1]}"
        words = (f"--alg={trial.alg}", f"--env={env}", "--num_timesteps=1e9", f"--log_path={trial.log}", *flags)
        with trial.start(*words, *trial.own, "--env_type=classic_control") as process:
            found = process.wait(SECONDS_TO_START)
        assert found == status, f"ended with status {found}, not {status}: {trial.output()[-300:]}"
        assert "environment" in trial.output() and "Traceback" not in trial.output(), trial.output()[-300:]
        trial.finite()

    return harm


FAULTS: dict[str, Callable[[Trial], None]] = {
    "SIGKILL": killed,
    "SIGTERM": stopped(signal.SIGTERM),
    "SIGINT": stopped(signal.SIGINT),
    "SIGHUP": stopped(signal.SIGHUP),
    "SIGUSR1": stopped(signal.SIGUSR1),
    "SIGTERM to a group with workers": stopped(signal.SIGTERM, group=True),
    "SIGINT to a group with workers": stopped(signal.SIGINT, group=True),
    "SIGTERM to one rank of two": rank_stopped,
    "one rank of two killed": rank_killed,
    "closed output": closed_output,
    "full disk": hindered(full_disk),
    "read-only log directory": hindered(read_only),
    "log directory removed": removed_directory,
    "latest checkpoint damaged": damaged,
    "a second run in the directory": two_runs,
    "NaN in rewards": spoilt("NanReward", 3),
    "NaN in observations": spoilt("NanObservation", 3),
    "hanging worker": spoilt("Hanging", 2, "--worker=subproc", "--step_timeout=3"),
    "crashing worker": spoilt("Crashing", 2, "--worker=shmem"),
}


def applies(fault: str, alg: str) -> bool:
    """Return whether a fault can happen to an algorithm; cloning does not step environments."""
    return alg != "bc" or fault not in ("NaN in rewards", "NaN in observations", "hanging worker", "crashing worker")


def inflict(alg: str, fault: str, repeats: int, place: Path, seed: int = 0) -> list[str]:
    """Run a fault on an algorithm.

    Args:
        alg: the algorithm.
        fault: name in FAULTS.
        repeats: number of runs, one after the other.
        place: directory for the runs.
        seed: of the faults' random moments.

    Returns:
        One line for each run that failed.
    """
    problems, moments = [], random.Random(f"{seed} {alg} {fault}")
    for number in range(repeats):
        directory = place / alg / fault.replace(" ", "-") / str(number)
        shutil.rmtree(directory, ignore_errors=True)
        try:
            FAULTS[fault](Trial(alg, directory, moments))
        except (AssertionError, subprocess.TimeoutExpired) as problem:
            problems.append(f"{alg}, {fault}: {' '.join(str(problem).split())}")
    return problems


def write_table(results: dict[tuple[str, str], tuple[int, int]], out: str) -> None:
    """Write faults x algorithms as Markdown.

    Args:
        results: by fault and algorithm, the number of runs that passed and of all runs.
        out: path of the file.
    """
    algs = sorted({alg for _, alg in results})
    lines = [f"| fault | {' | '.join(algs)} |", f"|---|{'---|' * len(algs)}"]
    for fault in [name for name in FAULTS if any(name == one for one, _ in results)]:
        cells = (results.get((fault, alg)) for alg in algs)
        lines.append(f"| {fault} | {' | '.join('-' if c is None else f'{c[0]}/{c[1]}' for c in cells)} |")
    write_whole(Path(out), "\n".join(lines) + "\n")


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = Parser(prog="python tests/support/faults.py", description="Harm real runs, and check what they lose.")
    parser.add_argument("--algs", nargs="+", metavar="ALG", help="default: all")
    parser.add_argument("--faults", nargs="+", metavar="FAULT", help="default: all; a wrong name lists them")
    parser.add_argument("--repeats", type=int, default=1, help="runs of each fault (default %(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="faults at the same time (default %(default)s)")
    parser.add_argument("--place", metavar="DIR", help="keep the runs here; default: a temporary directory")
    parser.add_argument("--out", default="faults.md", metavar="FILE.md", help="the table (default %(default)s)")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = make_parser()
    args = parser.parse_args(argv)
    return exit_status(parser.prog, lambda: run(args))


def run(args: argparse.Namespace) -> int:
    """Run every chosen fault on every chosen algorithm, and write the table after each."""
    algs = args.algs or sorted(ALGORITHMS)
    names = args.faults or list(FAULTS)
    check_at_least(1, repeats=args.repeats, jobs=args.jobs)
    for alg in algs:
        get(alg)
    for name in names:
        if name not in FAULTS:
            raise unknown("fault", name, FAULTS)
    # Before the threads start, since each could need it.
    load_tensorflow()
    # Runs must stop at every signal, however this program was started.
    heed()
    results = {}
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(args.jobs) as pool:
        place = Path(args.place or temporary)
        cells = [(name, alg) for name, alg in itertools.product(names, algs) if applies(name, alg)]
        futures = {pool.submit(inflict, alg, name, args.repeats, place): (name, alg) for name, alg in cells}
        try:
            for future in as_completed(futures):
                name, alg = futures[future]
                problems = future.result()
                results[name, alg] = args.repeats - len(problems), args.repeats
                write_table(results, args.out)
                print(f"{alg}, {name}: {results[name, alg][0]} of {args.repeats}", *problems, sep="\n", flush=True)
        except BaseException:
            # Current runs end before this program does.
            pool.shutdown(cancel_futures=True)
            raise
    return 1 if any(passed < total for passed, total in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
