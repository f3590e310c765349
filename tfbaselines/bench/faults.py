"""Faults of real processes, for every algorithm: what a run loses, and whether it says so.

Each fault starts a run of the command line in a directory of its own, does it harm, and checks what is left. A check
that fails says why. Runs save some three times a second.
"""

import contextlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import gymnasium
import numpy as np

from tfbaselines.algs.registry import get
from tfbaselines.files import write_whole
from tfbaselines.training.checkpoint import Checkpoints, load_tree

SECONDS_TO_START = 300
SECONDS_TO_END = 10
SAVE_MINUTES = 0.005
TWO_RANKS = ("mpirun", "-np", "2")
# Root may write where nobody may; without that right it is as any user.
ORDINARY_USER = ("setpriv", "--bounding-set=-dac_override") if os.geteuid() == 0 else ()


class Trial:
    """A run of an algorithm that something will happen to.

    Args:
        alg: the algorithm.
        place: directory of its own.
        moments: when faults come.
    """

    def __init__(self, alg: str, place: Path, moments: random.Random) -> None:
        self.alg, self.place, self.moments = alg, place, moments
        self.log = place / "log"
        # A checkpoint that the fault spoilt; it stays until later ones push it out.
        self.damaged: Path | None = None
        place.mkdir(parents=True)
        # What a run cannot do without, or would end by, and what is not kept for the one that goes on.
        self.own = []
        arguments = get(alg).config.arguments()
        if "demo_path" in arguments and not get(alg).goals:
            self.own = [f"--demo_path={place / 'demonstrations.npz'}"]
            demonstrate(self.env, place / "demonstrations.npz")
        if "patience" in arguments:
            self.own.append("--patience=1000000000")

    @property
    def env(self) -> str:
        """An environment with actions that the algorithm takes."""
        if get(self.alg).goals:
            return "tfbaselines.envs.tiny:tfbaselines/PointReach-v0"
        return "CartPole-v1" if "Discrete" in get(self.alg).actions else "Pendulum-v1"

    @contextlib.contextmanager
    def run(self, *flags: str, launcher: tuple[str, ...] = ()) -> Iterator[subprocess.Popen]:
        """A run without end, which is ended with the block."""
        words = [f"--alg={self.alg}", f"--env={self.env}", "--num_timesteps=1e9", f"--save_minutes={SAVE_MINUTES}"]
        if "num_test_episodes" in get(self.alg).config.arguments():
            words.append("--num_test_episodes=0")
        with self.start(*words, *self.own, f"--log_path={self.log}", *flags, launcher=launcher) as process:
            yield process

    @contextlib.contextmanager
    def start(self, *words: str, launcher: tuple[str, ...] = ()) -> Iterator[subprocess.Popen]:
        """A command in a process group of its own; what it writes goes to OUTPUT."""
        with open(self.place / "output.txt", "ab") as output:
            process = subprocess.Popen(
                [*launcher, sys.executable, "-m", "tfbaselines.run", *words],
                cwd=self.place,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def output(self) -> str:
        """What the commands so far wrote."""
        return (self.place / "output.txt").read_text(errors="replace")

    def saved(self) -> int:
        """The number of updates in the latest checkpoint; 0 without one."""
        names = [path.name for path in (self.log / "checkpoints").glob("[0-9]*")]
        return max((int(name) for name in names if name.isdigit()), default=0)

    def until(self, condition: Callable[[], bool], process: subprocess.Popen, what: str) -> None:
        """Wait for something that a running process will make true."""
        end = time.monotonic() + SECONDS_TO_START
        while not condition():
            assert process.poll() is None, f"ended with status {process.poll()} before {what}: {self.output()[-300:]}"
            assert time.monotonic() < end, f"waited in vain for {what}"
            time.sleep(0.02)

    def until_saved(self, process: subprocess.Popen, more_than: int = 0) -> None:
        """Wait for a checkpoint, and for a moment that nothing foresees."""
        self.until(lambda: self.saved() > more_than, process, "a checkpoint")
        time.sleep(self.moments.uniform(0.0, 0.5))

    def ended(self, process: subprocess.Popen, status: int) -> None:
        """Check that a process ends in time, and how."""
        start = time.monotonic()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10 * SECONDS_TO_END)
        seconds = time.monotonic() - start
        assert process.poll() == status, f"ended with status {process.poll()}, not {status}: {self.output()[-300:]}"
        assert seconds <= SECONDS_TO_END, f"took {seconds:.0f} s to end"

    def stop(self, process: subprocess.Popen) -> None:
        """SIGTERM, and check that the process ends as it should."""
        os.kill(process.pid, signal.SIGTERM)
        self.ended(process, 128 + signal.SIGTERM)

    def goes_on(self) -> None:
        """Check that the run is resumed where its latest checkpoint was, learns, and stops with finite parameters."""
        before = self.saved()
        assert before, "no checkpoint was left"
        with self.start(f"--resume={self.log}", *self.own, "--num_timesteps=1e9") as process:
            self.until(lambda: self.saved() > before, process, "a later checkpoint")
            self.stop(process)
        assert "Traceback" not in self.output(), self.output()[-300:]
        self.finite()

    def finite(self) -> None:
        """Check the parameters of every checkpoint."""

        def check(tree: object) -> None:
            for value in tree.values() if isinstance(tree, dict) else ():
                check(value)
            if isinstance(tree, np.ndarray) and tree.dtype.kind == "f":
                assert np.isfinite(tree).all(), "a checkpoint has parameters that are not finite"

        for path in set((self.log / "checkpoints").glob("0*")) - {self.damaged}:
            check(load_tree(path)["model"]["policy"])


