import math
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each

from tfbaselines.config.argument import Argument, Bounds, kinds_of, shown
from tfbaselines.config.config import NetworkSpec, Schedule
from tfbaselines.errors import UsageError

SIDES = st.none() | st.floats(-5, 5)


def argument(annotation, default=None, **more):
    return Argument("x", kinds_of(annotation), default, "what x does", **more)


@for_each(
    ("annotation", "kinds", "settable"),
    [
        (int, ("int",), True),
        (float | None, ("float", "None"), True),
        (bool | str, ("bool", "str"), True),
        (Schedule, ("schedule",), True),
        (Schedule | None, ("schedule", "None"), True),
        (NetworkSpec | None, ("str", "function", "None"), True),
        (Sequence[tuple[int, int]], ("list",), True),
        (tuple[float, float] | None, ("list", "None"), True),
        (list, ("list",), True),
        (Callable[[int], None] | None, ("function", "None"), False),
        (dict[str, Any] | None, ("object", "None"), False),
        (Any, ("object",), False),
    ],
)
def test_kinds_of_annotations(annotation, kinds, settable):
    assert kinds_of(annotation) == kinds
    assert argument(annotation).settable is settable


@for_each(
    ("annotation", "value", "kept"),
    [
        (int, 1e6, 1_000_000),
        (int, np.int64(3), 3),
        (int | None, None, None),
        (float, 3, 3),
        (float, np.float32(0.5), 0.5),
        (float, math.inf, math.inf),
        (bool, np.bool_(True), True),
        (str, "a", "a"),
        (str | Callable, len, len),
        (Sequence[int], (1, 2), (1, 2)),
        (Schedule, 1e-3, 1e-3),
        (Schedule, np.float64(1e-3), 1e-3),
        (Schedule, "linear_1e-3", "linear_1e-3"),
        (Schedule, abs, abs),
        (Schedule | None, None, None),
        (Any, "anything", "anything"),
        (dict | None, {"a": 1}, {"a": 1}),
    ],
)
def test_values_in_the_arguments_type(annotation, value, kept):
    found = argument(annotation).checked(value)
    assert found == kept and type(found) is type(kept)


@for_each(
    ("annotation", "value", "accepted"),
    [
        (int, 1.5, "a whole number"),
        (int, math.inf, "a whole number"),
        (int, math.nan, "a whole number"),
        (int, True, "a whole number"),
        (int | None, "3", "a whole number or None"),
        (float, None, "a number"),
        (float, math.nan, "a number"),
        (float, False, "a number"),
        (bool, 1, "True or False"),
        (bool, None, "True or False"),
        (str, 3, "text"),
        (Callable | None, "print", "a function or None"),
        (NetworkSpec | None, 3, "text or a function or None"),
        (Sequence[int], 3, "a list"),
        (Schedule, "linear_inf", "a finite number"),
        (Schedule, math.nan, "a finite number"),
        (Schedule, str, "a finite number"),
        (Schedule, None, "a number, a function of the fraction of training left, or such as linear_3e-4"),
        (Schedule, True, "a number, a function of the fraction of training left, or such as linear_3e-4"),
    ],
)
def test_values_of_another_type_are_refused(annotation, value, accepted):
    with pytest.raises(UsageError) as caught:
        argument(annotation).checked(value)
    assert str(caught.value) == f"x={value!r} is not valid: {accepted}"


@given(SIDES, SIDES, SIDES, st.floats() | st.integers(-6, 6))
def test_numbers_are_within_their_bounds_or_refused(at_least, above, at_most, value):
    bounds = Bounds(at_least, above, at_most)
    low = (at_least is None or value >= at_least) and (above is None or value > above)
    within = low and (at_most is None or value <= at_most) and not math.isnan(value)
    assert bounds.hold(value) is within
    for annotation in (float, Schedule):
        if annotation is Schedule and not math.isfinite(value):
            continue
        if within:
            assert argument(annotation, bounds=bounds).checked(value) == value
        else:
            with pytest.raises(UsageError) as caught:
                argument(annotation, bounds=bounds).checked(value)
            assert str(caught.value) == f"x={value!r} is not valid: {bounds}"


@for_each(
    ("bounds", "words"),
    [
        (Bounds(), "a number"),
        (Bounds(at_least=0), "at least 0"),
        (Bounds(above=0), "above 0"),
        (Bounds(above=0, at_most=1), "above 0 and at most 1"),
        (Bounds(at_least=0, at_most=1), "between 0 and 1"),
    ],
)
def test_bounds_in_words(bounds, words):
    assert str(bounds) == words


def test_a_schedules_bound_is_that_of_its_start():
    rate = argument(Schedule, bounds=Bounds(at_least=0))
    assert rate.checked("linear_0") == "linear_0"
    for value in (-1e-3, "linear_-1e-3", lambda fraction_left: -fraction_left):
        with pytest.raises(UsageError, match=r"x=.* is not valid: at least 0"):
            rate.checked(value)


def test_choices():
    shape = argument(str | Callable, choices=("constant", "linear"))
    assert shape.checked("linear") == "linear" and shape.checked(len) is len
    with pytest.raises(UsageError, match="unknown x 'linaer': did you mean 'linear'"):
        shape.checked("linaer")


@for_each(
    ("one", "notes"),
    [
        (argument(int, 3, bounds=Bounds(at_least=1)), "int, at least 1; default 3"),
        (argument(float | None, 0.5), "float or None; default 0.5"),
        (argument(float | None), "float or None"),
        (argument(str | Callable, "a"), "str or function; default a"),
        (argument(str | Callable, "a", choices=("a", "b")), "one of a, b or function; default a"),
        (argument(bool | str, True, choices=("a", "True", "False")), "one of a, True, False; default True"),
        (argument(NetworkSpec | None), "str, function or None"),
        (argument(Any), "default None"),
        (argument(Schedule, 1e-5), "schedule; default 1e-5"),
    ],
)
def test_notes(one, notes):
    assert one.notes() == notes
    assert one.notes({"atari": 1e6, "mujoco": None}) == f"{notes}; atari: 1e6; mujoco: None"


def test_functions_are_for_python_alone():
    assert argument(NetworkSpec | None).notes(from_python=False) == "str or None"


@for_each(
    ("value", "text"), [(80e6, "8e7"), (1e-5, "1e-5"), (2.5e-4, "0.00025"), (10.0, "10"), (20, "20"), (None, "None")]
)
def test_defaults_as_a_user_types_them(value, text):
    assert shown(value) == text
    if not isinstance(value, types.NoneType):
        assert float(text) == value
