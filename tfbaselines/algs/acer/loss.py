"""ACER's loss (Wang et al. 2017, arXiv:1611.01224).

For each step, f is the policy, mu the policy that acted, f_avg the averaged policy, rho(b) = f(b) / mu(b), and
V = sum_b f(b) Q(b). The policy ascends

    min(c, rho(a)) (Q^ret - V) log f(a)  +  sum_b max(0, 1 - c / rho(b)) f(b) (Q(b) - V) log f(b)  +  ent_coef H[f]

with the factors before log f constant, and Q descends q_coef * 0.5 (Q^ret - Q(a))^2. The trust region replaces the
gradient g of the policy's objective with respect to f by z = g - max(0, (k.g - delta) / |k|^2) k, where k is the
gradient of KL(f_avg || f).

For Box actions (section 5), a stochastic dueling network gives Q, and one sampled action a' stands for the expectation
over actions. Retrace truncates with min(1, rho^(1/d)) for actions of d dimensions, the policy follows returns without
truncation, and the error of Q also moves V.

A batch holds N sequences of T steps, see replay.py. Steps marked as truncated do not count.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.policy.layers import in_full
from tfbaselines.policy.policy import Policy
from tfbaselines.policy.previous_action import PreviousActionPolicy

# Keeps logarithms and quotients of probabilities finite, as in the original.
EPSILON = 1e-6

Batch = dict[str, tf.Tensor]
Statistics = dict[str, tf.Tensor]
Mean = Callable[[tf.Tensor], tf.Tensor]


class Coefficients(NamedTuple):
    """Numbers of the objective; the Config describes them."""

    q_coef: float
    ent_coef: float
    gamma: float
    c: float
    delta: float
    trust_region: bool | str


class Terms(NamedTuple):
    """Parts of the loss of one batch."""

    # [B, P] the policy's outputs; the trust region bounds the gradient with respect to them.
    phi: tf.Tensor
    # Function of the averaged policy's outputs [B, P] that returns the gradient of the KL divergence.
    kl_gradient: Callable[[tf.Tensor], tf.Tensor]
    # The policy's loss, entropy included, and the weighted loss of Q.
    objective: tf.Tensor
    critic: tf.Tensor
    statistics: Statistics
    # Takes the mean over the valid steps, and their number.
    mean: Mean
    total: tf.Tensor


def retrace(
    rewards: tf.Tensor,
    terminated: tf.Tensor,
    truncated: tf.Tensor,
    q_taken: tf.Tensor,
    values: tf.Tensor,
    last_values: tf.Tensor,
    weights: tf.Tensor,
    gamma: float,
) -> tf.Tensor:
    """Compute the Retrace targets of Q (Munos et al. 2016).

        Q^ret_t = r_t + gamma (1 - terminated_t) carry_{t+1}
        carry_t = weight_t (Q^ret_t - Q_t) + V_t,   carry_T = V of the observation after the last step

    The successor of a truncated step is unknown: its own target has no meaning, and the step before it bootstraps from
    its value, carry_t = V_t.

    Args:
        rewards: [N, T].
        terminated: [N, T], 1 where the step terminated its episode.
        truncated: [N, T], 1 where the observation after the step is unknown.
        q_taken: [N, T], Q of the action taken.
        values: [N, T], V of the observation before the step.
        last_values: [N], V of the observation after the last step.
        weights: [N, T], truncated importance weights; 1 gives uncorrected returns.
        gamma: discount per step.

    Returns:
        Targets [N, T], without gradient.
    """
    weights = weights * (1.0 - truncated)

    def step(carry: tuple[tf.Tensor, tf.Tensor], now: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, tf.Tensor]:
        reward, continues, q, value, weight = now
        target = reward + gamma * continues * carry[1]
        return target, weight * (target - q) + value

    by_time = [tf.transpose(x) for x in (rewards, 1.0 - terminated, q_taken, values, weights)]
    targets, _ = tf.scan(step, tuple(by_time), initializer=(tf.zeros_like(last_values), last_values), reverse=True)
    return tf.stop_gradient(tf.transpose(targets))


def discrete_terms(policy: Policy, batch: Batch, coefficients: Coefficients) -> Terms:
    """Compute the loss of a batch, with the exact expectation over Discrete actions.

    Args:
        policy: gives logits, and Q of each action.
        batch: obs [N, T + 1, ...], actions, rewards, terminated, truncated [N, T], mus [N, T, A] the logits that acted;
            recurrent policies: episode_start [N, T + 1] and states [N, 1 or T, S].
        coefficients: numbers of the objective.
    """
    count, c = batch["actions"].shape[0], coefficients.c
    mean, total = mean_of_valid(batch)
    outputs = policy.forward(**inputs_of(policy, batch))
    probabilities, q_all = tf.nn.softmax(outputs.flat), outputs.value
    v_all = tf.reduce_sum(probabilities * q_all, axis=-1)
    f, q, v = (without_last(x, count) for x in (probabilities, q_all, v_all))
    a = tf.reshape(batch["actions"], [-1]) - policy.action_space.start
    f_a, q_a = (tf.gather(x, a, batch_dims=1) for x in (f, q))
    rho = tf.stop_gradient(f / (tf.nn.softmax(merged(batch["mus"])) + EPSILON))
    rho_a = tf.gather(rho, a, batch_dims=1)
    q_ret = targets_of(batch, q_a, v_all, tf.minimum(1.0, rho_a), coefficients.gamma)

    log_f = tf.math.log(f + EPSILON)
    entropy = mean(-tf.reduce_sum(f * log_f, axis=-1))
    loss_f = -mean(tf.math.log(f_a + EPSILON) * tf.stop_gradient(tf.minimum(c, rho_a) * (q_ret - v)))
    correction = tf.stop_gradient(tf.nn.relu(1.0 - c / (rho + EPSILON)) * f * (q - v[:, None]))
    loss_bc = -mean(tf.reduce_sum(log_f * correction, axis=-1))
    loss_q = 0.5 * mean(tf.square(q_ret - q_a))

    objective = loss_f + loss_bc - coefficients.ent_coef * entropy
    critic = coefficients.q_coef * loss_q
    statistics = {"loss": objective + critic, "loss_q": loss_q, "entropy": entropy, "loss_policy": loss_f + loss_bc}
    statistics |= {"loss_f": loss_f, "loss_bc": loss_bc} | explained_variances(q_ret, q_a, v, mean)
    return Terms(f, lambda flat: -tf.nn.softmax(flat) / (f + EPSILON), objective, critic, statistics, mean, total)


def bounded_gradient(g: tf.Tensor, k: tf.Tensor, delta: float) -> tuple[tf.Tensor, Statistics]:
    """Find the nearest z to g with k . z <= delta, in each row: z = g - max(0, (k.g - delta) / |k|^2) k.

    Args:
        g: [B, P] ascent direction: gradient of the objective with respect to the policy's outputs.
        k: [B, P] gradient of KL(averaged policy || policy) with respect to the same outputs.
        delta: the bound.

    Returns:
        z [B, P], and the magnitudes of k, g, k.g and of the adjustment [B] by the names that they have in the logs.
    """
    k_dot_g = tf.reduce_sum(k * g, axis=-1)
    adjustment = tf.maximum(0.0, (k_dot_g - delta) / (tf.reduce_sum(tf.square(k), axis=-1) + EPSILON))
    return g - adjustment[:, None] * k, {
        "avg_norm_k": row_norms(k),
        "avg_norm_g": row_norms(g),
        "avg_norm_k_dot_g": tf.abs(k_dot_g),
        "avg_norm_adj": tf.abs(adjustment),
    }


def gradients(
    terms_of: Callable[..., Terms],
    policy: Policy,
    average: Callable[..., tf.Tensor],
    batch: Batch,
    coefficients: Coefficients,
    apart: bool = True,
) -> tuple[list[tf.Tensor], Statistics]:
    """Compute the gradients of one batch, bounded by the efficient trust region if it is on, and the statistics.

    Args:
        terms_of: discrete_terms, or continuous_terms.
        policy: the policy that learns.
        average: returns the averaged policy's outputs for the arguments of `forward`.
        batch: the arguments of `terms_of` describe it.
        coefficients: numbers of the objective.
        apart: take the gradients of policy and critic separately, for the trust region's statistics. One backward pass
            computes both otherwise, and these statistics are left out.
    """
    variables = [variable.value for variable in policy.trainable_variables]
    with tf.GradientTape(persistent=True) as tape:
        terms = terms_of(policy, batch, coefficients)
        loss = terms.objective + terms.critic
    if coefficients.trust_region is not True:
        whole = tape.gradient(loss, variables, unconnected_gradients="zero")
        return whole, terms.statistics | {"norm_grads": tf.linalg.global_norm(whole)}
    mean, total = terms.mean, terms.total
    g = -tape.gradient(terms.objective, terms.phi) * total
    k = terms.kl_gradient(without_last(average(**inputs_of(policy, batch)), batch["actions"].shape[0]))
    z, sizes = bounded_gradient(g, k, coefficients.delta)
    if not apart:
        sources, down = [terms.phi, terms.critic], [-z / total, tf.ones([])]
        whole = tape.gradient(sources, variables, down, unconnected_gradients="zero")
        return whole, terms.statistics | {"norm_grads": tf.linalg.global_norm(whole)}
    of_policy = tape.gradient(terms.phi, variables, output_gradients=-z / total, unconnected_gradients="zero")
    of_q = tape.gradient(terms.critic, variables, unconnected_gradients="zero")
    whole = [one + other for one, other in zip(of_policy, of_q, strict=True)]
    norms = {"norm_grads": whole, "norm_grads_q": of_q, "norm_grads_policy": of_policy}
    statistics = terms.statistics | {name: tf.linalg.global_norm(gradient) for name, gradient in norms.items()}
    return whole, statistics | {name: mean(row) for name, row in ({"avg_norm_grads_f": row_norms(z)} | sizes).items()}


def inputs_of(policy: Policy, batch: Batch) -> dict[str, tf.Tensor]:
    """Return the arguments of the policy's `forward`: rows ordered by sequence, then time."""
    inputs, states = {"obs": merged(batch["obs"])}, batch.get("states")
    if states is None:
        return inputs
    # The observation after the last step has no action; no row depends on one.
    actions = tf.concat([batch["actions"], batch["actions"][:, -1:]], axis=1)
    further = policy.sequence_inputs({"actions": merged(actions)})
    return inputs | {"episode_start": merged(batch["episode_start"]), "states": states[:, 0]} | further


