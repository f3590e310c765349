"""Schedules: values that change while training goes on.

Two kinds, as in the originals. A *fraction schedule* (lr and cliprange of ppo2, lr of a2c) is a function of the
fraction of training that is left, from 1 down to 0. A *step schedule* (exploration and replay exponents of deepq)
has ``value(t)`` for a step count t.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tfbaselines.errors import bad_argument, unknown

FractionSchedule = Callable[[float], float]


def constant(_fraction_left: float) -> float:
    """The value stays as it is."""
    return 1.0


def linear(fraction_left: float) -> float:
    """The value goes down to zero in a straight line."""
    return fraction_left


def middle_drop(fraction_left: float) -> float:
    """Down in a straight line; held at 0.075 below three quarters left."""
    return fraction_left if fraction_left >= 0.75 else 0.075


def double_linear_con(fraction_left: float) -> float:
    """Twice as steep as linear, then held at an eighth."""
    return max(fraction_left * 2 - 1, 0.125)


def double_middle_drop(fraction_left: float) -> float:
    """Down in a straight line; held at 0.075 below three quarters left, and at 0.125 below one quarter."""
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
    """`value` times a shape: the name of one of FRACTION_SCHEDULES, or a function of the fraction of training left."""
    if not callable(shape) and shape not in FRACTION_SCHEDULES:
        raise unknown("schedule", shape, FRACTION_SCHEDULES)
    function = shape if callable(shape) else FRACTION_SCHEDULES[shape]
    return lambda fraction_left: value * function(fraction_left)


def parse_schedule(
    value: float | str | FractionSchedule, name: str = "lr", shape: str | FractionSchedule = "constant"
) -> FractionSchedule:
    """Turn what a user may give for a rate into a function of the fraction of training left.

    Args:
        value: a number, a function of the fraction left, or text: a number or ``SHAPE_NUMBER`` such as
            ``linear_3e-4``.
        name: the argument's name, for the error.
        shape: of a value that is a plain number; see `fraction_schedule`.
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
    """Whether a value is a function, or text that begins with the name of a shape."""
    return callable(value) or (isinstance(value, str) and value.rpartition("_")[0] in FRACTION_SCHEDULES)


class ConstantSchedule:
    """value(t) is the same for every t."""

    def __init__(self, value: float) -> None:
        self._value = value

    def value(self, t: float) -> float:
        """The value at step t."""
        return self._value


def linear_interpolation(left: float, right: float, alpha: float) -> float:
    """The point `alpha` of the way from left to right."""
    return left + alpha * (right - left)


class PiecewiseSchedule:
    """Straight lines between given points.

    Args:
        endpoints: (step, value) pairs with growing steps.
        interpolation: value between two points from (left value, right value, how far between: 0 to 1).
        outside_value: the value before the first and after the last point.
    """

    def __init__(
        self,
        endpoints: Sequence[tuple[float, float]],
        interpolation: Callable[[float, float, float], float] = linear_interpolation,
        outside_value: float | None = None,
    ) -> None:
        steps = [step for step, _ in endpoints]
        if steps != sorted(steps):
            raise bad_argument("endpoints", endpoints, "the steps must grow")
        self._endpoints = list(endpoints)
        self._interpolation = interpolation
        self._outside_value = outside_value

    def value(self, t: float) -> float:
        """The value at step t; outside the points a ValueError unless outside_value was given."""
        for (left_t, left), (right_t, right) in zip(self._endpoints, self._endpoints[1:], strict=False):
            if left_t <= t < right_t:
                return self._interpolation(left, right, (t - left_t) / (right_t - left_t))
        if self._outside_value is None:
            raise bad_argument("t", t, "outside the schedule's points and no outside_value was given")
        return self._outside_value


class LinearSchedule:
    """From initial_p in a straight line to final_p over schedule_timesteps, then held.

    Args:
        schedule_timesteps: how many steps the line takes.
        final_p: the value at its end.
        initial_p: the value at t = 0.
    """

    def __init__(self, schedule_timesteps: int, final_p: float, initial_p: float = 1.0) -> None:
        self.schedule_timesteps = schedule_timesteps
        self.final_p = final_p
        self.initial_p = initial_p

    def value(self, t: float) -> float:
        """The value at step t."""
        done = min(float(t) / self.schedule_timesteps, 1.0)
        return self.initial_p + done * (self.final_p - self.initial_p)
