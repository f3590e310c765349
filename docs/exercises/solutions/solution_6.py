"""Exercise 6, solved: double Q-learning under action masks."""

import numpy as np


def targets(
    rewards: np.ndarray, discounts: np.ndarray, online: np.ndarray, target: np.ndarray, allowed: np.ndarray
) -> np.ndarray:
    """Return the targets [B] of double Q-learning under action masks."""
    # The network that learns selects, the target network evaluates: their errors do not agree on one action.
    selected = np.where(allowed, online, -np.inf).argmax(axis=1)
    return rewards + discounts * target[np.arange(len(target)), selected]
