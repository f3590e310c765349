"""Write tests/report/rliable.npz: rliable's statistics of random scores, and of scores of this package.

rliable 1.2.0 is not needed for the tests. To write the file again, in an environment that has it:

    pip install rliable==1.2.0 "pandas<3"
    python tests/report/rliable_golden.py
"""

from pathlib import Path

import numpy as np
from rliable import library, metrics

RESAMPLES = 300
OUT = Path(__file__).with_name("rliable.npz")


def examples():
    """Scores by name, [runs, tasks]: random ones, some of them equal, and a single task."""
    rng = np.random.default_rng(0)
    first = rng.gamma(2.0, 0.5, (5, 7))
    second = rng.gamma(2.0, 0.6, (8, 7)).round(1)
    ties = rng.integers(0, 4, (6, 3)).astype(float)
    more = rng.integers(0, 4, (3, 3)).astype(float)
    one = np.array([[475.0], [500.0], [500.0], [312.5], [9.3]])
    other = np.array([[500.0], [500.0], [421.0]])
    even = rng.normal(0, 1, (2, 4, 2)).round(1)
    return {"gamma": (first, second), "ties": (ties, more), "one": (one, other), "even": tuple(even)}


def as_array(statistic):
    """The statistic with its result in an array, as rliable takes it."""
    return lambda *scores: np.array([statistic(*scores)])


def estimates(scores, function):
    """The interval of a statistic; rliable draws from numpy's global generator."""
    np.random.seed(0)
    points, intervals = library.get_interval_estimates({"x": scores}, function, reps=RESAMPLES)
    return np.concatenate([np.atleast_2d(points["x"]), intervals["x"]])


def main():
    arrays = {}
    for name, (first, second) in examples().items():
        arrays |= {f"{name}.first": first, f"{name}.second": second}
        aggregates = {
            "iqm": metrics.aggregate_iqm,
            "mean": metrics.aggregate_mean,
            "median": metrics.aggregate_median,
            "gap": lambda scores: metrics.aggregate_optimality_gap(scores, gamma=2.0),
        }
        for statistic, function in aggregates.items():
            arrays[f"{name}.{statistic}"] = estimates(first, as_array(function))
        taus = np.linspace(0, first.max(), 11)
        np.random.seed(0)
        points, intervals = library.create_performance_profile({"x": first}, taus, reps=RESAMPLES)
        arrays[f"{name}.taus"] = taus
        arrays[f"{name}.profile"] = np.concatenate([points["x"][None], intervals["x"]])
        arrays[f"{name}.improvement"] = estimates([first, second], as_array(metrics.probability_of_improvement))
    np.savez(OUT, resamples=RESAMPLES, **arrays)


if __name__ == "__main__":
    main()
