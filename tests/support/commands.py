"""Commands as a user types them: in a process of their own, in a directory of the test's."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from warm import Warm, address

# A run small enough for a test: some 10 updates a second.
SMALL = ["--env=CartPole-v1", "--nsteps=64", "--noptepochs=1", "--num_hidden=8", "--seed=1"]

# The PYTHONPATH of a process that runs a module of this directory.
SUPPORT = os.pathsep.join(map(str, (Path(__file__).parent, Path(__file__).parents[2])))

TWO_RANKS = ("mpirun", "-np", "2")
RANK = Path(__file__).with_name("rank.py")


def environment(**extra):
    """The shell's variables without those that say where the logger writes."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    return kept | extra


def start(module, *arguments, cwd, launcher=(), **extra):
    """Start ``python -m module arguments`` with TensorFlow imported, which saves seconds; on other hosts without."""
    if not launcher:
        return Warm([module, *arguments], cwd, environment(**extra))
    rank = [RANK, address(), module] if launcher[0] == "mpirun" else ["-m", module]
    command = [*launcher, sys.executable, *map(str, (*rank, *arguments))]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=cwd, env=environment(**extra), stdout=pipe, stderr=pipe, text=True)


def start_shell(script, cwd):
    """Start a line of bash, in which `python` is this one."""
    path = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"
    pipe = subprocess.PIPE
    return subprocess.Popen(
        ["bash", "-c", script], cwd=cwd, env=environment(PATH=path), stdout=pipe, stderr=pipe, text=True
    )


def finish(process, timeout=120):
    """Wait for it: (exit status, standard output, standard error)."""
    out, err = process.communicate(timeout=timeout)
    return process.returncode, out, err


def run(module, *arguments, cwd, **extra):
    """Start it and wait."""
    return finish(start(module, *arguments, cwd=cwd, **extra))


def run_on_ranks(module, *arguments, cwd, timeout=300, **extra):
    """Start it on two ranks of mpirun, and wait; none of them stays when that takes too long."""
    process = start(module, *arguments, cwd=cwd, launcher=TWO_RANKS, **extra)
    try:
        return finish(process, timeout)
    finally:
        process.terminate()


def wait_for(condition, process, seconds=240):
    """Wait until something is true, which a process that has ended will not make it."""
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def interrupt(process, log, lines):
    """Ctrl-C, when progress.csv has more than so many lines: the run has saved, and says how to go on."""
    progress = log / "progress.csv"
    try:
        wait_for(lambda: progress.exists() and progress.read_text().count("\n") > lines, process)
        process.send_signal(signal.SIGINT)
        status, out, err = finish(process)
    finally:
        process.kill()
    assert status == 130, err
    assert "checkpoint saved in" in out and f"--resume={log}" in out, out
