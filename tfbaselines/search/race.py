"""The race between trials: a trial gets no further seeds if its first ones are surely worse than the best trial's.

The test is Student's, one-sided, with the variance between seeds pooled over all finished trials of two seeds and more:

    t = (mean(best) - mean(trial)) / (s * sqrt(1 / n(best) + 1 / n(trial)))

with as many degrees of freedom as the pooled variance has. A trial ends if the probability of such a t is below LEVEL.
Nothing in it is random.
"""

import math
from collections.abc import Sequence
from statistics import fmean, variance

LEVEL = 0.05
# Degrees of freedom of the pooled variance before which no trial ends.
FEWEST = 2


def surely_worse(scores: Sequence[float], best: Sequence[float], finished: Sequence[Sequence[float]]) -> bool:
    """Return True if a trial is surely worse than the best one.

    Args:
        scores: scores of the trial's seeds so far.
        best: scores of the best finished trial's seeds.
        finished: scores of each finished trial, one a seed.
    """
    freedom = sum(len(one) - 1 for one in finished)
    gap = fmean(best) - fmean(scores)
    if freedom < FEWEST or gap <= 0:
        return False
    pooled = sum(variance(one) * (len(one) - 1) for one in finished if len(one) > 1) / freedom
    if pooled == 0:
        return True
    return tail(gap / math.sqrt(pooled * (1 / len(best) + 1 / len(scores))), freedom) < LEVEL


def tail(t: float, freedom: int) -> float:
    """Compute the probability that Student's t with whole degrees of freedom exceeds `t`, for t >= 0.

    The finite sums of Abramowitz and Stegun, 26.7.3 and 26.7.4.
    """
    angle = math.atan(t / math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = freedom % 2 == 1
    term = total = cosine if odd else 1.0
    for k in range(2, freedom - 1 - odd, 2):
        term *= cosine**2 * (k / (k + 1) if odd else (k - 1) / k)
        total += term
    inside = 2 / math.pi * (angle + (sine * total if freedom > 1 else 0.0)) if odd else sine * total
    return (1 - inside) / 2
