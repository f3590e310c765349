"""Exercise 7: write ACER's Retrace targets."""

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
    """Return the targets [N, T] of Q for N sequences of T steps.

    Args:
        rewards: [N, T].
        continues: [N, T], 0 where the step terminated its episode, else 1.
        q_taken: [N, T], Q of the action that was taken.
        values: [N, T], V of the observation before the step.
        last_values: [N], V of the observation after the last step.
        ratios: [N, T], probability of the action now over its probability when it was taken.
        gamma: discount.
    """
    # Your code: these are the targets of one-step Q-learning, which ignore everything after the next step.
    next_values = np.concatenate([values[:, 1:], last_values[:, None]], axis=1)
    return rewards + gamma * continues * next_values
