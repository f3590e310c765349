"""Step schedules against the original's numbers."""

import pytest
from cases import cases, load
from weights import assert_close

from tfbaselines.config.schedules import ConstantSchedule, LinearSchedule, PiecewiseSchedule


@pytest.mark.parametrize("case", cases("schedules"))
def test_schedules(case):
    arrays, hyper = load(case)
    steps = arrays["t"].tolist()
    checked = 0
    for name, options in hyper.items():
        maker = PiecewiseSchedule if "endpoints" in options else LinearSchedule
        schedule = maker(**options)
        assert_close([schedule.value(t) for t in steps], arrays[name], name, tolerance=1e-12)
        checked += 1
    assert checked
    constant = ConstantSchedule(float(arrays["constant"][0]))
    assert_close([constant.value(t) for t in steps], arrays["constant"], tolerance=1e-12)