def merged(x: tf.Tensor) -> tf.Tensor:
    """Merge the first two axes: [N, T, ...] becomes [N * T, ...]."""
    return tf.reshape(x, (-1, *x.shape[2:]))


def without_last(x: tf.Tensor, count: int) -> tf.Tensor:
    """Drop the last row of each of `count` sequences from rows [N * (T + 1), ...]."""
    return merged(tf.reshape(x, (count, -1, *x.shape[1:]))[:, :-1])


def mean_of_valid(batch: Batch) -> tuple[Mean, tf.Tensor]:
    """Return the mean over the steps that are not truncated, as a function, and the number of these steps."""
    valid = tf.reshape(1.0 - batch["truncated"], [-1])
    total = tf.maximum(tf.reduce_sum(valid), 1.0)
    return lambda x: tf.reduce_sum(x * valid) / total, total


def targets_of(batch: Batch, q_taken: tf.Tensor, v_all: tf.Tensor, weights: tf.Tensor, gamma: float) -> tf.Tensor:
    """Compute Retrace targets [N * T] from rows; v_all [N * (T + 1)] includes the observation after the last step."""
    shape = batch["rewards"].shape
    values = tf.reshape(v_all, (shape[0], -1))
    targets = retrace(
        batch["rewards"],
        batch["terminated"],
        batch["truncated"],
        tf.reshape(q_taken, shape),
        values[:, :-1],
        values[:, -1],
        tf.reshape(weights, shape),
        gamma,
    )
    return tf.reshape(targets, [-1])


