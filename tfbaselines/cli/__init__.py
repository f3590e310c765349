"""Parser, error lines and exit status of all commands."""

import argparse
import atexit
import contextlib
import os
import re
import select
import sys
import sysconfig
import traceback
from collections.abc import Callable
from typing import NoReturn

from tfbaselines.errors import LONGEST_VALUE, NotFiniteError, UsageError, WorkerError, complain, nearest, printable
from tfbaselines.loading import keep_gl_for_workers

# Environment variable that shows the traceback of every error.
TRACEBACK_VARIABLE = "TFBASELINES_TRACEBACK"

# Exit status of a command whose output nobody reads to its end: the shell's for SIGPIPE.
OUTPUT_CLOSED = 128 + 13

# Directory of this package.
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class Parser(argparse.ArgumentParser):
    """An argparse parser with errors of one line that suggest the nearest option."""

    def error(self, message: str) -> NoReturn:
        """Exit with status 2 and one line."""
        typo = re.match(r"unrecognized arguments: (--[\w-]+)", message)
        guess = nearest(typo.group(1), self._option_string_actions) if typo else None
        self.exit(2, printable(f"{self.prog}: error: {message}{f'; did you mean {guess}?' if guess else ''}\n"))


def exit_status(name: str, command: Callable[[], int]) -> int:
    """Run a command and return its exit status.

    A user's mistake, a failed environment or an unusable path is one line on standard error and status 2; a number
    that is not finite is one line and status 3. Any other error keeps its traceback, below a line that names the file
    that raised it. Ctrl-C is status 130 unless the command handles it. If the reader of a pipe leaves, as `head` does,
    the command ends with status 141 and no message.

    Args:
        name: the command's name, which begins the line.
        command: runs the command and returns the exit status.
    """
    for stream in (sys.stdout, sys.stderr):
        # A letter that the terminal cannot show must not end a run.
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.reconfigure(errors="backslashreplace")
    keep_gl_for_workers()
    try:
        return command()
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if isinstance(error, BrokenPipeError) and _output_is_closed():
            return OUTPUT_CLOSED
        line, status = _explained(error)
        if line is None:
            complain(f"{name}: error: {origin(error)}")
            raise
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        complain(f"{name}: error: {line}")
        return status


def _output_is_closed() -> bool:
    """Check whether the reader of standard output has left; if so, drop what was not read."""
    try:
        output, poll = sys.stdout.fileno(), select.poll()
    except (AttributeError, OSError, ValueError):
        return False
    poll.register(output, 0)
    closed = bool(poll.poll(0))
    if closed:
        # The interpreter flushes it once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), output)
    return closed


def _explained(error: Exception) -> tuple[str | None, int]:
    """Return the line that explains an error to its user and the exit status; no line for an unexpected error."""
    if isinstance(error, NotFiniteError):
        return " ".join(str(error).split()), 3
    if isinstance(error, UsageError | WorkerError):
        return " ".join(str(error).split()), 2
    if isinstance(error, OSError) and error.filename is not None:
        reason = (error.strerror or type(error).__name__).lower()
        return f"'{error.filename!s:.{LONGEST_VALUE}}': {reason} ({TRACEBACK_VARIABLE}=1 shows where)", 2
    if isinstance(error, OSError) and not _has_working_directory():
        return "the working directory was removed: change to one that is there", 2
    return None, 1


def origin(error: BaseException) -> str:
    """Name the file that raised an unexpected error: a user's file, or a file of this package.

    The innermost frame outside of libraries raised the error or called the library.
    """
    places = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    places = [(path, line) for path, line in places if not _is_of_a_library(path)]
    path, line = places[-1] if places else (__file__, 0)
    kind = type(error).__name__
    if path.startswith(PACKAGE):
        where = f"tfbaselines/{path.removeprefix(PACKAGE)}"
        return f"{kind} in {where}, line {line}, a bug of tfbaselines: please report it with the traceback below"
    return f"{kind} in {path}, line {line}, which is not a file of tfbaselines; the traceback is below"


def _is_of_a_library(path: str) -> bool:
    if path.startswith(PACKAGE):
        return False
    libraries = {sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    marks = ("site-packages", "dist-packages", "__autograph_generated_file")
    return path.startswith(("<", *libraries)) or any(mark in path for mark in marks)


def _has_working_directory() -> bool:
    try:
        os.getcwd()
    except OSError:
        return False
    return True


def leave(status: int, last: Callable[[], None] | None = None) -> NoReturn:
    """End the process of a command with this exit status, without the destructors of C++ libraries.

    TensorFlow's destructors sometimes abort ("free(): invalid pointer") after everything is written, and the process
    would end with SIGABRT's status. Python's exit functions run.

    Args:
        status: exit status.
        last: called after everything is written. MPI ends there: mpirun kills ranks that are still at work when
            another one has left.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        # The reader of a pipe may have closed it.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    if last is not None:
        last()
    os._exit(status)
