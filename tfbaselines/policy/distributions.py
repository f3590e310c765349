"""Action heads: distributions over actions from a network's output.

The mathematics is TensorFlow Probability's. `tfp.distributions` is written in full because it loads on first use:
algorithms without it start half a second sooner. Randomness is an argument: a head draws noise from a numpy generator,
which the seed and the checkpoint own, and a sample is a function of flat parameters and noise, in the graph and, for
fast acting, in numpy.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from gymnasium import spaces

from tfbaselines.errors import UsageError
from tfbaselines.policy.base import Head

LOG_2PI = float(np.log(2.0 * np.pi))


class Distribution:
    """A batch of distributions over actions.

    Args:
        distribution: the TensorFlow Probability distribution of one row's action.
        prepared: function from actions to the values [B, ...] of `distribution`; None if they are equal.
    """

    def __init__(self, distribution: Any, sample: Callable, mode: Callable, prepared: Callable | None = None) -> None:
        self._distribution = distribution
        self.sample = sample
        self.mode = mode
        self._prepared = prepared

    def logp(self, actions: tf.Tensor) -> tf.Tensor:
        """Compute log p(a), [B]."""
        return self._distribution.log_prob(actions if self._prepared is None else self._prepared(actions))

    def neglogp(self, actions: tf.Tensor) -> tf.Tensor:
        return -self.logp(actions)

    def entropy(self) -> tf.Tensor:
        """Compute the entropy, [B]."""
        return self._distribution.entropy()

    def kl(self, other: "Distribution") -> tf.Tensor:
        """Compute KL(self || other), [B]."""
        return tfp.distributions.kl_divergence(self._distribution, other._distribution)

    @property
    def mean(self) -> tf.Tensor:
        """Mean action, or the probabilities of the categories."""
        if isinstance(self._distribution, tfp.distributions.Categorical):
            return self._distribution.probs_parameter()
        return self._distribution.mean()

    @property
    def std(self) -> tf.Tensor:
        """Standard deviation of a Gaussian."""
        return self._distribution.stddev()


class ShapedHead:
    """Base of heads of an action space: shapes of parameters, actions and noise; see Head in policy/base.py.

    Args:
        width: numbers that the network computes, and that the noise of an action has.
        param_size: parameters of a distribution; None for as many as the network computes.
    """

    mode_noise = 0.0

    def __init__(self, width: int, action_shape: tuple[int, ...], dtype: type, param_size: int | None = None) -> None:
        self.width = width
        self.param_size = param_size or width
        self.action_shape = action_shape
        self.action_dtype = np.dtype(dtype)
        self.noise_shape = (width,)

    def draw_noise(self, rng: np.random.Generator, batch: tuple[int, ...]) -> np.ndarray:
        return rng.standard_normal(size=(*batch, self.width), dtype=np.float32)


class CategoricalHead(ShapedHead):
    """Discrete(n): parameters are logits [B, n], noise is Gumbel [B, n]."""

    def __init__(self, space: spaces.Discrete) -> None:
        super().__init__(int(space.n), (), np.int64)
        self._start = int(space.start)

    def distribution(self, flat: tf.Tensor) -> Distribution:
        return Distribution(
            tfp.distributions.Categorical(logits=flat),
            lambda noise: tf.argmax(flat + noise, axis=-1) + self._start,
            lambda: tf.argmax(flat, axis=-1) + self._start,
            lambda actions: tf.cast(actions, tf.int32) - self._start,
        )

    def draw_noise(self, rng: np.random.Generator, batch: tuple[int, ...]) -> np.ndarray:
        return rng.gumbel(size=(*batch, self.width)).astype(np.float32)

    def sample_numpy(self, flat: np.ndarray, noise: np.ndarray) -> np.ndarray:
        actions = (flat + noise).argmax(axis=-1)
        return actions + self._start if self._start else actions

    def mode_numpy(self, flat: np.ndarray) -> np.ndarray:
        return flat.argmax(axis=-1) + self._start

    def neglogp_numpy(self, flat: np.ndarray, actions: np.ndarray) -> np.ndarray:
        rows = np.arange(len(flat))
        top = flat.max(axis=-1, keepdims=True)
        log_sum = np.log(np.exp(flat - top).sum(axis=-1)) + top[:, 0]
        return log_sum - flat[rows, np.asarray(actions, np.int64) - self._start]


class MultiCategoricalHead(ShapedHead):
    """MultiDiscrete(nvec): logits of all parts side by side [B, sum(nvec)], Gumbel noise of the same shape."""

    def __init__(self, space: spaces.MultiDiscrete) -> None:
        if space.nvec.ndim != 1:
            raise UsageError(f"action space {space} is not supported: MultiDiscrete needs nvec of rank 1")
        self._parts = space.nvec.tolist()
        super().__init__(sum(self._parts), (len(self._parts),), np.int64)
        self._starts = np.asarray(space.start, np.int64)
        bounds = [0, *np.cumsum(self._parts).tolist()]
        self._slices = [slice(begin, end) for begin, end in itertools.pairwise(bounds)]

    def distribution(self, flat: tf.Tensor) -> "_MultiCategorical":
        return _MultiCategorical(flat, self._parts, self._starts)

    draw_noise = CategoricalHead.draw_noise

    def sample_numpy(self, flat: np.ndarray, noise: np.ndarray) -> np.ndarray:
        return self.mode_numpy(flat + noise)

    def mode_numpy(self, flat: np.ndarray) -> np.ndarray:
        return np.stack([flat[:, part].argmax(axis=-1) for part in self._slices], axis=-1) + self._starts

    def neglogp_numpy(self, flat: np.ndarray, actions: np.ndarray) -> np.ndarray:
        total = np.zeros(len(flat), flat.dtype)
        chosen = np.asarray(actions, np.int64) - self._starts
        for column, part in enumerate(self._slices):
            logits = flat[:, part] - flat[:, part].max(axis=-1, keepdims=True)
            total += np.log(np.exp(logits).sum(axis=-1)) - logits[np.arange(len(flat)), chosen[:, column]]
        return total


class _MultiCategorical(Distribution):
    """Independent categorical parts of different sizes, which TensorFlow Probability lacks."""

    def __init__(self, flat: tf.Tensor, parts: list[int], starts: np.ndarray) -> None:
        self._flat = flat
        self._sizes = parts
        self._starts = starts
        self._parts = [tfp.distributions.Categorical(logits=part) for part in tf.split(flat, parts, axis=-1)]

    def logp(self, actions: tf.Tensor) -> tf.Tensor:
        columns = tf.unstack(tf.cast(actions, tf.int64) - self._starts, axis=-1)
        return tf.add_n([part.log_prob(column) for part, column in zip(self._parts, columns, strict=True)])

    def entropy(self) -> tf.Tensor:
        return tf.add_n([part.entropy() for part in self._parts])

    def kl(self, other: "_MultiCategorical") -> tf.Tensor:
        return tf.add_n([tfp.distributions.kl_divergence(p, q) for p, q in zip(self._parts, other._parts, strict=True)])

    def sample(self, noise: tf.Tensor) -> tf.Tensor:
        return self._argmax(self._flat + noise)

    def mode(self) -> tf.Tensor:
        return self._argmax(self._flat)

    def _argmax(self, flat: tf.Tensor) -> tf.Tensor:
        rows = tf.split(flat, self._sizes, axis=-1)
        return tf.stack([tf.argmax(row, axis=-1) for row in rows], axis=-1) + self._starts


class GaussianHead(ShapedHead):
    """Box of n numbers: a diagonal Gaussian; parameters [mean, logstd] [B, 2 n], standard normal noise [B, n]."""

    def __init__(self, space: spaces.Box) -> None:
        width = math.prod(space.shape)
        super().__init__(width, tuple(space.shape), np.float32, 2 * width)

    def distribution(self, flat: tf.Tensor) -> Distribution:
        mean, logstd = tf.split(flat, 2, axis=-1)
        std, shape = tf.exp(logstd), (-1, *self.action_shape)
        gaussian = tfp.distributions.MultivariateNormalDiag(mean, std)
        if len(self.action_shape) == 1:
            return Distribution(gaussian, lambda noise: mean + std * noise, lambda: mean)
        return Distribution(
            gaussian,
            lambda noise: tf.reshape(mean + std * noise, shape),
            lambda: tf.reshape(mean, shape),
            lambda actions: tf.reshape(actions, (-1, self.width)),
        )

    def sample_numpy(self, flat: np.ndarray, noise: np.ndarray) -> np.ndarray:
        return self.draw_numpy(flat[:, : self.width], np.exp(flat[:, self.width :]), noise)

    def draw_numpy(self, mean: np.ndarray, std: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Compute actions [B, ...] from means [B, n] and standard deviations [B, n] or [1, n]."""
        actions = std * noise
        actions += mean
        return actions if len(self.action_shape) == 1 else actions.reshape(-1, *self.action_shape)

    def mode_numpy(self, flat: np.ndarray) -> np.ndarray:
        return flat[:, : self.width].reshape(-1, *self.action_shape)

    def neglogp_numpy(self, flat: np.ndarray, actions: np.ndarray) -> np.ndarray:
        mean, logstd = flat[:, : self.width], flat[:, self.width :]
        scaled = (actions.reshape(-1, self.width) - mean) / np.exp(logstd)
        return (0.5 * np.square(scaled) + logstd).sum(axis=-1) + np.float32(0.5 * LOG_2PI * self.width)


