"""Checks of the results of environments, and one-line explanations of their failures."""

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NoReturn

import gymnasium
import numpy as np
from gymnasium import spaces

import tfbaselines
from tfbaselines.envs.vec.observations import Observations, parts_of, parts_of_obs
from tfbaselines.errors import NotFiniteError, UsageError

# Losses square rewards in float32.
MOST_SQUARED = float(np.finfo(np.float32).max)
MOST = MOST_SQUARED**0.5

AFTER_RESET = "observation after reset"
WHOLE = (int, np.integer)


def environment_name(number: int, env_id: str | None) -> str:
    """Return the name of an environment in errors."""
    return f"environment {number} ({env_id})" if env_id else f"environment {number}"


def id_of(env: gymnasium.Env) -> str:
    """Return an environment's id, or the name of its class."""
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__


class Misfit(UsageError):
    """An observation does not fit its space."""


class Fit:
    """Refuse observations that numpy would convert silently: of another shape, dtype or range than their space.

    Args:
        space: space of one observation.
    """

    def __init__(self, space: spaces.Space) -> None:
        self._only = None if isinstance(space, spaces.Dict) else _PartFit(space)
        self._parts = {key: _PartFit(part, f", part '{key}',") for key, part in parts_of(space).items()}
        # Most observations of a Box have this shape and dtype: the fast path.
        self._shape, self._dtype = (space.shape, space.dtype) if isinstance(space, spaces.Box) else (object(), None)

    def __call__(self, obs: Any, quantity: str = "observation") -> None:
        """Raise a Misfit unless an observation fits; `quantity` is its name in errors."""
        if self._only is not None:
            self._only(obs, quantity)
            return
        shown = parts_of_obs(obs)
        for key, part in self._parts.items():
            if key not in shown:
                raise Misfit(f"{quantity}, part '{key}', is missing")
            part(shown[key], quantity)

    def step(self, obs: Any, done: bool, info: dict[str, Any]) -> None:
        """Raise a Misfit unless the result of `step_same` fits."""
        if done:
            self(info["final_observation"], "final observation")
            self(obs, AFTER_RESET)
        elif getattr(obs, "shape", None) != self._shape or obs.dtype is not self._dtype:
            self(obs)


class _PartFit:
    """Fit for one array.

    Args:
        space: space of the array.
        name: suffix of the observation's name in errors.
    """

    def __init__(self, space: spaces.Space, name: str = "") -> None:
        self._space = space
        self._name = name
        self._shape = space.shape
        self._castable = {space.dtype}
        self._first = self._end = None
        if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
            self._first = space.start
            self._end = space.start + (space.n if isinstance(space, spaces.Discrete) else space.nvec)

    def __call__(self, value: Any, quantity: str) -> None:
        if isinstance(value, WHOLE) and isinstance(self._space, spaces.Discrete):
            within = self._first <= value < self._end
        else:
            if getattr(value, "shape", None) != self._shape or value.dtype not in self._castable:
                value = self._array(value, quantity)
            within = self._first is None or np.all((self._first <= value) & (value < self._end))
        if not within:
            raise Misfit(f"{quantity}{self._name} is {value}: its space is {self._space}")

    def _array(self, value: Any, quantity: str) -> np.ndarray:
        array, space = np.asarray(value), self._space
        if array.shape != space.shape:
            raise Misfit(f"{quantity}{self._name} has shape {array.shape}, its space has shape {space.shape}")
        if not _castable(array.dtype, space.dtype):
            raise Misfit(f"{quantity}{self._name} has dtype {array.dtype}, its space has dtype {space.dtype}")
        self._castable.add(array.dtype)
        return array


def _castable(given: np.dtype, wanted: np.dtype) -> bool:
    integers = "biu"
    return np.can_cast(given, wanted, "same_kind") or (given.kind in integers and wanted.kind in integers)


