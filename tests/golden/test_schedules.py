"""Step schedules against the original's numbers."""

import numpy as np
import pytest
from cases import cases, load

from tfbaselines.settings.schedules import ConstantSchedule, LinearSchedule, PiecewiseSchedule


@pytest.mark.parametrize("case", cases("schedules"))
def test_schedules(case):
    arrays, hyper = load(case)
    steps = arrays["t"].tolist()
    checked = 0
    for name, options in hyper.items():
        maker = PiecewiseSchedule if "endpoints" in options else LinearSchedule
        schedule = maker(**options)
        np.testing.assert_allclose([schedule.value(t) for t in steps], arrays[name], rtol=1e-6, err_msg=name)
        checked += 1
    assert checked
    constant = ConstantSchedule(float(arrays["constant"][0]))
    np.testing.assert_allclose([constant.value(t) for t in steps], arrays["constant"], rtol=1e-6)
