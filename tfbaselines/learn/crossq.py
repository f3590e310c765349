"""CrossQ: critics with batch renormalization and without target networks (Bhatt et al. 2024, arXiv:1902.05605).

One joint pass through the critics computes the values of (s, a) and of (s', a') with the policy's a', so that both have
the same batch statistics; the targets are cut off from gradients. The actor takes the critics with running statistics,
and Adam has beta_1 = 0.5. Here the actor has no normalization.

Batch renormalization (Ioffe 2017, arXiv:1702.03275) with the batch's mean and deviation m_B, s_B and the running m, s:

    x_hat = (x - m_B) / s_B * r + d,   r = clip(s_B / s, 1/3, 3),   d = clip((m_B - m) / s, -5, 5)

with r, d cut off from gradients, and r = 1, d = 0 in the first 100,000 steps.
"""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tfbaselines.errors import bad_argument
from tfbaselines.learn.engine import Batch
from tfbaselines.learn.optimizers import Adam, KerasRule, Rule
from tfbaselines.policy.actor_critic import ActorCritic, Critic
from tfbaselines.policy.layers import in_bfloat16, in_full

BETA_1 = 0.5
ADAM_EPSILON = 1e-8
# Share of the latest batch in the running statistics.
MOMENTUM = 0.01
EPSILON = 1e-3
MOST_R, MOST_D = 3.0, 5.0
# Gradient steps before r and d differ from 1 and 0.
WARM_UP = 100_000
RUNNING = "running"


