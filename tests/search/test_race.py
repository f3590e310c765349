"""The test between trials, and the judgement."""

import pytest

from tfbaselines.search.judge import Judged, verdict
from tfbaselines.search.race import surely_worse, tail


def test_students_distribution():
    """Tabulated quantiles: (t, degrees of freedom, probability)."""
    table = [(6.314, 1, 0.05), (2.920, 2, 0.05), (2.353, 3, 0.05), (2.132, 4, 0.05), (2.015, 5, 0.05)]
    table += [(3.143, 6, 0.01), (2.718, 11, 0.01), (1.660, 100, 0.05), (0.0, 7, 0.5)]
    for t, freedom, probability in table:
        assert tail(t, freedom) == pytest.approx(probability, rel=1e-3)


def test_a_trial_that_is_surely_worse_ends():
    # A standard deviation of 10 with 4 degrees of freedom: t(0.95) = 2.132.
    finished = [[190.0, 200.0, 210.0], [90.0, 100.0, 110.0]]
    best = finished[0]
    bound = 200 - 2.132 * 10 * (1 + 1 / 3) ** 0.5
    assert surely_worse([bound - 0.1], best, finished) and not surely_worse([bound + 0.1], best, finished)
    # Two seeds prove more.
    assert surely_worse([bound + 2.0] * 2, best, finished)
    assert not surely_worse([205.0], best, finished)
    # One finished trial of two seeds has one degree of freedom.
    assert not surely_worse([0.0], [200.0, 201.0], [[200.0, 201.0]])
    assert surely_worse([499.0], [500.0] * 3, [[500.0] * 3]) and not surely_worse([500.0], [500.0] * 3, [[500.0] * 3])


def test_the_verdict_says_what_the_seeds_prove():
    def said(best, defaults):
        return verdict(Judged(list(range(len(best))), best, defaults, 100, "too short"))

    # Welch's t = 9.8 with 2 degrees of freedom.
    assert "better than the defaults by 90 (Welch's test: p = 0.00" in said(
        [200.0, 210.0, 190.0], [110.0, 120.0, 100.0]
    )
    assert "2 seeds cannot tell them from the defaults" in said([200.0, 100.0], [140.0, 100.0])
    assert said([1.0, 2.0], [1.0, 3.0]) == "The search has found nothing better than the defaults."
    assert said([1.0], []) == "The defaults cannot be run: too short."
    assert "on one seed, which proves nothing" in said([2.0], [1.0])
    assert said([2.0, 2.0], [1.0, 1.0]) == "The best arguments are 1 better than the defaults on every seed."
