"""Exercise 1, solved: generalized advantage estimation for several environments."""

import numpy as np


def gae(
    rewards: np.ndarray,
    values: np.ndarray,
    episode_start: np.ndarray,
    last_values: np.ndarray,
    last_episode_start: np.ndarray,
    gamma: float,
    lam: float,
) -> np.ndarray:
    """Return the advantages [T, N] of a rollout of T steps of N environments."""
    advantages = np.zeros_like(rewards)
    following = np.zeros_like(last_values)
    next_values, next_start = last_values, last_episode_start
    for t in reversed(range(len(rewards))):
        # Nothing flows back from one episode into the episode before it.
        continues = 1.0 - next_start
        delta = rewards[t] + gamma * continues * next_values - values[t]
        following = delta + gamma * lam * continues * following
        advantages[t] = following
        next_values, next_start = values[t], episode_start[t]
    return advantages