class NumberChecks:
    """Check that observations and rewards are finite, and that float32 can hold the squares of rewards.

    Args:
        names: the environments' names in errors.
        observations: the current observations.

    Attributes:
        steps: number of steps that each environment has taken.
    """

    def __init__(self, names: Sequence[str], observations: Observations) -> None:
        self._names = names
        self._observations = observations
        self.steps = 0

    def begun(self) -> None:
        """Check the observations after a reset of every environment."""
        if not self._observations.finite():
            raise self._error(AFTER_RESET, self._observations.first_not_finite())

    def final(self, i: int, info: dict[str, Any]) -> None:
        """Check the last observation of environment i's episode; `stepped` follows."""
        for part in parts_of_obs(info["final_observation"]).values():
            array = np.asarray(part)
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                self.steps += 1
                raise self._error("final observation", i)

    def stepped(self, rewards: np.ndarray, dones: Sequence[bool]) -> None:
        """Check the observations and the float64 rewards after a step of every environment."""
        self.steps += 1
        if not rewards.dot(rewards) <= MOST_SQUARED:
            self._check_rewards(rewards)
        if not self._observations.finite():
            i = self._observations.first_not_finite()
            raise self._error(AFTER_RESET if dones[i] else "observation", i)

    def _check_rewards(self, rewards: np.ndarray) -> None:
        for i, reward in enumerate(rewards):
            if not np.isfinite(reward):
                raise self._error("reward", i)
            if abs(reward) > MOST:
                raise NotFiniteError(
                    f"{self._names[i]}: reward {reward:g} at step {self.steps} is not a finite number when squared in "
                    f"float32: at most {MOST:.2g}"
                )

    def _error(self, quantity: str, i: int) -> NotFiniteError:
        return NotFiniteError(f"{self._names[i]}: {quantity} at step {self.steps} is not a finite number")


EXAMINE = "python -m tfbaselines.check_env ID examines an environment"
RESET = "reset must be Gymnasium's, reset(*, seed=None, options=None), and return (obs, info), info being a dict"
STEP = "step must return Gymnasium's five values (obs, reward, terminated, truncated, info)"

PACKAGE = os.path.dirname(tfbaselines.__file__) + os.sep
# Modules that call environments.
CALLERS = ("tfbaselines.", "gymnasium.")


class EnvironmentFault(UsageError):
    """An environment breaks a rule of Gymnasium."""


def why(error: BaseException) -> str:
    """Explain a failure in one line: the rule that the environment broke, or the exception with its file and line."""
    if isinstance(error, EnvironmentFault):
        return str(error)
    return fault_of(error) or f"{type(error).__name__}: {' '.join(str(error).split())}{place(error)}"


def fault_of(error: BaseException) -> str | None:
    """Return the rule of Gymnasium that the environment broke, if an exception shows it."""
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


def check_spaces(env: gymnasium.Env) -> None:
    """Raise an EnvironmentFault unless an environment has spaces of observations and actions."""
    for name in ("observation_space", "action_space"):
        if not isinstance(getattr(env, name, None), spaces.Space):
            text = f"environment {type(env.unwrapped).__name__} has no {name}: give it one of gymnasium.spaces"
            raise EnvironmentFault(f"{text}: {EXAMINE}")


def begin(env: gymnasium.Env, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
    """Reset an environment with `kwargs`; EnvironmentFault if it does not return (obs, info)."""
    try:
        begun = env.reset(**kwargs)
    except (TypeError, ValueError) as error:
        raise_fault(error)
    if not (isinstance(begun, tuple) and len(begun) == 2 and isinstance(begun[1], dict)):
        raise EnvironmentFault(f"{RESET}: {EXAMINE}")
    return begun


def raise_fault(error: Exception) -> NoReturn:
    """Raise the EnvironmentFault that an exception shows, or the exception."""
    fault = fault_of(error)
    if fault is None:
        raise error
    raise EnvironmentFault(fault) from error


def _is_number(reward: Any) -> bool:
    return isinstance(reward, int | float | np.number | np.bool_)


def _last(error: BaseException) -> TracebackType | None:
    """Return the frame that raised an exception."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace


def place(error: BaseException) -> str:
    """Return the file and line that raised an exception; empty for this package's own exceptions."""
    trace = _last(error)
    if trace is None or trace.tb_frame.f_code.co_filename.startswith(PACKAGE):
        return ""
    return f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"
