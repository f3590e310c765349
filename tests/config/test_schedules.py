import pytest

from tfbaselines.config.schedules import LinearSchedule, PiecewiseSchedule, parse_schedule
from tfbaselines.errors import UsageError


@pytest.mark.parametrize(
    ("given", "at_start", "at_half"),
    [
        (3e-4, 3e-4, 3e-4),
        ("3e-4", 3e-4, 3e-4),
        ("linear_3e-4", 3e-4, 1.5e-4),
        ("constant_0.2", 0.2, 0.2),
        ("middle_drop_1", 1.0, 0.075),
        ("double_linear_con_1", 1.0, 0.125),
        (lambda fraction: fraction * 7, 7.0, 3.5),
    ],
)
def test_parse_schedule(given, at_start, at_half):
    schedule = parse_schedule(given)
    assert schedule(1.0) == pytest.approx(at_start)
    assert schedule(0.5) == pytest.approx(at_half)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("linaer_3e-4", "lr='linaer_3e-4' is not valid: unknown schedule 'linaer': did you mean 'linear'?"),
        ("linear_fast", "lr='linear_fast' is not valid"),
        (None, "lr=None is not valid"),
        (True, "lr=True is not valid"),
    ],
)
def test_a_bad_schedule_is_named(given, message):
    with pytest.raises(UsageError, match=r"schedule|valid") as error:
        parse_schedule(given)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_linear_schedule_is_held_at_its_end():
    schedule = LinearSchedule(10, final_p=0.0, initial_p=1.0)
    assert [schedule.value(t) for t in (0, 5, 10, 100)] == [1.0, 0.5, 0.0, 0.0]


def test_piecewise_schedule_outside_its_points():
    with pytest.raises(UsageError, match="outside"):
        PiecewiseSchedule([(0, 1.0), (10, 0.0)]).value(10)
    assert PiecewiseSchedule([(0, 1.0), (10, 0.0)], outside_value=0.5).value(10) == 0.5
    with pytest.raises(UsageError, match="ascending order"):
        PiecewiseSchedule([(10, 1.0), (0, 0.0)])
