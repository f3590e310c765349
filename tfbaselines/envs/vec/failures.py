"""What an environment that failed did wrong, in one line; asked only when an exception is under way."""

import os
from types import TracebackType
from typing import Any, NoReturn

import gymnasium
import numpy as np

import tfbaselines
from tfbaselines.errors import UsageError

EXAMINE = "python -m tfbaselines.check_env ID examines an environment"
RESET = "reset must be Gymnasium's, reset(*, seed=None, options=None), and return (obs, info), info being a dict"
STEP = "step must return Gymnasium's five values (obs, reward, terminated, truncated, info)"

PACKAGE = os.path.dirname(tfbaselines.__file__) + os.sep
# Those that call environments.
CALLERS = ("tfbaselines.", "gymnasium.")


class EnvironmentFault(UsageError):
    """An environment does not do what Gymnasium asks of it."""


def why(error: BaseException) -> str:
    """What the environment did wrong where that is known, else the exception's kind, text and place, in one line."""
    if isinstance(error, EnvironmentFault):
        return str(error)
    return fault_of(error) or f"{type(error).__name__}: {' '.join(str(error).split())}{place(error)}"


def fault_of(error: BaseException) -> str | None:
    """Which rule of Gymnasium's the environment broke, if an exception shows it."""
    text, trace = str(error), _last(error)
    if isinstance(error, TypeError) and "reset() got an unexpected keyword argument" in text:
        return f"{RESET} ({text}): {EXAMINE}"
    if trace is None or not trace.tb_frame.f_globals.get("__name__", "").startswith(CALLERS):
        return None
    frame = trace.tb_frame
    if isinstance(error, TypeError | ValueError) and "unpack" in text:
        return f"{RESET if 'reset' in frame.f_code.co_name else STEP} ({text}): {EXAMINE}"
    if "reward" in frame.f_locals and not _is_number(frame.f_locals["reward"]):
        return f"the reward {frame.f_locals['reward']!r:.60} is not a number"
    return None


def begin(env: gymnasium.Env, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
    """The result of an environment's reset, which takes `kwargs`; EnvironmentFault where it is not Gymnasium's."""
    try:
        begun = env.reset(**kwargs)
    except (TypeError, ValueError) as error:
        raise_fault(error)
    if not (isinstance(begun, tuple) and len(begun) == 2 and isinstance(begun[1], dict)):
        raise EnvironmentFault(f"{RESET}: {EXAMINE}")
    return begun


def raise_fault(error: Exception) -> NoReturn:
    """Raise the EnvironmentFault that an exception shows, or the exception itself."""
    fault = fault_of(error)
    if fault is None:
        raise error
    raise EnvironmentFault(fault) from error


def _is_number(reward: Any) -> bool:
    return isinstance(reward, int | float | np.number | np.bool_)


def _last(error: BaseException) -> TracebackType | None:
    """Where an exception was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace


def place(error: BaseException) -> str:
    """The file and line that an exception was raised in; nothing for this package's own, which say enough."""
    trace = _last(error)
    if trace is None or trace.tb_frame.f_code.co_filename.startswith(PACKAGE):
        return ""
    return f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"
