"""Statistics of a few runs, in numpy: interquartile means, stratified bootstrap, profiles, probability of improvement.

They follow Agarwal et al., "Deep reinforcement learning at the edge of the statistical precipice" (2021), and
equal the numbers of their package rliable. Scores are matrices [runs, tasks]; a task is an environment. Leading axes
are resamples, [..., runs, tasks].
"""

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

import numpy as np

LEVEL = 0.95
RESAMPLES = 2000
PERMUTATIONS = 10_000
# Significance level of the test between two configurations, and power for which the number of seeds is estimated.
ALPHA, POWER = 0.05, 0.8
# Numbers in memory at once, and the most that a statistic computes for each of its scores.
CHUNK, POINTS = 2**22, 100


def interquartile_mean(scores: np.ndarray) -> np.ndarray:
    """Compute the mean without the lowest and the highest quarter of all runs of all tasks: [..., R, K] -> [...]."""
    return interquartile_mean_of(_flat(scores))


def interquartile_mean_of(values: np.ndarray) -> np.ndarray:
    """Compute the mean without the lowest and the highest quarter of the last axis."""
    count = values.shape[-1]
    cut = count // 4
    return np.sort(values, axis=-1)[..., cut : count - cut].mean(axis=-1)


def mean(scores: np.ndarray) -> np.ndarray:
    """Compute the mean over tasks of the means over runs: [..., R, K] -> [...]."""
    return scores.mean(axis=(-2, -1))


def median(scores: np.ndarray) -> np.ndarray:
    """Compute the median over tasks of the means over runs: [..., R, K] -> [...]."""
    return np.median(scores.mean(axis=-2), axis=-1)


def optimality_gap(scores: np.ndarray, target: float = 1.0) -> np.ndarray:
    """Compute how far runs are below the target on average; a score above it counts as the target."""
    return target - np.minimum(scores, target).mean(axis=(-2, -1))


