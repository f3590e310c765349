"""Processes of runs: they end with the process that started them, and leave a line that says why they failed."""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from tfbaselines.parallel.mpi import usable_cores
from tfbaselines.training.guards import StopSignals

# Number of Linux's prctl for the signal at the parent's death.
SIGNAL_AT_DEATH = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None
# Bytes at the end of an output in which the line of an error is searched.
TAIL = 2**16
LONGEST_LINE = 500
THREADS = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")


def start(command: list[str], output: BinaryIO | None, environment: Mapping[str, str]) -> subprocess.Popen:
    """Start a command in its own session, so that Ctrl-C reaches this process alone, which passes it on once.

    On Linux the command gets SIGTERM when this process dies, whatever the cause, and saves a checkpoint.

    Args:
        command: the command.
        output: file of its output; None for this process's own output and errors.
        environment: environment variables of the process.
    """
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=None if output is None else subprocess.STDOUT,
        env=environment,
        start_new_session=True,
        preexec_fn=None if _libc is None else partial(_end_with, os.getpid()),
    )


def wait_for_end(processes: Sequence[subprocess.Popen], seconds: float) -> None:
    """Wait until one of the processes ends, at most some seconds; all of them where the system has no such wait.

    The processes must not have been reaped.
    """
    with contextlib.ExitStack() as stack:
        try:
            ends = select.poll()
            for process in processes:
                descriptor = os.pidfd_open(process.pid)
                stack.callback(os.close, descriptor)
                ends.register(descriptor, select.POLLIN)
        except (AttributeError, OSError):
            # Another system than Linux, or a Linux before 5.3.
            time.sleep(seconds)
            return
        ends.poll(1000 * seconds)


def kill(process: subprocess.Popen) -> None:
    """Kill a process of `start`, and those that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def call(command: list[str], environment: Mapping[str, str] | None = None) -> int:
    """Run a command that saves a checkpoint at a stop signal, and pass such signals on to it; return its exit status.

    Raises:
        KeyboardInterrupt, SystemExit: after a stop signal, once the command has ended.
    """
    with subprocess.Popen(command, env=environment) as process:
        signals = _PassedOn(process)
        signals.catch()
        try:
            status = process.wait()
        finally:
            signals.release()
    if signals.number == signal.SIGINT:
        raise KeyboardInterrupt
    if signals.number:
        raise SystemExit(128 + signals.number)
    return status


class _PassedOn(StopSignals):
    """Stop signals that are passed on to the process of a run."""

    def __init__(self, process: subprocess.Popen) -> None:
        super().__init__()
        self._process = process

    def _on_signal(self, number: int, frame: Any) -> None:
        super()._on_signal(number, frame)
        # Ctrl-C in a terminal reaches both processes, and a second one would cost the checkpoint.
        if number != signal.SIGINT:
            self._process.send_signal(number)


def _end_with(parent: int) -> None:
    if _libc is not None:
        _libc.prctl(SIGNAL_AT_DEATH, signal.SIGTERM)
    if os.getppid() != parent:
        # The parent died before the line above.
        os._exit(128 + signal.SIGTERM)


def shared_cores(jobs: int) -> dict[str, str]:
    """Return the environment variables for one of `jobs` runs that share this machine's cores; the user's stay."""
    threads = str(max(1, len(usable_cores()) // jobs))
    return dict.fromkeys(THREADS, threads) | os.environ


def last_error(output: Path, start: int = 0) -> str | None:
    """Find the line of the error in a run's output from byte `start` on: its last error, else its last line."""
    try:
        with open(output, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(start, size - TAIL))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return None
    lines = [line.strip() for line in lines if line.strip()]
    errors = [line for line in lines if line.startswith("tfbaselines") and ": error: " in line]
    found = (errors or lines)[-1:]
    return found[0][:LONGEST_LINE] if found else None
