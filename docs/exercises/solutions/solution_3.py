"""Exercise 3, solved: a time limit bootstraps from the real last observation."""

import numpy as np


def targets(
    rewards: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    next_values: np.ndarray,
    final_values: np.ndarray,
    gamma: float,
) -> np.ndarray:
    """Return the one-step targets [B] of a critic."""
    values = np.where(truncated, final_values, next_values)
    # An episode may reach its limit in the step that terminates it: nothing follows then.
    return rewards + gamma * values * (1.0 - terminated)
