"""Predictions of the next observation and of the reward: their errors, by inputs."""

from typing import NamedTuple

import numpy as np

from tfbaselines.probes.walks import Walk

# Random features beside the linear ones, and the ridge penalty on all of them.
FEATURES, RIDGE = 200, 1e-4
# Columns with the largest variance that are predicted.
MOST_TARGETS = 24
# Least rows for a fit.
LEAST_ROWS = 400
# Least rows for each column, where a fit shows that nothing is explained.
ROWS_OF_COLUMN = 10
# Share of the rows that is fitted; the rest is predicted.
FITTED = 0.7


def explained(inputs: np.ndarray, targets: np.ndarray) -> float:
    """Return the share of the variance of held-out targets [T, m] that a fit on inputs [T, n] explains, 0 to 1.

    The fit is ridge regression on the inputs and on random tanh features of them. Targets without variance do not
    count; NaN if there are no others.
    """
    varied = targets.std(0) > 1e-12 * (1.0 + np.abs(targets).max(0))
    targets = targets[:, varied]
    if not targets.shape[1]:
        return float("nan")
    targets = (targets - targets.mean(0)) / targets.std(0)
    scale = inputs.std(0)
    inputs = (inputs - inputs.mean(0))[:, scale > 1e-12] / scale[scale > 1e-12]
    rng = np.random.default_rng(0)
    width = max(1, inputs.shape[1])
    random = np.tanh(
        inputs @ (rng.normal(size=(inputs.shape[1], FEATURES)) / np.sqrt(width)) + rng.normal(size=FEATURES)
    )
    features = np.concatenate([np.ones((len(inputs), 1)), inputs, random], axis=1)
    order = rng.permutation(len(inputs))
    fitted, held = np.split(order, [int(FITTED * len(inputs))])
    gram = features[fitted].T @ features[fitted] + RIDGE * len(fitted) * np.eye(features.shape[1])
    weights = np.linalg.solve(gram, features[fitted].T @ targets[fitted])
    errors = np.square(features[held] @ weights - targets[held]).mean(0)
    return float(np.clip(1.0 - errors / np.maximum(targets[held].var(0), 1e-12), 0.0, 1.0).mean())


class Explained(NamedTuple):
    """Shares of the change of observations that are explained, and of rewards; NaN where nothing varies.

    Attributes:
        alone: from the observation alone.
        now: from the observation and the action.
        late: from the observation and the action before.
        both: from the observation and both actions.
        two: from two observations and both actions.
        reward_alone: of rewards, from both observations of their step.
        reward_now: of rewards, from all of their step.
        reward_late: of rewards, from the step before.
        noise: share of the rewards that differ from all others.
        next_obs: of the next observation itself, from two observations and both actions.
    """

    alone: float
    now: float
    late: float
    both: float
    two: float
    reward_alone: float
    reward_now: float
    reward_late: float
    noise: float = 0.0
    next_obs: float = 1.0


def dependence(walk: Walk) -> Explained | None:
    """Fit the change of observations and the rewards of a walk; None if there are too few steps."""
    inside = np.flatnonzero(~walk.first[1:]) + 1
    if len(inside) < LEAST_ROWS:
        return None
    before = inside - 1
    change = walk.next_obs[inside] - walk.obs[inside]
    largest = np.argsort(change.var(0))[::-1][:MOST_TARGETS]
    change = change[:, largest]
    obs, earlier = walk.obs[inside], walk.obs[before]
    action, earlier_action = walk.actions[inside], walk.actions[before]
    rewards = walk.rewards[inside, None]
    of_step = [obs, action, walk.next_obs[inside]]
    of_step_before = [earlier, earlier_action, obs]
    pairs = (
        ([obs], change),
        ([obs, action], change),
        ([obs, earlier_action], change),
        ([obs, action, earlier_action], change),
        ([obs, earlier, action, earlier_action], change),
        ([obs, walk.next_obs[inside]], rewards),
        (of_step, rewards),
        (of_step_before, rewards),
    )
    shares = [explained(np.concatenate(columns, axis=1), targets) for columns, targets in pairs]
    # Fits of many numbers on few rows explain nothing, and positions on a grid are no numbers.
    enough = len(inside) >= ROWS_OF_COLUMN * (2 * obs.shape[1] + action.shape[1])
    different = len(np.unique(rewards)) / len(rewards) if enough else 0.0
    if not enough or np.isin(obs, (0, 1)).all():
        return Explained(*shares, different)
    every = np.concatenate([obs, earlier, action, earlier_action], axis=1)
    return Explained(*shares, different, explained(every, walk.next_obs[inside][:, largest]))