def demonstrate(env_id: str, path: Path) -> None:
    """Write five episodes of random actions."""
    from tfbaselines.demos.demonstrations import ARRAYS, Demonstrations, save_demonstrations

    env = gymnasium.make(env_id)
    env.action_space.seed(0)
    columns = {name: [] for name in ARRAYS[:-1]}
    for episode in range(5):
        (obs, _), over, first = env.reset(seed=episode), False, len(columns["obs"])
        while not over:
            action = env.action_space.sample()
            after, reward, terminated, truncated, _ = env.step(action)
            for name, value in (("obs", obs), ("actions", action), ("rewards", reward)):
                columns[name].append(value)
            obs, over = after, terminated or truncated
        columns["lengths"].append(len(columns["obs"]) - first)
        columns["terminated"].append(terminated)
    env.close()
    arrays = {name: np.array(column) for name, column in columns.items()}
    save_demonstrations(path, Demonstrations(**arrays), env.observation_space, env.action_space)


def killed(trial: Trial) -> None:
    """SIGKILL to the process, at a random moment."""
    with trial.run() as process:
        trial.until_saved(process)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    trial.goes_on()


def stopped(number: int, group: bool = False) -> Callable[[Trial], None]:
    """A signal to the process, or to its group with workers in it."""

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
    """For some seconds nothing can be saved: training goes on, and later saves succeed."""

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
    """No file can grow."""
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    time.sleep(2.0)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def read_only(trial: Trial, process: subprocess.Popen) -> None:
    """No file can be made in the log directory, until a save has failed."""
    directories = [trial.log, *(path for path in trial.log.rglob("*") if path.is_dir())]
    for directory in directories:
        directory.chmod(0o555)
    try:
        trial.until(lambda: "could not be saved" in trial.output(), process, "a warning")
    finally:
        for directory in directories:
            directory.chmod(0o755)


def removed_directory(trial: Trial) -> None:
    """The log directory goes while the run writes there."""
    with trial.run() as process:
        trial.until_saved(process)
        before = trial.saved()
        shutil.rmtree(trial.log, ignore_errors=True)
        trial.until_saved(process, before)
        trial.stop(process)
    trial.goes_on()