class BatchRenormalization(keras.layers.Layer):
    """Normalize rows by running statistics, or in training by the batch's, corrected towards the running ones.

    The running statistics are trainable weights: `by_batch` returns a penalty with their distance from the batch's as
    its gradient, and a StatisticsRule moves them along it. So ranks average them, and checkpoints save them.
    """

    def build(self, input_shape: Sequence[int]) -> None:
        width = (input_shape[-1],)
        self.gamma = self.add_weight(shape=width, initializer="ones", name="gamma")
        self.beta = self.add_weight(shape=width, initializer="zeros", name="beta")
        self.mean = self.add_weight(shape=width, initializer="zeros", name=f"{RUNNING}_mean")
        self.variance = self.add_weight(shape=width, initializer="ones", name=f"{RUNNING}_variance")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        scale, shift = self.running()
        return x * scale + shift

    def running(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the scale and the shift [n] that normalize rows by the running statistics."""
        mean, variance = (tf.stop_gradient(one.value) for one in (self.mean, self.variance))
        scale = tf.math.rsqrt(variance + EPSILON) * self.gamma.value
        return scale, self.beta.value - mean * scale

    def by_batch(self, x: tf.Tensor, warm: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return the scale and the shift [n] that normalize rows, and the penalty.

        Args:
            x: rows [B, n].
            warm: 1 to correct the batch's statistics, 0 to take them as they are.
        """
        mean, variance = tf.nn.moments(x, axes=[0])
        deviation = tf.sqrt(variance + EPSILON)
        running = tf.sqrt(self.variance.value + EPSILON)
        r = 1.0 + warm * (tf.clip_by_value(deviation / running, 1.0 / MOST_R, MOST_R) - 1.0)
        d = warm * tf.clip_by_value((mean - self.mean.value) / running, -MOST_D, MOST_D)
        scale = tf.stop_gradient(r) / deviation
        shift = tf.stop_gradient(d) - mean * scale
        pairs = ((self.mean, mean), (self.variance, variance))
        gaps = [0.5 * tf.reduce_sum(tf.square(own.value - tf.stop_gradient(latest))) for own, latest in pairs]
        return scale * self.gamma.value, shift * self.gamma.value + self.beta.value, tf.add_n(gaps)


class NormalizedCritic(Critic):
    """A critic with batch renormalization of its input and of each hidden layer's output."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        hidden = [layer for layer in self._network.layers if not isinstance(layer, keras.layers.InputLayer)]
        if not all(isinstance(layer, keras.layers.Dense) for layer in hidden):
            raise bad_argument("critic", "crossq", "needs a network of dense layers alone, such as dense or mlp")
        self._dense = [*hidden, self.layer]
        self._norms = [BatchRenormalization(name=f"batch_renormalization_{k}") for k in range(len(self._dense))]
        for norm, layer in zip(self._norms, self._dense, strict=True):
            norm.build((None, layer.kernel.shape[0]))

    @property
    def modules(self) -> list[Any]:
        return [*super().modules, *self._norms]

    def __call__(self, rows: tf.Tensor) -> tf.Tensor:
        for norm, layer in zip(self._norms, self._dense, strict=True):
            rows = normalized_dense(layer, rows, *norm.running(), fold=layer is not self._dense[0])
        return in_full(rows)

    def by_batch(self, rows: tf.Tensor, warm: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the values [B, M], normalized by the batch, and the sum of the layers' penalties."""
        penalties = []
        for norm, layer in zip(self._norms, self._dense, strict=True):
            scale, shift, penalty = norm.by_batch(rows, warm)
            penalties.append(penalty)
            rows = normalized_dense(layer, rows, scale, shift, fold=layer is not self._dense[0])
        return in_full(rows), tf.add_n(penalties)


def normalized_dense(
    layer: keras.layers.Dense, rows: tf.Tensor, scale: tf.Tensor, shift: tf.Tensor, fold: bool
) -> tf.Tensor:
    """Return a dense layer's output for `rows * scale + shift`.

    Args:
        fold: move scale and shift into the layer's weights, which have fewer numbers than the rows. The critics' step
            takes an eighth less time; in bfloat16, or with inputs far from 0, the rows would lose digits.
    """
    if not fold or in_bfloat16():
        return layer(rows * scale + shift)
    kernel, bias = layer.kernel.value, layer.bias.value
    moved = tf.linalg.matvec(kernel, shift, transpose_a=True)
    return layer.activation(tf.matmul(rows, scale[:, None] * kernel) + (bias + moved))


class StatisticsRule(Rule):
    """Adam, and for running statistics w <- w - MOMENTUM g, a moving average where g is their distance."""

    def __init__(self) -> None:
        self._adam = joint_rule()
        self._rule = KerasRule(self._adam)

    @property
    def warm(self) -> tf.Tensor:
        """1 once the running statistics correct the batch's, before 0."""
        return tf.cast(self._adam.iterations.value >= WARM_UP, tf.float32)

    def build(self, variables: Sequence[keras.Variable]) -> None:
        self._running = [RUNNING in variable.path for variable in variables]
        self._moved = list(variables)
        self._rule.build([one for one, running in zip(variables, self._running, strict=True) if not running])
        self.variables = self._rule.variables

    def apply(self, gradients: Sequence[tf.Tensor], rate: tf.Tensor) -> None:
        plain = []
        for gradient, variable, running in zip(gradients, self._moved, self._running, strict=True):
            if running:
                variable.value.assign_sub(MOMENTUM * gradient)
            else:
                plain.append(gradient)
        self._rule.apply(plain, rate)


def joint_rule() -> Adam:
    """Make the rule by which the networks move."""
    return Adam(beta_1=BETA_1, epsilon=ADAM_EPSILON)


Joint = tuple[list[tf.Tensor], list[tf.Tensor], tf.Tensor]


def joint_quantiles(policy: ActorCritic, batch: Batch, warm: tf.Tensor) -> Joint:
    """Return each critic's quantiles [B, M] of this step and of the next one, and the penalty to add to the loss.

    Args:
        policy: has NormalizedCritics.
        batch: has the views 'now' and 'next', 'actions' and 'next_actions'.
        warm: of StatisticsRule.
    """
    pairs = (("now", "actions"), ("next", "next_actions"))
    rows = tf.concat([policy.critic_rows(batch[view], batch[actions]) for view, actions in pairs], axis=0)
    joint = [critic.by_batch(rows, warm) for critic in policy.critics]
    now, following = zip(*(tf.split(values, 2) for values, _ in joint), strict=True)
    return list(now), list(following), tf.add_n([penalty for _, penalty in joint])


def joint_values(policy: ActorCritic, batch: Batch, warm: tf.Tensor) -> Joint:
    """Return the same for critics without quantiles: values [B]."""
    now, following, penalty = joint_quantiles(policy, batch, warm)
    return [q[:, 0] for q in now], [q[:, 0] for q in following], penalty
