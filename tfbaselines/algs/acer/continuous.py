"""ACER for Box actions: the stochastic dueling network and the loss of densities (Wang et al. 2017, section 5).

One sampled action a' stands for the expectation over actions. Retrace truncates with min(1, rho^(1/d)) for actions of
d dimensions, the policy follows returns without truncation, and the error of Q also moves V.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.algs.acer.loss import (
    Batch,
    Coefficients,
    Terms,
    explained_variances,
    inputs_of,
    mean_of_valid,
    merged,
    statistics_of,
    targets_of,
    without_last,
)
from tfbaselines.policy.policy import Policy
from tfbaselines.policy.precision import in_full

ADVANTAGE_UNITS = 64
# Importance ratios of densities are kept between exp(-LARGEST) and exp(LARGEST).
LARGEST = 20.0
# Number of sampled actions u_i over which the advantage is centered, as in the paper.
SAMPLED_ACTIONS = 5


class DuelingPolicy(Policy):
    """A Gaussian policy with V(x) and Q(x, a) = V(x) + A(x, a) - mean of A(x, u_i) over sampled actions u_i ~ policy.

    V is the expectation of Q by construction, whatever the number of samples.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        width = self.vf_layer.kernel.shape[0] + self.head.width
        orthogonal = keras.initializers.Orthogonal
        self._hidden = keras.layers.Dense(
            ADVANTAGE_UNITS, "tanh", kernel_initializer=orthogonal(2.0**0.5), name="advantage_hidden"
        )
        self._advantage = keras.layers.Dense(1, kernel_initializer=orthogonal(1.0), name="advantage")
        self._hidden.build((None, width))
        self._advantage.build((None, ADVANTAGE_UNITS))

    @property
    def modules(self) -> list[Any]:
        """Modules of the policy, then of the advantage."""
        return [*super().modules, self._hidden, self._advantage]

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """Variables of the policy, then of the advantage."""
        return [
            *super().trainable_variables,
            *self._hidden.trainable_variables,
            *self._advantage.trainable_variables,
        ]

    def q_of(
        self, features: tf.Tensor, values: tf.Tensor, actions: list[tf.Tensor], center: list[tf.Tensor]
    ) -> list[tf.Tensor]:
        """Compute Q [B] of each batch of actions.

        Args:
            features: [B, F] latent of V (Outputs.features).
            values: [B] V.
            actions: batches of actions to evaluate, [B, ...] each.
            center: the sampled actions u_i, [B, ...] each.
        """
        middle = tf.add_n([self._advantage_of(features, action) for action in center]) / len(center)
        return [values + self._advantage_of(features, action) - middle for action in actions]

    def _advantage_of(self, features: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        flat = tf.reshape(actions, (-1, self.head.width))
        return in_full(self._advantage(self._hidden(tf.concat([features, flat], axis=-1))))[:, 0]


def with_noise(policy: DuelingPolicy, batch: dict[str, np.ndarray], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Extend a batch by the noise [N, T, 1 + n, d] of the sampled actions, first of a', then of the n u_i."""
    return batch | {"noise": policy.head.draw_noise(rng, (*batch["rewards"].shape, 1 + SAMPLED_ACTIONS))}


def continuous_terms(policy: DuelingPolicy, batch: Batch, coefficients: Coefficients) -> Terms:
    """Compute the loss of a batch for densities (the paper's algorithm 3).

    Args:
        policy: gives means, log deviations, V and the advantage of given actions.
        batch: the arrays of discrete_terms, mus the parameters that acted, and the noise of sampled actions.
        coefficients: numbers of the objective.
    """
    count, c = batch["actions"].shape[0], coefficients.c
    mean, total = mean_of_valid(batch)
    outputs = policy.forward(*inputs_of(batch))
    flat, v, features = (without_last(x, count) for x in (outputs.flat, outputs.value, outputs.features))
    f, mu = policy.head.distribution(flat), policy.head.distribution(merged(batch["mus"]))
    noise, a = merged(batch["noise"]), merged(batch["actions"])
    other = tf.stop_gradient(f.sample(noise[:, 0]))
    center = [tf.stop_gradient(f.sample(noise[:, k])) for k in range(1, noise.shape[1])]
    q_a, q_other = policy.q_of(features, v, [a, other], center)

    def ratio(taken: tf.Tensor) -> tf.Tensor:
        return tf.stop_gradient(tf.exp(tf.clip_by_value(f.logp(taken) - mu.logp(taken), -LARGEST, LARGEST)))

    rho, rho_other = ratio(a), ratio(other)
    weights = tf.minimum(1.0, rho ** (1.0 / policy.head.width))
    q_ret = targets_of(batch, q_a, outputs.value, weights, coefficients.gamma)
    q_opc = targets_of(batch, q_a, outputs.value, tf.ones_like(weights), coefficients.gamma)

    entropy = mean(f.entropy())
    loss_f = -mean(f.logp(a) * tf.stop_gradient(tf.minimum(c, rho) * (q_opc - v)))
    correction = tf.stop_gradient(tf.nn.relu(1.0 - c / rho_other) * (q_other - v))
    loss_bc = -mean(f.logp(other) * correction)
    loss_q = 0.5 * mean(tf.square(q_ret - q_a))
    loss_v = -mean(v * tf.stop_gradient(tf.minimum(1.0, rho) * (q_ret - q_a)))

    objective = loss_f + loss_bc - coefficients.ent_coef * entropy
    critic = coefficients.q_coef * (loss_q + loss_v)
    statistics = statistics_of(objective + critic, loss_q, entropy, loss_f, loss_bc)
    statistics |= explained_variances(q_ret, q_a, v, mean)
    return Terms(flat, lambda average: gaussian_kl_gradient(average, flat), objective, critic, statistics, mean, total)


def gaussian_kl_gradient(average: tf.Tensor, flat: tf.Tensor) -> tf.Tensor:
    """Compute the gradient of KL(average || policy) of diagonal Gaussians by the policy's means and log deviations.

    Args:
        average: [B, 2d] means and log deviations of the averaged policy.
        flat: [B, 2d] means and log deviations of the policy.
    """
    mean_0, logstd_0 = tf.split(average, 2, axis=-1)
    mean, logstd = tf.split(flat, 2, axis=-1)
    precision = tf.exp(-2.0 * logstd)
    spread = tf.exp(2.0 * logstd_0) + tf.square(mean_0 - mean)
    return tf.concat([(mean - mean_0) * precision, 1.0 - spread * precision], axis=-1)