def damaged(trial: Trial) -> None:
    """The latest checkpoint loses its end."""
    with trial.run() as process:
        trial.until_saved(process)
        trial.until_saved(process, trial.saved())
        trial.stop(process)
    trial.damaged = Checkpoints(trial.log / "checkpoints").latest()
    os.truncate(trial.damaged, trial.damaged.stat().st_size // 2)
    trial.goes_on()


def two_runs(trial: Trial) -> None:
    """A second run in the same directory is refused; the first goes on."""
    with trial.run() as process:
        trial.until_saved(process)
        with trial.run("--overwrite") as other:
            status = other.wait(SECONDS_TO_START)
        assert status == 2 and f"process {process.pid}" in trial.output(), f"the second run ended with {status}"
        before = trial.saved()
        trial.until_saved(process, before)


def rank_killed(trial: Trial) -> None:
    """One rank of two gets SIGKILL: the job ends, and is resumed."""
    with trial.run(launcher=TWO_RANKS) as process:
        trial.until_saved(process)
        os.kill(max(_processes(trial.log)), signal.SIGKILL)
        status = process.wait(6 * SECONDS_TO_END)
    assert status != 0, "the job ended with status 0"
    trial.goes_on()


def rank_stopped(trial: Trial) -> None:
    """SIGTERM to one rank of two: all of them save and end."""
    with trial.run(launcher=TWO_RANKS) as process:
        trial.until_saved(process)
        os.kill(max(_processes(trial.log)), signal.SIGTERM)
        trial.ended(process, 128 + signal.SIGTERM)
    trial.goes_on()


def closed_output(trial: Trial) -> None:
    """Who reads the output leaves after three lines."""
    with trial.run(launcher=("bash", "-o", "pipefail", "-c", '"$@" | head -n 3', "bash")) as process:
        trial.until_saved(process)
        trial.until_saved(process, trial.saved())
        os.kill(max(_processes(trial.log)), signal.SIGTERM)
        trial.ended(process, 128 + signal.SIGTERM)
    trial.goes_on()


def _processes(log: Path) -> list[int]:
    """The Python processes of a run; its launcher's have the same words after other ones."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            program, _, words = path.read_text().partition("\0")
            if program == sys.executable and str(log) in words:
                found.append(int(path.parent.name))
    return found


def spoilt(environment: str, status: int, *flags: str) -> Callable[[Trial], None]:
    """An environment that does harm ends the run with a line that names it; nothing that is saved is spoilt."""

    def harm(trial: Trial) -> None:
        env = f"tfbaselines.bench.spoilt:{environment}{trial.env.split('/')[-1]}"
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
    """Whether a fault can happen to an algorithm: cloning takes no step of its environment."""
    return alg != "bc" or fault not in ("NaN in rewards", "NaN in observations", "hanging worker", "crashing worker")


def inflict(alg: str, fault: str, repeats: int, place: Path, seed: int = 0) -> list[str]:
    """Do a fault to runs of an algorithm.

    Args:
        alg: the algorithm.
        fault: name in FAULTS.
        repeats: runs, one after the other.
        place: a directory that may be filled.
        seed: of the moments at which faults come.

    Returns:
        What went wrong, a line for each run that did not pass.
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
        results: by fault and algorithm, how many runs passed, of how many.
        out: file.
    """
    algs = sorted({alg for _, alg in results})
    lines = [f"| fault | {' | '.join(algs)} |", f"|---|{'---|' * len(algs)}"]
    for fault in [name for name in FAULTS if any(name == one for one, _ in results)]:
        cells = (results.get((fault, alg)) for alg in algs)
        lines.append(f"| {fault} | {' | '.join('-' if c is None else f'{c[0]}/{c[1]}' for c in cells)} |")
    write_whole(Path(out), "\n".join(lines) + "\n")
