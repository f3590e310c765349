"""`bench minutes`: mean return after a budget of minutes, ours beside the peers' with rl_zoo3's settings.

A run is a program with one seed on one task. It begins with its process, so the budget pays for imports and
compilation; then SIGTERM ends training, and the policy is evaluated outside the budget. All programs run in turn, in
processes that are watched alike. Our programs are the named sets 10min, 30min and 60min of the tuned settings.
"""

import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tfbaselines.bench import peer_minutes
from tfbaselines.bench.speed import ONE_THREAD, PEERS, take_one_core
from tfbaselines.bench.table import RESULT, commit_of, evaluated, progress_of
from tfbaselines.cli.sections import OF_SET, tuned_algorithms, tuned_sections
from tfbaselines.errors import UsageError, bad_argument, check_at_least, unknown
from tfbaselines.files import write_whole
from tfbaselines.parallel.mpi import usable_cores
from tfbaselines.study.process import kill, last_error, start
from tfbaselines.study.store import OUTPUT

TASKS = ("HalfCheetah-v5", "Hopper-v5", "Walker2d-v5", "Ant-v5", "Humanoid-v5")
TASKS += ("LunarLander-v3", "BipedalWalker-v3", "Pendulum-v1")
BUDGETS = (10.0, 30.0, 60.0)
DISCRETE = ("LunarLander-v3",)
OURS = "tfbaselines"
# The peers' algorithms for continuous and for discrete actions. rl_zoo3 has settings for each on all tasks.
ALGORITHMS = {
    "stable-baselines3": (("ppo", "sac", "td3"), ("ppo", "dqn")),
    "sb3-contrib": (("tqc", "trpo"), ("trpo", "qrdqn")),
    "sbx": (("ppo", "sac", "tqc", "crossq"), ("ppo", "dqn")),
}
MODULES = {name: module for module, name in PEERS.items()}
LIBRARIES = (OURS, *ALGORITHMS)
EPISODES, EVALUATION_SEED = 20, 1000
# Seconds between two readings of the clock.
POLL = 0.2
COLUMNS = ("budget", "task", "library", "algorithm", "seed", "score", "deviation", "steps", "minutes", "clock")
COLUMNS += ("cores", "version")
SET = re.compile(rf"(\d+)min{OF_SET}(.+)")
# Numbers of fields in /proc/PID/stat after the name: the session, and the ticks of a process and of its children.
SESSION, TICKS = 3, slice(11, 15)


@dataclass(frozen=True)
class Cell:
    """One run: a program with one seed on one task, for a budget of minutes."""

    budget: float
    task: str
    library: str
    algorithm: str
    seed: int

    def directory(self, logs: str, clock: str) -> Path:
        """Return the directory of the run."""
        program = f"{self.library}-{self.algorithm}".replace(" --tuned=", "-")
        return Path(logs) / f"{self.budget:g}min-{clock}" / self.task / program / str(self.seed)

    def result(self, logs: str, clock: str) -> dict[str, object] | None:
        """Return the row of a finished run, or None."""
        path = self.directory(logs, clock) / RESULT
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def __str__(self) -> str:
        return f"{self.budget:g} min, {self.task}, {self.library} {self.algorithm}, seed {self.seed}"


@functools.cache
def our_sets() -> list[tuple[str, int, str]]:
    """List the named sets for minutes: task, minutes and algorithm."""
    found = [(SET.fullmatch(name), alg) for alg in tuned_algorithms() for name in tuned_sections(alg)]
    return [(name[2], int(name[1]), alg) for name, alg in found if name]


def our_program(task: str, budget: float) -> str:
    """Return our algorithm and its named set for a task: the set with the nearest number of minutes."""
    _, minutes, alg = min((abs(minutes - budget), minutes, alg) for of, minutes, alg in our_sets() if of == task)
    return f"{alg} --tuned={minutes}min"


def programs(task: str, budget: float) -> list[tuple[str, str]]:
    """List the libraries and algorithms for a task, ours first."""
    kind = int(task in DISCRETE)
    peers = [(library, one) for library, of_kind in ALGORITHMS.items() for one in of_kind[kind]]
    return [(OURS, our_program(task, budget)), *peers]


def cells(
    tasks: Iterable[str], budgets: Iterable[float], seeds: int, libraries: Iterable[str] = LIBRARIES
) -> list[Cell]:
    """List the runs, the first seed of all before the second.

    Args:
        tasks: environments.
        budgets: minutes.
        seeds: number of seeds, from 0.
        libraries: libraries, or single algorithms of them as sbx:tqc.
    """
    check_at_least(1, seeds=seeds)
    for task in tasks:
        if task not in TASKS:
            raise unknown("task", task, TASKS)
    for budget in budgets:
        if not 0 < budget < float("inf"):
            raise bad_argument("budgets", budget, "minutes above 0")
    for name in libraries:
        library, _, algorithm = name.partition(":")
        known = {one for of_kind in ALGORITHMS.get(library, ()) for one in of_kind}
        if library not in LIBRARIES:
            raise unknown("library", library, LIBRARIES)
        if algorithm and algorithm not in known:
            raise unknown(f"algorithm of {library}", algorithm, known)
    return [
        Cell(budget, task, library, algorithm, seed)
        for seed in range(seeds)
        for budget in budgets
        for task in tasks
        for library, algorithm in programs(task, budget)
        if library in libraries or f"{library}:{algorithm}" in libraries
    ]


