"""Pure functions of arrays [T, N] (time, environment) that compute returns and advantages."""

import numpy as np


def backward_recursion(increment: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Compute x_t = increment_t + factor_t * x_{t+1}, with x_T = 0.

    The environments' sequences are concatenated and the recursion runs once over Python floats, with factor 0 at each
    sequence's end. For the sizes of a rollout this is several times faster than T steps of small numpy operations.

    Args:
        increment: [T, N].
        factor: [T, N].

    Returns:
        x, [T, N] in float64.
    """
    factor = np.array(factor, np.float64)
    factor[-1] = 0.0
    out, x = [], 0.0
    backwards = slice(None, None, -1)
    for inc, fac in zip(increment.T.ravel()[backwards].tolist(), factor.T.ravel()[backwards].tolist(), strict=True):
        x = inc + fac * x
        out.append(x)
    return np.asarray(out[::-1]).reshape(increment.T.shape).T


def gae(
    rewards: np.ndarray,
    values: np.ndarray,
    episode_start: np.ndarray,
    last_values: np.ndarray,
    last_episode_start: np.ndarray,
    gamma: float,
    lam: float,
) -> np.ndarray:
    """Compute generalized advantage estimates (Schulman et al. 2016).

        delta_t = r_t + gamma * V_{t+1} * (1 - start_{t+1}) - V_t
        A_t     = delta_t + gamma * lam * (1 - start_{t+1}) * A_{t+1}

    Args:
        rewards: [T, N]; at a time-out, gamma times the value of the real last observation is already added.
        values: [T, N], V of the observation before each step.
        episode_start: [T, N], whether the observation before each step is the first of an episode.
        last_values: [N], V of the observation after the last step.
        last_episode_start: [N], whether that observation is the first of an episode.
        gamma: discount per step.
        lam: GAE lambda.

    Returns:
        Advantages [T, N] in float64.
    """
    next_values = np.concatenate([values[1:], last_values[None]], dtype=np.float64)
    continues = 1.0 - np.concatenate([episode_start[1:], last_episode_start[None]], dtype=np.float64)
    deltas = rewards + gamma * next_values * continues - values
    return backward_recursion(deltas, gamma * lam * continues)


def n_step_returns(rewards: np.ndarray, ended: np.ndarray, last_values: np.ndarray, gamma: float) -> np.ndarray:
    """Compute discounted returns to the episode's end, or to the value of the observation after the last step.

        R_t = r_t + gamma * (1 - ended_t) * R_{t+1},  R_T = last value

    Args:
        rewards: [T, N].
        ended: [T, N], whether each step ended its episode.
        last_values: [N].
        gamma: discount per step.

    Returns:
        Returns [T, N] in float64.
    """
    continues = 1.0 - ended.astype(np.float64)
    increments = rewards.astype(np.float64)
    increments[-1] += gamma * continues[-1] * last_values
    return backward_recursion(increments, gamma * continues)


def discount(x: np.ndarray, gamma: float) -> np.ndarray:
    """Compute y_t = x_t + gamma * y_{t+1} along the first axis; x is [T] or [T, N]."""
    columns = x.reshape(len(x), -1)
    return backward_recursion(columns, np.full(columns.shape, gamma)).reshape(x.shape)


def standardized(x: np.ndarray) -> np.ndarray:
    """Scale to mean 0 and standard deviation 1 in float32; equal numbers become zeros."""
    centered = x - x.mean(dtype=np.float64)
    return (centered / (x.std(dtype=np.float64) or 1.0)).astype(np.float32)


def explained_variance(ypred: np.ndarray, y: np.ndarray) -> float:
    """Compute 1 - Var[y - ypred] / Var[y]: 1 is perfect, 0 is as good as a constant; nan for constant targets y."""
    variance = np.var(y)
    return float("nan") if variance == 0 else float(1 - np.var(y - ypred) / variance)