class BernoulliHead(ShapedHead):
    """MultiBinary of n numbers: logits [B, n], uniform noise [B, n]."""

    mode_noise = 0.5

    def __init__(self, space: spaces.MultiBinary) -> None:
        super().__init__(math.prod(space.shape), tuple(space.shape), np.int8)

    def distribution(self, flat: tf.Tensor) -> Distribution:
        probabilities, shape = tf.sigmoid(flat), (-1, *self.action_shape)
        # Actions have any integer type; their probabilities are computed in float32.
        distribution = tfp.distributions.Independent(tfp.distributions.Bernoulli(logits=flat, dtype=tf.float32), 1)
        return Distribution(
            distribution,
            lambda noise: tf.reshape(tf.cast(noise < probabilities, tf.float32), shape),
            lambda: tf.reshape(tf.round(probabilities), shape),
            lambda actions: tf.cast(tf.reshape(actions, (-1, self.width)), tf.float32),
        )

    def draw_noise(self, rng: np.random.Generator, batch: tuple[int, ...]) -> np.ndarray:
        return rng.random(size=(*batch, self.width), dtype=np.float32)

    def sample_numpy(self, flat: np.ndarray, noise: np.ndarray) -> np.ndarray:
        return (noise < np.exp(-np.logaddexp(0.0, -flat))).astype(np.int8).reshape(-1, *self.action_shape)

    def mode_numpy(self, flat: np.ndarray) -> np.ndarray:
        return (flat > 0).astype(np.int8).reshape(-1, *self.action_shape)

    def neglogp_numpy(self, flat: np.ndarray, actions: np.ndarray) -> np.ndarray:
        chosen = actions.reshape(-1, self.width)
        return (np.logaddexp(0.0, flat) - chosen * flat).sum(axis=-1)


_HEADS = {
    spaces.Discrete: CategoricalHead,
    spaces.MultiDiscrete: MultiCategoricalHead,
    spaces.Box: GaussianHead,
    spaces.MultiBinary: BernoulliHead,
}


def make_pdtype(space: spaces.Space) -> Head:
    """Make the action head of an action space; raise an error for an unsupported space."""
    for kind, head in _HEADS.items():
        if isinstance(space, kind):
            return head(space)
    accepted = "Discrete, MultiDiscrete, MultiBinary and Box"
    raise UsageError(f"action space {space} is not supported: accepted are {accepted}")
