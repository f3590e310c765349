"""Schedules: values that change during training.

There are two kinds, as in the originals. A *fraction schedule* (lr and cliprange of ppo2, lr of a2c) is a function of
the fraction of training that is left, from 1 down to 0. A *step schedule* (exploration and replay exponents of deepq)
has ``value(t)`` for a step count t.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tfbaselines.errors import bad_argument, unknown

FractionSchedule = Callable[[float], float]


def constant(_fraction_left: float) -> float:
    """Keep the value."""
    return 1.0


def linear(fraction_left: float) -> float:
    """Decay linearly to zero."""
    return fraction_left


def middle_drop(fraction_left: float) -> float:
    """Decay linearly, then hold 0.075 once less than three quarters of training are left."""
    return fraction_left if fraction_left >= 0.75 else 0.075


def double_linear_con(fraction_left: float) -> float:
    """Decay linearly at twice the rate, then hold 0.125."""
    return max(fraction_left * 2 - 1, 0.125)


def double_middle_drop(fraction_left: float) -> float:
    """Decay linearly, hold 0.075 below three quarters of training left, and 0.125 below one quarter."""
    if fraction_left >= 0.75:
        return fraction_left
    return 0.075 if fraction_left >= 0.25 else 0.125


FRACTION_SCHEDULES: dict[str, FractionSchedule] = {
    "constant": constant,
    "linear": linear,
    "middle_drop": middle_drop,
    "double_linear_con": double_linear_con,
    "double_middle_drop": double_middle_drop,
}


def fraction_schedule(shape: str | FractionSchedule, value: float) -> FractionSchedule:
    """Multiply `value` by a shape: a name in FRACTION_SCHEDULES, or a function of the fraction of training left."""
    if not callable(shape) and shape not in FRACTION_SCHEDULES:
        raise unknown("schedule", shape, FRACTION_SCHEDULES)
    function = shape if callable(shape) else FRACTION_SCHEDULES[shape]
    return lambda fraction_left: value * function(fraction_left)


def parse_schedule(
    value: float | str | FractionSchedule, name: str = "lr", shape: str | FractionSchedule = "constant"
) -> FractionSchedule:
    """Parse a rate into a function of the fraction of training left.

    Args:
        value: a number, a function of the fraction left, or text: a number or ``SHAPE_NUMBER`` such as
            ``linear_3e-4``.
        name: name of the argument, for the error.
        shape: shape of a value that is a plain number; see `fraction_schedule`.
    """
    if callable(value):
        return value
    if isinstance(value, str):
        own_shape, _, number = value.rpartition("_")
        try:
            initial = float(number)
        except ValueError:
            raise bad_argument(name, value, "a number or SHAPE_NUMBER such as linear_3e-4") from None
        try:
            return fraction_schedule(own_shape or shape, initial)
        except ValueError as error:
            raise bad_argument(name, value, str(error)) from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise bad_argument(name, value, "a number, a function of the fraction of training left, or such as linear_3e-4")
    return fraction_schedule(shape, float(value))


def is_schedule(value: Any) -> bool:
    """Return True if a value is a function, or text that begins with the name of a shape."""
    return callable(value) or (isinstance(value, str) and value.rpartition("_")[0] in FRACTION_SCHEDULES)


class ConstantSchedule:
    """A constant value."""

    def __init__(self, value: float) -> None:
        self._value = value

    def value(self, t: float) -> float:
        """Return the value at step t."""
        return self._value


def linear_interpolation(left: float, right: float, alpha: float) -> float:
    """Interpolate between left (alpha = 0) and right (alpha = 1)."""
    return left + alpha * (right - left)


class PiecewiseSchedule:
    """Linear interpolation between points.

    Args:
        endpoints: (step, value) pairs in ascending order of steps.
        interpolation: function (left value, right value, fraction between them) to a value.
        outside_value: value before the first and after the last point; None raises an error there.
    """

    def __init__(
        self,
        endpoints: Sequence[tuple[float, float]],
        interpolation: Callable[[float, float, float], float] = linear_interpolation,
        outside_value: float | None = None,
    ) -> None:
        steps = [step for step, _ in endpoints]
        if steps != sorted(steps):
            raise bad_argument("endpoints", endpoints, "pairs in ascending order of steps")
        self._endpoints = list(endpoints)
        self._interpolation = interpolation
        self._outside_value = outside_value

    def value(self, t: float) -> float:
        """Return the value at step t."""
        for (left_t, left), (right_t, right) in zip(self._endpoints, self._endpoints[1:], strict=False):
            if left_t <= t < right_t:
                return self._interpolation(left, right, (t - left_t) / (right_t - left_t))
        if self._outside_value is None:
            raise bad_argument("t", t, "a step within the schedule's points, or give outside_value")
        return self._outside_value


class LinearSchedule:
    """Linear change from initial_p to final_p over schedule_timesteps, then constant.

    Args:
        schedule_timesteps: number of steps of the change.
        final_p: value from then on.
        initial_p: value at t = 0.
    """

    def __init__(self, schedule_timesteps: int, final_p: float, initial_p: float = 1.0) -> None:
        self.schedule_timesteps = schedule_timesteps
        self.final_p = final_p
        self.initial_p = initial_p

    def value(self, t: float) -> float:
        """Return the value at step t."""
        done = min(float(t) / self.schedule_timesteps, 1.0)
        return self.initial_p + done * (self.final_p - self.initial_p)
