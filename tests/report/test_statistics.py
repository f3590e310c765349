"""Statistics against rliable 1.2.0, whose numbers rliable_golden.py stored, and against their definitions."""

from pathlib import Path

import numpy as np
import pytest

from tfbaselines.report import statistics

GOLDEN = np.load(Path(__file__).with_name("rliable.npz"))
NAMES = ("gamma", "ties", "one", "even")


def estimates(statistic, *scores):
    """The statistic and its interval in rows, as the file has them."""
    point = statistic(*(matrix[None] for matrix in scores))[0]
    low, high = statistics.interval(statistic, *scores, resamples=int(GOLDEN["resamples"]))
    return np.array([point, low, high]).reshape(3, -1)


# With little memory at once, resamples are computed in several parts.
@pytest.mark.parametrize("chunk", [statistics.CHUNK, 2**14])
@pytest.mark.parametrize("name", NAMES)
def test_statistics_and_their_intervals_are_those_of_rliable(name, chunk, monkeypatch):
    monkeypatch.setattr(statistics, "CHUNK", chunk)
    first, second, taus = (GOLDEN[f"{name}.{part}"] for part in ("first", "second", "taus"))
    found = {
        "iqm": estimates(statistics.interquartile_mean, first),
        "mean": estimates(statistics.mean, first),
        "median": estimates(statistics.median, first),
        "gap": estimates(lambda scores: statistics.optimality_gap(scores, 2.0), first),
        "profile": estimates(lambda scores: statistics.profile(scores, taus), first),
        "improvement": estimates(statistics.probability_of_improvement, first, second),
    }
    for statistic, rows in found.items():
        np.testing.assert_allclose(rows, GOLDEN[f"{name}.{statistic}"], rtol=0, atol=1e-6, err_msg=statistic)


def test_a_band_is_the_interval_at_each_point_of_the_seeds_that_have_begun():
    curves = np.array([[1.0, 2.0, 3.0], [np.nan, 4.0, 1.0], [np.nan, np.nan, 5.0], [np.nan] * 3])
    line, low, high = statistics.band(curves, resamples=200)
    assert line.tolist() == [1.0, 3.0, 3.0] and (low[0], high[0]) == (1.0, 1.0)
    pointwise = statistics.interval(statistics.interquartile_mean, curves[:3, 2:], resamples=200)
    assert (low[2], high[2]) == pytest.approx(pointwise) and low[1] == 2.0 and high[1] == 4.0
    empty, _, _ = statistics.band(np.full((2, 3), np.nan))
    assert np.isnan(empty).all()


def test_the_test_tells_apart_what_more_runs_would_and_three_runs_cannot():
    apart = lambda count: (np.arange(10.0, 10 + count)[:, None], np.arange(float(count))[:, None])
    assert statistics.p_value(*apart(3)) == pytest.approx(0.1, abs=0.01)
    assert statistics.p_value(*apart(4)) == pytest.approx(2 / 70, abs=0.006)
    same = np.full((9, 2), 500.0)
    assert statistics.p_value(same, same) == 1.0
    # Strata: a task where all runs are better does not stand for another.
    first, second = np.array([[9.0, 1.0], [8.0, 2.0]]), np.array([[1.0, 8.0], [2.0, 9.0]])
    assert statistics.p_value(first, second) == 1.0
    # Under equal configurations, few of many tests are below the level.
    rng = np.random.default_rng(0)
    below = [statistics.p_value(*rng.normal(size=(2, 5, 1))) < statistics.ALPHA for _ in range(100)]
    assert np.mean(below) < 0.1


def test_as_many_seeds_as_estimated_find_the_difference_four_times_in_five():
    assert [statistics.seeds_needed(p) for p in (1.0, 8 / 9, 2 / 3, 1 / 9)] == [6, 9, 48, 9]
    assert statistics.seeds_needed(0.5) is None
    rng = np.random.default_rng(0)
    shift = 1.2
    probability = statistics.probability_of_improvement(rng.normal(shift, 1, (1000, 1)), rng.normal(size=(1000, 1)))
    for tasks in (1, 2):
        count = statistics.seeds_needed(float(probability), tasks)
        draws = [(rng.normal(shift, 1, (count, tasks)), rng.normal(size=(count, tasks))) for _ in range(100)]
        found = np.mean([statistics.p_value(*draw) < statistics.ALPHA for draw in draws])
        assert found == pytest.approx(statistics.POWER, abs=0.1), (count, tasks)
