"""Action heads of bounded actions: a point, or a Gaussian that tanh squashes to the bounds.

Spinning Up's ddpg, td3 and sac take them. Randomness is an argument, as in policy/distributions.py.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.errors import UsageError
from tfbaselines.policy.distributions import LOG_2PI, ShapedHead

# Algorithms for action spaces other than Box.
FOR_OTHERS = {
    spaces.Discrete: "ppo2, deepq or sac",
    spaces.MultiDiscrete: "ppo2, a2c or sac",
    spaces.MultiBinary: "ppo2, a2c or trpo_mpi",
}

LOG_STD_BOUNDS = (-20.0, 2.0)
# The original adds it to the standard deviation before a division.
EPSILON = 1e-8
# The largest tanh from which float32 recovers its argument.
LARGEST_TANH = 1.0 - 1e-6


class Bounded(NamedTuple):
    """A batch of distributions over bounded actions; see ActionDistribution in policy/base.py.

    Densities are over actions scaled to -1..1.
    """

    mode: Callable[[], tf.Tensor]
    sample: Callable[[tf.Tensor], tf.Tensor]
    neglogp: Callable[[tf.Tensor], tf.Tensor]


class BoundedHead(ShapedHead):
    """Base of the heads of a bounded Box: an action is the center of its bounds plus half their width times x.

    Args:
        params: parameters of a distribution for each number of an action.
    """

    def __init__(self, space: spaces.Box, params: int) -> None:
        if not (isinstance(space, spaces.Box) and space.is_bounded()):
            fitting = next((name for kind, name in FOR_OTHERS.items() if isinstance(space, kind)), None)
            advice = f"an algorithm for it is {fitting}" if fitting else "no algorithm takes it"
            if isinstance(space, spaces.Box):
                advice = "wrap it so that they are finite"
            raise UsageError(f"continuous actions need bounds, {space} has none: {advice}")
        width = math.prod(space.shape)
        super().__init__(width, tuple(space.shape), np.float32, params * width)
        low, high = (np.asarray(bound, np.float32).ravel() for bound in (space.low, space.high))
        self.center = (high + low) / 2
        self.limit = (high - low) / 2

    def unit(self, actions: tf.Tensor) -> tf.Tensor:
        """Scale actions [B, ...] to -1..1 [B, n]."""
        return (tf.reshape(actions, (-1, self.width)) - self.center) / self.limit

    def unit_numpy(self, actions: np.ndarray) -> np.ndarray:
        return (actions.reshape(-1, self.width) - self.center) / self.limit

    def scaled(self, x: tf.Tensor) -> tf.Tensor:
        """Scale -1..1 [B, n] to actions [B, ...]."""
        return tf.reshape(self.center + self.limit * x, (-1, *self.action_shape))

    def noisy(self, actions: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Add noise [B, n] to actions [B, ...], and clip them to the bounds."""
        moved = actions.reshape(-1, self.width) + noise
        return np.clip(moved, self.center - self.limit, self.center + self.limit).reshape(actions.shape)

    def scaled_numpy(self, x: np.ndarray) -> np.ndarray:
        return (self.center + self.limit * x).reshape(-1, *self.action_shape)


class DeterministicHead(BoundedHead):
    """The tanh of the network's output; the exploration noise belongs to the algorithms."""

    def __init__(self, space: spaces.Box) -> None:
        super().__init__(space, params=1)

    def mode(self, flat: tf.Tensor) -> tf.Tensor:
        return self.scaled(tf.tanh(flat))

    def distribution(self, flat: tf.Tensor) -> Bounded:
        mode = self.mode(flat)
        return Bounded(lambda: mode, lambda noise: mode, lambda actions: tf.zeros_like(flat[:, 0]))

    def sample_numpy(self, flat: np.ndarray, noise: np.ndarray) -> np.ndarray:
        return self.scaled_numpy(np.tanh(flat))

    def mode_numpy(self, flat: np.ndarray) -> np.ndarray:
        return self.scaled_numpy(np.tanh(flat))

    def neglogp_numpy(self, flat: np.ndarray, actions: np.ndarray) -> np.ndarray:
        # A deterministic policy has no density.
        return np.zeros(len(flat), np.float32)


class SquashedGaussianHead(BoundedHead):
    """The tanh of a Gaussian; parameters [mean, logstd] [B, 2 n], standard normal noise [B, n]."""

    def __init__(self, space: spaces.Box) -> None:
        super().__init__(space, params=2)

    def sample(self, flat: tf.Tensor, noise: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Compute actions [B, ...], and the log density [B] of the actions scaled to -1..1."""
        mean, logstd = tf.split(flat, 2, axis=-1)
        logstd = tf.clip_by_value(logstd, *LOG_STD_BOUNDS)
        std = tf.exp(logstd)
        u = mean + std * noise
        return self.scaled(tf.tanh(u)), _squashed_logp(u, mean, logstd, std)

    def mode(self, flat: tf.Tensor) -> tf.Tensor:
        return self.scaled(tf.tanh(flat[:, : self.width]))

    def distribution(self, flat: tf.Tensor) -> Bounded:
        def neglogp(actions: tf.Tensor) -> tf.Tensor:
            mean, logstd = tf.split(flat, 2, axis=-1)
            logstd = tf.clip_by_value(logstd, *LOG_STD_BOUNDS)
            u = tf.atanh(tf.clip_by_value(self.unit(actions), -LARGEST_TANH, LARGEST_TANH))
            return -_squashed_logp(u, mean, logstd, tf.exp(logstd))

        return Bounded(lambda: self.mode(flat), lambda noise: self.sample(flat, noise)[0], neglogp)

    def sample_numpy(self, flat: np.ndarray, noise: np.ndarray) -> np.ndarray:
        n = self.width
        return self.scaled_numpy(np.tanh(flat[:, :n] + np.exp(np.clip(flat[:, n:], *LOG_STD_BOUNDS)) * noise))

    def mode_numpy(self, flat: np.ndarray) -> np.ndarray:
        return self.scaled_numpy(np.tanh(flat[:, : self.width]))

    def neglogp_numpy(self, flat: np.ndarray, actions: np.ndarray) -> np.ndarray:
        return self.distribution(tf.constant(flat)).neglogp(tf.constant(actions)).numpy()


def _squashed_logp(u: tf.Tensor, mean: tf.Tensor, logstd: tf.Tensor, std: tf.Tensor) -> tf.Tensor:
    """Compute the log density [B] of tanh(u), where u is Gaussian."""
    gaussian = -0.5 * (tf.square((u - mean) / (std + EPSILON)) + 2.0 * logstd + LOG_2PI)
    # This form of log(1 - tanh(u)^2) does not overflow.
    squash = 2.0 * (np.log(2.0) - u - tf.nn.softplus(-2.0 * u))
    return tf.reduce_sum(gaussian - squash, axis=-1)