def row_norms(x: tf.Tensor) -> tf.Tensor:
    """Compute the Euclidean norms [B] of the rows of x [B, P]."""
    return tf.sqrt(tf.reduce_sum(tf.square(x), axis=-1))


def explained_variances(targets: tf.Tensor, q: tf.Tensor, v: tf.Tensor, mean: Mean) -> Statistics:
    """Compute the shares of the targets' variance that Q and V explain."""

    def variance(x: tf.Tensor) -> tf.Tensor:
        return mean(tf.square(x - mean(x)))

    def explained(predictions: tf.Tensor) -> tf.Tensor:
        return 1.0 - variance(targets - predictions) / variance(targets)

    return {"explained_variance": explained(q), "explained_variance_v": explained(v)}


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
        self._advantage = [
            keras.layers.Dense(
                ADVANTAGE_UNITS, "tanh", kernel_initializer=orthogonal(2.0**0.5), name="advantage_hidden"
            ),
            keras.layers.Dense(1, kernel_initializer=orthogonal(1.0), name="advantage"),
        ]
        for layer, inputs in zip(self._advantage, (width, ADVANTAGE_UNITS), strict=True):
            layer.build((None, inputs))

    @property
    def modules(self) -> list[Any]:
        return [*super().modules, *self._advantage]

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        return super().trainable_variables + [v for layer in self._advantage for v in layer.trainable_variables]

    @property
    def parameter_groups(self) -> dict[str, list[keras.Variable]]:
        advantage = [variable for layer in self._advantage for variable in layer.trainable_variables]
        return super().parameter_groups | {"a": advantage}

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
        hidden, advantage = self._advantage
        return in_full(advantage(hidden(tf.concat([features, flat], axis=-1))))[:, 0]


