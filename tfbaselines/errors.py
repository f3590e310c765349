"""One kind of error for a user's mistake: a ``ValueError`` whose single line names the mistake and the mend."""

import contextlib
import difflib
import sys
from collections.abc import Iterable

# Characters of a value that an error shows.
LONGEST_VALUE = 300
# Choices that an error lists.
MOST_CHOICES = 50
# Of a longer list.
EXAMPLES = 10


class WorkerError(RuntimeError):
    """An environment failed, in this process or in its own: it raised, crashed or hung; the message names it."""


class NotFiniteError(ValueError):
    """A number that nothing can be learnt from: nan, infinite, or too large for float32."""


class InUseError(ValueError):
    """A log directory that another run is writing in."""


class ObservationError(ValueError):
    """An observation that does not fit its space."""


def warn(message: str) -> None:
    """A warning on standard error, if there is one."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        # One write, so that lines of several ranks do not mix.
        sys.stderr.write(f"tfbaselines: warning: {message}\n")
        sys.stderr.flush()


def nearest(name: str, choices: Iterable[str]) -> str | None:
    """The choice that `name` most likely meant, or None when nothing resembles it."""
    by_lower = {choice.lower(): choice for choice in choices}
    matches = difflib.get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.5)
    return by_lower[matches[0]] if matches else None


def unknown(kind: str, name: str, choices: Iterable[str]) -> ValueError:
    """The error for a name that is not one of `choices`, e.g. ``unknown("network", "mpl", ["mlp", "cnn"])``."""
    choices = sorted(choices)
    guess = nearest(name, choices)
    shown = choices if len(choices) <= MOST_CHOICES else [*choices[:EXAMPLES], f"... ({len(choices)} in all)"]
    hint = f"did you mean '{guess}'?" if guess else f"choose from {', '.join(shown)}"
    return ValueError(f"unknown {kind} {name!r:.{LONGEST_VALUE}}: {hint}")


def check_at_least(least: float, **values: float) -> None:
    """Refuse numbers below `least`, by the names they are given under."""
    for name, value in values.items():
        if not value >= least:
            raise bad_argument(name, value, f"at least {least}")


def given(**values: float | None) -> dict[str, float]:
    """Those of some optional numbers that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def bad_argument(name: str, value: object, accepted: str) -> ValueError:
    """The error for an argument whose value cannot be used, naming what is accepted."""
    return ValueError(f"{name}={value!r:.{LONGEST_VALUE}} is not valid: {accepted}")
