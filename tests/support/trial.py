"""One run of the command line that a fault harms, and what it has to keep."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import gymnasium
import numpy as np
from warm import Warm

from tfbaselines.algs import get
from tfbaselines.training.checkpoint import load_tree

SECONDS_TO_START = 300
SECONDS_TO_END = 10
SAVE_MINUTES = 0.002
TWO_RANKS = ("mpirun", "-np", "2")
# Root may write to read-only directories; without that capability root is an ordinary user.
ORDINARY_USER = ("setpriv", "--bounding-set=-dac_override") if os.geteuid() == 0 else ()
# Runs import spoilt.py from here.
TESTS = Path(__file__).resolve().parent


class Trial:
    """A run of an algorithm, and checks of what it left.

    Args:
        alg: the algorithm.
        place: the run's directory, which must not exist.
        moments: draws the moments of faults.
    """

    def __init__(self, alg: str, place: Path, moments: random.Random) -> None:
        self.alg = alg
        self.place = place
        self.moments = moments
        self.log = place / "log"
        # A checkpoint that the fault damaged; later checkpoints replace it.
        self.damaged: Path | None = None
        place.mkdir(parents=True)
        # Arguments that a run and its continuation need.
        self.own = []
        arguments = get(alg).config.arguments()
        if "demo_path" in arguments and not get(alg).goals:
            self.own = [f"--demo_path={place / 'demonstrations.npz'}"]
            demonstrate(self.env, place / "demonstrations.npz")
        if "patience" in arguments:
            self.own.append("--patience=1000000000")

    @property
    def env(self) -> str:
        """Id of an environment that the algorithm accepts."""
        if get(self.alg).goals:
            return "tfbaselines.envs.tiny:tfbaselines/PointReach-v0"
        return "CartPole-v1" if "Discrete" in get(self.alg).actions else "Pendulum-v1"

    @contextlib.contextmanager
    def run(self, *flags: str, launcher: tuple[str, ...] = ()) -> Iterator[subprocess.Popen]:
        """Start an endless run, and end it with the block."""
        words = [f"--alg={self.alg}", f"--env={self.env}", "--num_timesteps=1e9", f"--save_minutes={SAVE_MINUTES}"]
        if "num_test_episodes" in get(self.alg).config.arguments():
            words.append("--num_test_episodes=0")
        with self.start(*words, *self.own, f"--log_path={self.log}", *flags, launcher=launcher) as process:
            yield process

    @contextlib.contextmanager
    def start(self, *words: str, launcher: tuple[str, ...] = ()) -> Iterator[subprocess.Popen]:
        """Start a command in its own process group; its output goes to output.txt."""
        env = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
        command = [*launcher, sys.executable, "-m", "tfbaselines.run", *words]
        with open(self.place / "output.txt", "ab") as output:
            if launcher:
                files = {"stdout": output, "stderr": output}
                process = subprocess.Popen(command, cwd=self.place, env=env, start_new_session=True, **files)
            else:
                process = Warm(["tfbaselines.run", *words], self.place, env, output)
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def output(self) -> str:
        """Return the output of all commands so far."""
        return (self.place / "output.txt").read_text(errors="replace")

    def saved(self) -> int:
        """Return the number of the latest checkpoint; 0 without one."""
        names = [path.name for path in (self.log / "checkpoints").glob("[0-9]*")]
        return max((int(name) for name in names if name.isdigit()), default=0)

    def until(self, condition: Callable[[], bool], process: subprocess.Popen, what: str) -> None:
        """Wait for a condition that a running process fulfills."""
        end = time.monotonic() + SECONDS_TO_START
        while not condition():
            assert process.poll() is None, f"ended with status {process.poll()} before {what}: {self.output()[-300:]}"
            assert time.monotonic() < end, f"waited in vain for {what}"
            time.sleep(0.02)

    def until_saved(self, process: subprocess.Popen, more_than: int = 0) -> None:
        """Wait for a checkpoint, and then for a random time."""
        self.until(lambda: self.saved() > more_than, process, "a checkpoint")
        time.sleep(self.moments.uniform(0.0, 0.25))

    def ended(self, process: subprocess.Popen, status: int) -> None:
        """Check that a process ends in time and with the exit status."""
        start = time.monotonic()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10 * SECONDS_TO_END)
        seconds = time.monotonic() - start
        assert process.poll() == status, f"ended with status {process.poll()}, not {status}: {self.output()[-300:]}"
        assert seconds <= SECONDS_TO_END, f"took {seconds:.0f} s to end"

    def stop(self, process: subprocess.Popen) -> None:
        """Send SIGTERM, and check how the process ends."""
        os.kill(process.pid, signal.SIGTERM)
        self.ended(process, 128 + signal.SIGTERM)

    def goes_on(self) -> None:
        """Check that the run resumes from its latest checkpoint, learns, and stops with finite parameters."""
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
    from tfbaselines.demos import ARRAYS, Demonstrations, save_demonstrations

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
