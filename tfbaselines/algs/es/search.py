"""The formulas of evolution strategies: members' noise from seeds, shaped returns, and the ascent.

A member's noise is a function of the iteration's seed and the member's number. Ranks that have both can rebuild it, so
they exchange only returns. Mirrored members 2 i and 2 i + 1 have the same noise with opposite signs.
"""

import numpy as np

# Returns with a smaller standard deviation count as equal.
SMALLEST_DEVIATION = 1e-6


def noise(seed: int, member: int, size: int, mirrored: bool) -> np.ndarray:
    """Draw a member's direction: standard normal numbers [size].

    Args:
        seed: seed of the iteration.
        member: number of the member.
        size: number of parameters.
        mirrored: every second member has the negative noise of the member before it.
    """
    number, sign = (member // 2, 1 - 2 * (member % 2)) if mirrored else (member, 1)
    drawn = np.random.default_rng([seed, number]).standard_normal(size, np.float32)
    return drawn if sign > 0 else -drawn


def standardized(returns: np.ndarray) -> np.ndarray:
    """Scale returns [M] to mean 0 and deviation 1; equal returns become zeros."""
    centered = returns - returns.mean()
    deviation = centered.std()
    if deviation <= SMALLEST_DEVIATION:
        return np.zeros_like(centered)
    return centered / deviation


def centered_ranks(returns: np.ndarray) -> np.ndarray:
    """Map returns [M] to ranks from -1/2 (smallest) to 1/2 (largest); equal returns share the mean of their ranks."""
    if len(returns) < 2:
        return np.zeros(len(returns))
    _, inverse, counts = np.unique(returns, return_inverse=True, return_counts=True)
    lowest = np.cumsum(counts) - counts
    ranks = lowest + (counts - 1) / 2
    return ranks[inverse.reshape(-1)] / (len(returns) - 1) - 0.5


SHAPES = {"standardised": standardized, "ranks": centered_ranks}


def ascent(weights: np.ndarray, seed: int, size: int, sigma: float, mirrored: bool) -> np.ndarray:
    """Estimate the gradient of the mean return, 1 / (M sigma) sum_i w_i noise_i, [size].

    One noise at a time is in memory, and the sum goes in the members' order, whichever rank they ran on.

    Args:
        weights: shaped returns [M].
        seed: seed of the iteration.
        size: number of parameters.
        sigma: standard deviation of the members' noise.
        mirrored: every second member has the negative noise of the member before it.
    """
    total = np.zeros(size, np.float32)
    # The noises of two mirrored members differ only in their sign.
    pairs = weights[::2] - weights[1::2] if mirrored else weights
    for number, weight in enumerate(pairs.astype(np.float32)):
        if weight:
            total += weight * noise(seed, 2 * number if mirrored else number, size, mirrored)
    return total / np.float32(len(weights) * sigma)
