"""The search of evolution strategies as pure functions: members' noise from seeds, shaped returns, and the ascent.

A member's noise is a function of the iteration's seed and the member's number: ranks that know both rebuild it, so that
they exchange nothing but returns. Of mirrored members, 2 i and 2 i + 1 have the same noise with opposite signs.
"""

import numpy as np

# Returns that differ by less, relative to their deviation from 0, are equal.
SMALLEST_DEVIATION = 1e-6


def noise(seed: int, member: int, size: int, mirrored: bool) -> np.ndarray:
    """A member's direction: standard normal numbers [size].

    Args:
        seed: the iteration's.
        member: its number.
        size: of the parameters.
        mirrored: see the module.
    """
    number, sign = (member // 2, 1 - 2 * (member % 2)) if mirrored else (member, 1)
    drawn = np.random.default_rng([seed, number]).standard_normal(size, np.float32)
    return drawn if sign > 0 else -drawn


def standardised(returns: np.ndarray) -> np.ndarray:
    """Returns [M] with mean 0 and deviation 1; zeros where they are equal."""
    centred = returns - returns.mean()
    deviation = centred.std()
    if deviation <= SMALLEST_DEVIATION:
        return np.zeros_like(centred)
    return centred / deviation


def centred_ranks(returns: np.ndarray) -> np.ndarray:
    """From -1/2 for the smallest of returns [M] to 1/2 for the largest; equal ones share the mean of their ranks."""
    if len(returns) < 2:
        return np.zeros(len(returns))
    _, inverse, counts = np.unique(returns, return_inverse=True, return_counts=True)
    lowest = np.cumsum(counts) - counts
    ranks = lowest + (counts - 1) / 2
    return ranks[inverse.reshape(-1)] / (len(returns) - 1) - 0.5


SHAPES = {"standardised": standardised, "ranks": centred_ranks}


def ascent(weights: np.ndarray, seed: int, size: int, sigma: float, mirrored: bool) -> np.ndarray:
    """The estimated gradient of the mean return, 1 / (M sigma) sum_i w_i noise_i, [size].

    One noise at a time is in memory, and the order of the sum is the members', whichever rank they ran on.

    Args:
        weights: shaped returns [M].
        seed: the iteration's.
        size: of the parameters.
        sigma: deviation of the members' noise.
        mirrored: see the module.
    """
    total = np.zeros(size, np.float32)
    # The noises of two mirrored members differ in their sign only.
    pairs = weights[::2] - weights[1::2] if mirrored else weights
    for number, weight in enumerate(pairs.astype(np.float32)):
        if weight:
            total += weight * noise(seed, 2 * number if mirrored else number, size, mirrored)
    return total / np.float32(len(weights) * sigma)
