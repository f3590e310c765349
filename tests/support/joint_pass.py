"""The joint pass of CrossQ's critics, by loops over numbers."""

import numpy as np


def renormalized(x, mean, variance, warm):
    """Normalize the columns of x by themselves, and if warm, correct them towards a running mean and variance."""
    columns = []
    for column, running_mean, running_variance in zip(x.T, mean, variance, strict=True):
        deviation, running = np.sqrt(column.var() + 1e-3), np.sqrt(running_variance + 1e-3)
        r = min(max(deviation / running, 1 / 3), 3) if warm else 1.0
        d = min(max((column.mean() - running_mean) / running, -5), 5) if warm else 0.0
        columns.append((column - column.mean()) / deviation * r + d)
    return np.stack(columns, axis=1)


def joint_quantiles(policy, prepared, actions, warm):
    """Compute the quantiles [2B, M] of each critic with tanh units, of this step's rows and then of the next one's."""
    views = ((prepared["now"], prepared["actions"]), (prepared["next"], actions))
    joint = np.concatenate([np.concatenate([view.encoded, one], axis=1) for view, one in views])
    values = []
    for critic in policy.critics:
        x = joint
        for norm, layer in zip(critic._norms, critic._dense, strict=True):
            gamma, beta, mean, variance = norm.get_weights()
            x = renormalized(x, mean, variance, warm) * gamma + beta
            x = x @ layer.kernel.numpy() + layer.bias.numpy()
            x = x if layer is critic.layer else np.tanh(x)
        values.append(x)
    return values


def joint_values(policy, prepared, actions, warm):
    """The same for critics without quantiles: values [2B]."""
    return [values[:, 0] for values in joint_quantiles(policy, prepared, actions, warm)]
