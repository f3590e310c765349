"""Exercise 7, solved: ACER's Retrace targets."""

import numpy as np


def retrace(
    rewards: np.ndarray,
    continues: np.ndarray,
    q_taken: np.ndarray,
    values: np.ndarray,
    last_values: np.ndarray,
    ratios: np.ndarray,
    gamma: float,
) -> np.ndarray:
    """Return the targets [N, T] of Q for N sequences of T steps."""
    targets = np.zeros_like(rewards)
    carry = last_values
    for t in reversed(range(rewards.shape[1])):
        targets[:, t] = rewards[:, t] + gamma * continues[:, t] * carry
        # The weight of this step belongs to the step before it, and never exceeds 1.
        weight = np.minimum(1.0, ratios[:, t])
        carry = weight * (targets[:, t] - q_taken[:, t]) + values[:, t]
    return targets
