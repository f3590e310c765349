"""How the processes of a vector environment start: by which method, and what they have from their parent."""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from multiprocessing import reduction
from typing import Any

from tfbaselines import LEFT_OUT
from tfbaselines.envs.vec.worker import BY_PARENT, SAFE_PATH, SECONDS_TO_END
from tfbaselines.loading import GL, WORKERS_GL
from tfbaselines.parallel import mpi

# How workers start: on Linux they are forked from a server without threads (forked.py), elsewhere each starts Python.
FORKED = "tfbaselines.envs.vec.forked"
START_METHOD = "forkserver" if sys.platform == "linux" else "spawn"


class Surroundings:
    """What a worker has from its parent when it unpickles this: environment variables, output and error streams.

    A worker that is forked from a server has those of the server, which started at another time.
    """

    def __init__(self) -> None:
        self._variables = dict(os.environ)

    def __getstate__(self) -> dict[str, Any]:
        return {"variables": self._variables, "streams": {number: reduction.DupFd(number) for number in _streams()}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        os.environ.clear()
        os.environ.update(state["variables"])
        for number, stream in state["streams"].items():
            os.dup2(given := stream.detach(), number)
            os.close(given)


def _streams() -> list[int]:
    """Return the descriptors of standard output and error that are open."""
    numbers = []
    for number in (1, 2):
        with contextlib.suppress(OSError):
            os.fstat(number)
            numbers.append(number)
    return numbers


def start_process(process: Any) -> None:
    """Start a process; if the server that forks processes is just ending, try until there is another server."""
    until = time.monotonic() + SECONDS_TO_END
    while True:
        try:
            return process.start()
        except (ConnectionError, EOFError):
            if time.monotonic() > until:
                raise
            time.sleep(0.25)


@contextlib.contextmanager
def workers_environment() -> Iterator[None]:
    """Hide the MPI job, so that a worker does not take itself for one of its ranks, and show the workers' OpenGL.

    If our command left the working directory out of sys.path, so does a worker that starts.
    """
    environment = dict(os.environ)
    try:
        os.environ.clear()
        os.environ.update(mpi.without_launcher(environment))
        if LEFT_OUT:
            os.environ.setdefault(SAFE_PATH, BY_PARENT)
        if WORKERS_GL in environment:
            os.environ[GL] = environment[WORKERS_GL]
        yield
    finally:
        os.environ.clear()
        os.environ.update(environment)


@contextlib.contextmanager
def without_a_missing_script() -> Iterator[None]:
    """Keep workers from running a script that is no file, such as a program from standard input."""
    main = sys.modules["__main__"]
    path = getattr(main, "__file__", None)
    if path is None or os.path.exists(path):
        yield
        return
    del main.__file__
    try:
        yield
    finally:
        main.__file__ = path
