"""Action heads of off-policy continuous control: bounded actions, scaled to the bounds of their Box."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.errors import UsageError

# Algorithms for action spaces other than Box.
FOR_OTHERS = {
    spaces.Discrete: "ppo2, deepq or sac",
    spaces.MultiDiscrete: "ppo2, a2c or sac",
    spaces.MultiBinary: "ppo2, a2c or trpo_mpi",
}

LOG_STD_BOUNDS = (-20.0, 2.0)
# In the division by the standard deviation, as in the original.
EPSILON = 1e-8
# Largest tanh of an action from which float32 recovers its argument.
LARGEST_TANH = 1.0 - 1e-6
LOG_2PI = float(np.log(2.0 * np.pi))


class Bounded:
    """A batch of distributions over bounded actions; see ActionDistribution in policy/base.py.

    Args:
        mode: the most likely actions [B, ...].
        sample: from noise to actions.
        neglogp: from actions to the negative log probability densities [B] of actions scaled to -1..1.
    """

    def __init__(self, mode: tf.Tensor, sample: Callable, neglogp: Callable) -> None:
        self._mode, self.sample, self.neglogp = mode, sample, neglogp

    def mode(self) -> tf.Tensor:
        """The most likely actions [B, ...]."""
        return self._mode


class BoundedHead:
    """Base of the heads of a bounded Box: an action is the centre of its bounds plus half their width times x.

    Args:
        space: the action space.
    """

    def __init__(self, space: spaces.Box) -> None:
        if not (isinstance(space, spaces.Box) and space.is_bounded()):
            fitting = next((name for kind, name in FOR_OTHERS.items() if isinstance(space, kind)), None)
            advice = f"an algorithm for it is {fitting}" if fitting else "no algorithm takes it"
            if isinstance(space, spaces.Box):
                advice = "wrap it so that they are finite"
            raise UsageError(f"continuous actions need bounds, {space} has none: {advice}")
        self.width = int(np.prod(space.shape))
        self.action_shape = tuple(space.shape)
        self.action_dtype = np.dtype(np.float32)
        self.noise_shape = (self.width,)
        self.mode_noise = 0.0
        low, high = (np.asarray(bound, np.float32).ravel() for bound in (space.low, space.high))
        self.centre, self.limit = (high + low) / 2, (high - low) / 2

    def draw_noise(self, rng: np.random.Generator, batch: tuple[int, ...]) -> np.ndarray:
        """Standard normal noise [*batch, n]."""
        return rng.standard_normal(size=(*batch, self.width), dtype=np.float32)

    def unit(self, actions: tf.Tensor) -> tf.Tensor:
        """From actions [B, ...] to -1..1 [B, n]."""
        return (tf.reshape(actions, (-1, self.width)) - self.centre) / self.limit

    def unit_numpy(self, actions: np.ndarray) -> np.ndarray:
        """`unit` in numpy."""
        return (actions.reshape(-1, self.width) - self.centre) / self.limit

    def scaled(self, x: tf.Tensor) -> tf.Tensor:
        """From -1..1 [B, n] to actions [B, ...]."""
        return tf.reshape(self.centre + self.limit * x, (-1, *self.action_shape))

    def noisy(self, actions: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Actions [B, ...] with noise [B, n] added, clipped to the bounds."""
        moved = actions.reshape(-1, self.width) + noise
        return np.clip(moved, self.centre - self.limit, self.centre + self.limit).reshape(actions.shape)

    def scaled_numpy(self, x: np.ndarray) -> np.ndarray:
        """`scaled` in numpy."""
        return (self.centre + self.limit * x).reshape(-1, *self.action_shape)


class DeterministicHead(BoundedHead):
    """The tanh of the network's output; algorithms add noise for exploration themselves."""

    def __init__(self, space: spaces.Box) -> None:
        super().__init__(space)
        self.param_size = self.width

    def mode(self, flat: tf.Tensor) -> tf.Tensor:
        """Actions [B, ...] of outputs [B, n]."""
        return self.scaled(tf.tanh(flat))

    def distribution(self, flat: tf.Tensor) -> Bounded:
        """The distribution of actions with parameters `flat`."""
        return Bounded(self.mode(flat), lambda noise: self.mode(flat), lambda actions: tf.zeros_like(flat[:, 0]))

    def sample_numpy(self, flat: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Actions [B, ...]; the noise is ignored."""
        return self.scaled_numpy(np.tanh(flat))

    def mode_numpy(self, flat: np.ndarray) -> np.ndarray:
        """Actions [B, ...]."""
        return self.scaled_numpy(np.tanh(flat))

    def neglogp_numpy(self, flat: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Zeros [B]: a deterministic policy has no density."""
        return np.zeros(len(flat), np.float32)


class SquashedGaussianHead(BoundedHead):
    """The tanh of a Gaussian; parameters [mean, logstd] [B, 2 n], standard normal noise [B, n]."""

    def __init__(self, space: spaces.Box) -> None:
        super().__init__(space)
        self.param_size = 2 * self.width

    def sample(self, flat: tf.Tensor, noise: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Actions [B, ...], and the log probability density [B] of the actions scaled to -1..1."""
        mean, logstd = tf.split(flat, 2, axis=-1)
        logstd = tf.clip_by_value(logstd, *LOG_STD_BOUNDS)
        std = tf.exp(logstd)
        u = mean + std * noise
        return self.scaled(tf.tanh(u)), _squashed_logp(u, mean, logstd, std)

    def mode(self, flat: tf.Tensor) -> tf.Tensor:
        """The tanh of the means [B, ...]."""
        return self.scaled(tf.tanh(flat[:, : self.width]))

    def distribution(self, flat: tf.Tensor) -> Bounded:
        """The distribution of actions with parameters `flat`."""

        def neglogp(actions: tf.Tensor) -> tf.Tensor:
            mean, logstd = tf.split(flat, 2, axis=-1)
            logstd = tf.clip_by_value(logstd, *LOG_STD_BOUNDS)
            u = tf.atanh(tf.clip_by_value(self.unit(actions), -LARGEST_TANH, LARGEST_TANH))
            return -_squashed_logp(u, mean, logstd, tf.exp(logstd))

        return Bounded(self.mode(flat), lambda noise: self.sample(flat, noise)[0], neglogp)

    def sample_numpy(self, flat: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Actions [B, ...]."""
        n = self.width
        return self.scaled_numpy(np.tanh(flat[:, :n] + np.exp(np.clip(flat[:, n:], *LOG_STD_BOUNDS)) * noise))

    def mode_numpy(self, flat: np.ndarray) -> np.ndarray:
        """Actions [B, ...]."""
        return self.scaled_numpy(np.tanh(flat[:, : self.width]))

    def neglogp_numpy(self, flat: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Negative log probability densities [B]."""
        return self.distribution(tf.constant(flat)).neglogp(tf.constant(actions)).numpy()


def _squashed_logp(u: tf.Tensor, mean: tf.Tensor, logstd: tf.Tensor, std: tf.Tensor) -> tf.Tensor:
    """Log density [B] of tanh(u), u Gaussian."""
    gaussian = -0.5 * (tf.square((u - mean) / (std + EPSILON)) + 2.0 * logstd + LOG_2PI)
    # log(1 - tanh(u)^2), written so that it does not overflow.
    squash = 2.0 * (np.log(2.0) - u - tf.nn.softplus(-2.0 * u))
    return tf.reduce_sum(gaussian - squash, axis=-1)