class PreviousActionDuelingPolicy(PreviousActionPolicy, DuelingPolicy):
    """A DuelingPolicy with memory that sees the previous action."""


def with_noise(policy: DuelingPolicy, batch: dict[str, np.ndarray], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Extend a batch by the noise [N, T, 1 + n, d] of the sampled actions, first of a', then of the n u_i."""
    return batch | {"noise": policy.head.draw_noise(rng, (*batch["rewards"].shape, 1 + SAMPLED_ACTIONS))}


def continuous_terms(policy: DuelingPolicy, batch: Batch, coefficients: Coefficients) -> Terms:
    """Compute the loss of a batch for densities (the paper's algorithm 3).

    The batch has the arrays of discrete_terms, with mus the parameters that acted, and the noise of sampled actions.
    """
    count, c = batch["actions"].shape[0], coefficients.c
    mean, total = mean_of_valid(batch)
    outputs = policy.forward(**inputs_of(policy, batch))
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
    statistics = {"loss": objective + critic, "loss_q": loss_q, "entropy": entropy, "loss_policy": loss_f + loss_bc}
    statistics |= {"loss_f": loss_f, "loss_bc": loss_bc} | explained_variances(q_ret, q_a, v, mean)
    return Terms(flat, lambda average: gaussian_kl_gradient(average, flat), objective, critic, statistics, mean, total)


def gaussian_kl_gradient(average: tf.Tensor, flat: tf.Tensor) -> tf.Tensor:
    """Compute the gradient of KL(average || policy) of diagonal Gaussians by the policy's parameters.

    `average` and `flat` [B, 2d] are means and log deviations of the averaged policy and of the policy.
    """
    mean_0, logstd_0 = tf.split(average, 2, axis=-1)
    mean, logstd = tf.split(flat, 2, axis=-1)
    precision = tf.exp(-2.0 * logstd)
    spread = tf.exp(2.0 * logstd_0) + tf.square(mean_0 - mean)
    return tf.concat([(mean - mean_0) * precision, 1.0 - spread * precision], axis=-1)
