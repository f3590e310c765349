"""Errors of the package. A UsageError is one line that names a user's mistake and how to correct it."""

import contextlib
import difflib
import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any, TextIO

# Characters of a value that an error shows.
LONGEST_VALUE = 300
# Choices that an error lists.
MOST_CHOICES = 50
# Choices that an error lists of a longer list.
EXAMPLES = 10


class UsageError(ValueError):
    """A mistake of the user: commands show it as one line, without a traceback."""


class WorkerError(RuntimeError):
    """An environment raised, crashed or hung, in this process or in its own. The message names the environment."""


class LostWorkerError(WorkerError):
    """A process that learns was killed: its part of the run is lost, and the last checkpoint stands."""


class NotFiniteError(ValueError):
    """A number is nan, infinite or too large for float32, so nothing can be learned from it."""


class InUseError(UsageError):
    """Another run is writing to the log directory."""


class ObservationError(UsageError):
    """An observation does not fit its space."""


def warn(message: str) -> None:
    """Print a warning to standard error, if there is one."""
    complain(f"tfbaselines: warning: {message}")


def complain(line: str) -> None:
    """Print a line to standard error, if there is one; a terminal obeys nothing in it."""
    with contextlib.suppress(OSError, ValueError, AttributeError), beside_progress(sys.stderr):
        # One write, so that lines of several ranks do not mix.
        sys.stderr.write(f"{printable(line)}\n")
        sys.stderr.flush()


def beside_progress(stream: TextIO) -> contextlib.AbstractContextManager:
    """Write lines to a terminal without a progress bar in them: it is cleared meanwhile, and drawn again below."""
    tqdm = sys.modules.get("tqdm")
    bars = tqdm is not None and stream.isatty()
    return tqdm.tqdm.external_write_mode(file=stream) if bars else contextlib.nullcontext()


def printable(text: str) -> str:
    """Replace characters that a terminal would obey by their escapes, but for newlines and tabs."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in "\n\t" else repr(one)[1:-1] for one in text)


def nearest(name: str, choices: Iterable[str], cutoff: float = 0.5) -> str | None:
    """Return the choice that `name` most likely meant, or None when none is as similar as `cutoff` (1: equal)."""
    by_lower = {choice.lower(): choice for choice in choices}
    matches = difflib.get_close_matches(name.lower(), list(by_lower), n=1, cutoff=cutoff)
    return by_lower[matches[0]] if matches else None


def unknown(kind: str, name: str, choices: Iterable[str]) -> UsageError:
    """Build the error for a name that is not one of `choices`, e.g. ``unknown("network", "mpl", ["mlp", "cnn"])``."""
    choices = sorted(choices)
    guess = nearest(name, choices)
    shown = choices if len(choices) <= MOST_CHOICES else [*choices[:EXAMPLES], f"... ({len(choices)} in all)"]
    hint = f"did you mean '{guess}'?" if guess else f"choose from {', '.join(shown)}"
    return UsageError(f"unknown {kind} {name!r:.{LONGEST_VALUE}}: {hint}")


def bad_argument(name: str, value: object, accepted: str) -> UsageError:
    """Build the error for an argument with a wrong value; `accepted` describes the right ones."""
    return UsageError(f"{name}={value!r:.{LONGEST_VALUE}} is not valid: {accepted}")


def check_at_least(least: float, **values: float) -> None:
    """Raise a UsageError for the first value below `least`; the keywords are the arguments' names."""
    for name, value in values.items():
        if not value >= least:
            raise bad_argument(name, value, f"at least {least}")


def renamed(**names: str) -> Callable[[Callable], Callable]:
    """Decorate a function: an argument with a name of Stable-Baselines3 is a UsageError that names the one here."""

    def decorate(function: Callable) -> Callable:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            for name in names.keys() & kwargs.keys():
                raise UsageError(f"Stable-Baselines3's {name} is {names[name]} here")
            return function(*args, **kwargs)

        return call

    return decorate


def given(**values: float | None) -> dict[str, float]:
    """Return the values that are not None."""
    return {name: value for name, value in values.items() if value is not None}