def measure(
    wanted: list[Cell], logs: str, clock: str, peer_python: str | None, ended: Callable[[Cell, str], None]
) -> int:
    """Run what is not finished, one run at a time, and return the number of runs that failed.

    A run that was stopped begins again, since the time until then is lost.

    Args:
        wanted, logs: runs, and directory of their logs.
        clock: 'wall', or 'cpu' for the processor time of one core and one thread, where other work shares the machine.
        peer_python: path of a Python that has the peers and rl_zoo3; None leaves their runs out.
        ended: called with each run that ends, and its score or its error.
    """
    failed = 0
    if clock == "cpu":
        take_one_core()
    for cell in wanted:
        if cell.result(logs, clock) is not None or (cell.library != OURS and peer_python is None):
            continue
        directory = cell.directory(logs, clock).resolve()
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        try:
            row = _run(cell, directory, clock, peer_python)
        except (UsageError, subprocess.CalledProcessError) as error:
            failed += 1
            ended(cell, str(error))
        else:
            write_whole(directory / RESULT, json.dumps(row))
            ended(cell, f"{row['score']:,.1f} after {row['steps']:,} steps in {row['minutes']:.1f} minutes")
    return failed


def _run(cell: Cell, directory: Path, clock: str, peer_python: str | None) -> dict[str, object]:
    """Train and evaluate one cell, and return its row."""
    row = {"budget": cell.budget, "task": cell.task, "library": cell.library, "algorithm": cell.algorithm}
    side = _ours if cell.library == OURS else _peer
    minutes, found = side(cell, directory, clock, peer_python or "")
    returns = found.pop("returns")
    row |= {"seed": cell.seed, "score": float(np.mean(returns)), "deviation": float(np.std(returns))}
    return row | {"minutes": round(minutes, 2), "clock": clock, "cores": len(usable_cores())} | found


def _ours(cell: Cell, directory: Path, clock: str, _: str) -> tuple[float, dict[str, object]]:
    alg, tuned = cell.algorithm.split(" ")
    logs = directory / "run"
    words = [f"--alg={alg}", f"--env={cell.task}", tuned, f"--seed={cell.seed}", f"--log_path={logs}"]
    command = [sys.executable, "-m", "tfbaselines.run", *words, "--log_level=none"]
    minutes = train(command, directory, cell.budget, clock)
    returns = evaluated(logs, EPISODES, seed=EVALUATION_SEED)["returns"]
    steps = progress_of(logs)["timesteps_of_all"]
    return minutes, {"returns": returns, "steps": int(steps), "version": commit_of(logs)}


def _peer(cell: Cell, directory: Path, clock: str, python: str) -> tuple[float, dict[str, object]]:
    own = {"library": MODULES[cell.library], "algorithm": cell.algorithm, "task": cell.task, "seed": cell.seed}
    own |= {"episodes": EPISODES, "evaluation_seed": EVALUATION_SEED}
    trained, scored = (directory / name for name in (peer_minutes.TRAINED, peer_minutes.SCORED))
    minutes = train([python, peer_minutes.__file__, str(directory), json.dumps(own)], directory, cell.budget, clock)
    return minutes, json.loads(trained.read_text(encoding="utf-8")) | json.loads(scored.read_text(encoding="utf-8"))


def train(command: list[str], directory: Path, budget: float, clock: str) -> float:
    """Run a command until its budget is used up, and return the minutes that training took.

    SIGTERM ends training at the next step or update. Training has ended with the process, or with the file TRAINED.

    Raises:
        UsageError: the command failed; the line has its last error.
    """
    variables = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"} | (dict.fromkeys(ONE_THREAD, "1") if clock == "cpu" else {})
    used, stopped, output = 0.0, False, directory / OUTPUT
    try:
        with open(output, "wb") as file:
            begun = time.monotonic()
            process = start(command, file, variables)
    except OSError as error:
        raise UsageError(f"{command[0]}: {error.strerror}") from error
    try:
        while process.poll() is None and not (directory / peer_minutes.TRAINED).exists():
            used = time.monotonic() - begun if clock == "wall" else processor_seconds(process.pid)
            if used >= 60 * budget and not stopped:
                process.send_signal(signal.SIGTERM)
                stopped = True
            time.sleep(POLL)
        status = process.wait()
    finally:
        kill(process)
    if status not in ((0, 128 + signal.SIGTERM) if stopped else (0,)):
        raise UsageError(f"status {status}: {last_error(output) or 'no message'}, see {output}")
    return used / 60


def processor_seconds(session: int) -> float:
    """Read the processor time of all processes of a session, of those too that have ended (Linux)."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            # The process has ended.
            continue
        if int(fields[SESSION]) == session:
            ticks += sum(map(int, fields[TICKS]))
    return ticks / os.sysconf("SC_CLK_TCK")