def profile(scores: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Compute the share of runs above each of [N] thresholds: [..., R, K] -> [..., N]."""
    flat = _flat(scores)
    return (flat[..., None, :] > thresholds[:, None]).mean(axis=-1)


def probability_of_improvement(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Compute the probability that a run of the first is better than one of the second, the mean over tasks.

    This is the Mann-Whitney statistic over the number of pairs; equal scores count half.

    Args:
        first: scores [..., R, K].
        second: scores [..., S, K]; the number of runs may differ.
    """
    pairs = first[..., :, None, :], second[..., None, :, :]
    better = np.greater(*pairs) + 0.5 * np.equal(*pairs)
    return better.mean(axis=(-3, -2, -1))


def interval(
    statistic: Callable[..., np.ndarray],
    *scores: np.ndarray,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the stratified bootstrap interval of a statistic: percentiles over resamples of each task's runs.

    With fewer than about five runs the interval is too narrow: few runs rarely show how bad a run can be.

    Args:
        statistic: function of resampled scores, [..., R, K] each, to [...] or [..., N].
        scores: matrices [R, K]; each is resampled for itself.
        resamples: number of resamples.
        level: probability of the interval.
        seed: seed of the generator; equal seeds give equal intervals.

    Returns:
        (low, high), with the shape of one result of the statistic.
    """
    rows = _resampled(scores, resamples, np.random.RandomState(seed))
    step = max(1, CHUNK // (POINTS * math.prod(map(len, scores)) * scores[0].shape[1]))
    outcomes = []
    for at in range(0, resamples, step):
        pairs = zip(scores, rows, strict=True)
        outcomes.append(statistic(*(np.take_along_axis(matrix[None], own[at : at + step], 1) for matrix, own in pairs)))
    low, high = np.percentile(np.concatenate(outcomes), [50 * (1 - level), 50 * (1 + level)], axis=0)
    return low, high


def _resampled(scores: Sequence[np.ndarray], count: int, rng: np.random.RandomState) -> list[np.ndarray]:
    """Draw rows for each of some matrices, [count, R, K] each; the draws of a resample follow one another."""
    if len({matrix.shape for matrix in scores}) == 1:
        rows = rng.choice(len(scores[0]), (count, len(scores), *scores[0].shape))
        return [rows[:, place] for place in range(len(scores))]
    drawn = [[rng.choice(len(matrix), matrix.shape) for matrix in scores] for _ in range(count)]
    return [np.stack(own) for own in zip(*drawn, strict=True)]


def band(curves: np.ndarray, resamples: int = 500, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute the interquartile mean over seeds at each point of a curve, and its bootstrap interval.

    Args:
        curves: values [S, N]; NaN where a run has not begun.

    Returns:
        (line, low, high), [N] each.
    """
    line, low, high = (np.full(curves.shape[1], np.nan) for _ in range(3))
    begun = ~np.isnan(curves)
    for pattern in np.unique(begun, axis=1).T:
        points = (begun == pattern[:, None]).all(axis=0)
        own = curves[pattern][:, points]
        if not len(own):
            continue
        line[points] = interquartile_mean_of(own.T)
        rows = np.random.RandomState(seed).choice(len(own), (resamples, len(own)))
        step = max(1, CHUNK // rows.size)
        parts = [own[:, at : at + step].T[:, rows] for at in range(0, own.shape[1], step)]
        ends = [np.percentile(interquartile_mean_of(part), [2.5, 97.5], axis=1) for part in parts]
        low[points], high[points] = np.concatenate(ends, axis=1)
    return line, low, high


def p_value(first: np.ndarray, second: np.ndarray, seed: int = 0) -> float:
    """Compute the p-value of the difference between two configurations.

    A permutation test of `probability_of_improvement`: within each task the runs are dealt to the two sides at random.
    Three runs a side cannot get below 0.1, four not below 0.03.

    Args:
        first, second: scores [R, K] and [S, K].
        seed: seed of the generator; equal seeds give equal results.
    """
    count = len(first)
    both = np.concatenate([first, second]).T
    ranks = np.array([_midranks(task) for task in both])
    middle = count * (both.shape[1] + 1) / 2
    seen = abs((ranks[:, :count].sum(axis=1) - middle).sum())
    rng = np.random.default_rng(seed)
    sums = np.zeros(PERMUTATIONS)
    for task in ranks:
        dealt = rng.permuted(np.broadcast_to(task, (PERMUTATIONS, len(task))), axis=1)
        sums += dealt[:, :count].sum(axis=1) - middle
    # Midranks are halves, so that equal sums are equal.
    return float((1 + (np.abs(sums) >= seen).sum()) / (1 + PERMUTATIONS))


def seeds_needed(probability: float, tasks: int = 1, alpha: float = ALPHA, power: float = POWER) -> int | None:
    """Estimate the seeds of each configuration that make their difference significant; None if they do not differ.

    Noether's formula for the Mann-Whitney test (1987): with as many runs on both sides, a two-sided test at level
    `alpha` finds a probability of improvement of p with probability `power` from

        n = (z(1 - alpha / 2) + z(power))^2 / (6 K (p - 1/2)^2)

    runs a side on each of K tasks, where z is the quantile of the normal distribution: the mean over independent tasks
    has a K-th of the variance. On one task, for p = 1 these are 6 runs, for p = 8/9 they are 9,
    for p = 2/3 they are 48. The p of few runs is rough, and so is this number: it holds if the difference is as large
    as it seems. No random number is drawn.
    """
    distance = abs(probability - 0.5)
    if distance == 0:
        return None
    quantile = NormalDist().inv_cdf
    exact = (quantile(1 - alpha / 2) + quantile(power)) ** 2 / (6 * tasks * distance**2)
    return math.ceil(exact)


def _flat(scores: np.ndarray) -> np.ndarray:
    """Join runs and tasks: [..., R, K] -> [..., R K]."""
    return scores.reshape(*scores.shape[:-2], -1)


def _midranks(values: np.ndarray) -> np.ndarray:
    """Rank values from 1; equal values share the mean of their ranks."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[place]
