"""Policy gradients from what an older policy did: truncated importance weights with bias correction.

The mathematics of ACER (Wang et al. 2017, arXiv:1611.01224). A batch holds N sequences of T steps, padded by
truncated steps; see algs/acer/replay.py.

Retrace targets in the graph: they depend on the current policy and are computed anew for each batch.

The efficient trust region around an averaged policy (Wang et al. 2017, section 3.3): how far outputs may move.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from tfbaselines.algs.acer.dueling import DuelingPolicy
from tfbaselines.policy.policy import Policy


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
    """Targets of Q for sequences (Munos et al. 2016).

        target_t = r_t + gamma * (1 - ended_t) * carry_{t+1}
        carry_t  = weight_t * (target_t - q_t) + V_t,   carry_T = V of the observation after the last step

    A step that a time limit or the end of the recording cut off has no successor that is known: its own target means
    nothing, and the step before it bootstraps from its value, carry_t = V_t.

    Args:
        rewards: [N, T].
        terminated: [N, T], 1 where the step terminated its episode.
        truncated: [N, T], 1 where what came after the step is not known.
        q_taken: [N, T], Q of the action taken.
        values: [N, T], V of the observation before the step.
        last_values: [N], V of the observation after the last step.
        weights: [N, T], the truncated importance weights of the traces; 1 gives uncorrected returns.
        gamma: discount per step.

    Returns:
        targets [N, T], without gradient.
    """
    weights = weights * (1.0 - truncated)

    def step(later: tuple[tf.Tensor, tf.Tensor], now: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, tf.Tensor]:
        reward, going_on, q, value, weight = now
        target = reward + gamma * going_on * later[1]
        return target, weight * (target - q) + value

    by_time = [tf.transpose(x) for x in (rewards, 1.0 - terminated, q_taken, values, weights)]
    targets, _ = tf.scan(step, tuple(by_time), initializer=(tf.zeros_like(last_values), last_values), reverse=True)
    return tf.stop_gradient(tf.transpose(targets))


def bounded_gradient(
    gradient: tf.Tensor, kl_gradient: tf.Tensor, delta: float
) -> tuple[tf.Tensor, tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]]:
    """The nearest z to the ascent direction g with k . z <= delta, per row: z = g - max(0, (k.g - delta) / |k|^2) k.

    Args:
        gradient: g [B, P], of the objective with respect to the policy's outputs.
        kl_gradient: k [B, P], of KL(averaged policy || policy) with respect to the same outputs.
        delta: the bound.

    Returns:
        z [B, P], and the sizes of k, g, k.g and of the adjustment, [B] each.
    """
    k_dot_g = tf.reduce_sum(kl_gradient * gradient, axis=-1)
    k_dot_k = tf.reduce_sum(tf.square(kl_gradient), axis=-1)
    adjustment = tf.maximum(0.0, (k_dot_g - delta) / (k_dot_k + 1e-6))
    sizes = (row_norms(kl_gradient), row_norms(gradient), tf.abs(k_dot_g), tf.abs(adjustment))
    return gradient - adjustment[:, None] * kl_gradient, sizes


def row_norms(x: tf.Tensor) -> tf.Tensor:
    """Euclidean norms [B] of the rows of x [B, P]."""
    return tf.sqrt(tf.reduce_sum(tf.square(x), axis=-1))


def gaussian_kl_gradient(average: tf.Tensor, flat: tf.Tensor) -> tf.Tensor:
    """Gradient of KL(average || policy) of diagonal Gaussians by the policy's means and log deviations.

    Args:
        average: [B, 2d] means and log deviations of the averaged policy.
        flat: [B, 2d] of the policy.
    """
    (mean_0, logstd_0), (mean, logstd) = tf.split(average, 2, axis=-1), tf.split(flat, 2, axis=-1)
    precision = tf.exp(-2.0 * logstd)
    spread = tf.exp(2.0 * logstd_0) + tf.square(mean_0 - mean)
    return tf.concat([(mean - mean_0) * precision, 1.0 - spread * precision], axis=-1)


# Keeps logarithms and quotients of probabilities finite, as in the original.
EPSILON = 1e-6
# Importance ratios of densities are kept between exp(-LARGEST) and exp(LARGEST).
LARGEST = 20.0
# Actions over which the advantage of continuous ones is centred, as in the paper.
SAMPLED_ACTIONS = 5

Statistics = dict[str, tf.Tensor]
Forward = Callable[..., tf.Tensor]

# Names of what `bounded_gradient` returns beside the gradient.
SIZES = ("avg_norm_k", "avg_norm_g", "avg_norm_k_dot_g", "avg_norm_adj")


class Coefficients(NamedTuple):
    """The numbers of the objective; see learn of algs/acer.py."""

    q_coef: float
    ent_coef: float
    gamma: float
    c: float
    delta: float
    trust_region: bool | str


class Terms(NamedTuple):
    """What the gradient of one batch is put together from.

    Attributes:
        phi: [B, P] the policy's outputs, whose gradient the trust region bounds.
        kl_gradient: from the averaged policy's parameters [B, P], the gradient of KL(averaged || policy) by phi.
        objective: the policy's loss, entropy included.
        critic: the weighted loss of Q.
        statistics: of the losses, by name.
        mean: mean over the valid steps.
        total: number of valid steps.
    """

    phi: tf.Tensor
    kl_gradient: Callable[[tf.Tensor], tf.Tensor]
    objective: tf.Tensor
    critic: tf.Tensor
    statistics: Statistics
    mean: Callable[[tf.Tensor], tf.Tensor]
    total: tf.Tensor


def discrete_terms(policy: Policy, batch: dict[str, tf.Tensor], coefficients: Coefficients) -> Terms:
    """The module's formulas with the exact expectation over Discrete actions.

    Args:
        policy: gives logits and a Q of each action.
        batch: obs [N, T + 1, ...], actions, rewards, terminated, truncated [N, T], mus [N, T, A] the logits that acted;
            recurrent policies: episode_start [N, T + 1] and states [N, 1 or T, S].
        coefficients: see learn.
    """
    count, c = batch["actions"].shape[0], coefficients.c
    mean, total = _mean_of_valid(batch)
    outputs = policy.forward(*_inputs(batch))
    probabilities, q_all = tf.nn.softmax(outputs.flat), outputs.value
    v_all = tf.reduce_sum(probabilities * q_all, axis=-1)
    f, q, v = (_without_last(x, count) for x in (probabilities, q_all, v_all))
    actions = tf.reshape(batch["actions"], [-1]) - policy.action_space.start
    f_a, q_a = (tf.gather(x, actions, batch_dims=1) for x in (f, q))
    rho = tf.stop_gradient(f / (tf.nn.softmax(_merge(batch["mus"])) + EPSILON))
    rho_a = tf.gather(rho, actions, batch_dims=1)
    targets = _targets(batch, q_a, v_all, tf.minimum(1.0, rho_a), coefficients.gamma)

    log_f = tf.math.log(f + EPSILON)
    entropy = mean(-tf.reduce_sum(f * log_f, axis=-1))
    advantage = tf.stop_gradient((targets - v) * tf.minimum(c, rho_a))
    loss_f = -mean(tf.math.log(f_a + EPSILON) * advantage)
    correction = tf.stop_gradient((q - v[:, None]) * tf.nn.relu(1.0 - c / (rho + EPSILON)) * f)
    loss_bc = -mean(tf.reduce_sum(log_f * correction, axis=-1))
    loss_q = 0.5 * mean(tf.square(targets - q_a))
    objective, critic = loss_f + loss_bc - coefficients.ent_coef * entropy, coefficients.q_coef * loss_q
    statistics = _statistics(objective + critic, loss_q, entropy, loss_f, loss_bc)
    statistics |= _explained(targets, q_a, v, mean)
    return Terms(f, lambda flat: -tf.nn.softmax(flat) / (f + EPSILON), objective, critic, statistics, mean, total)


def continuous_terms(policy: DuelingPolicy, batch: dict[str, tf.Tensor], coefficients: Coefficients) -> Terms:
    """The same for densities (the paper's section 5 and algorithm 3): one sampled action a' stands for the expectation.

    Weights of the traces are min(1, rho^(1/d)) for actions of d dimensions, the policy is led by returns whose traces
    are not cut at all, and Q is the stochastic duelling network's, whose error also moves V.

    Args:
        policy: gives means, log deviations, V and the advantage of given actions.
        batch: as for discrete_terms, mus the parameters that acted, and noise [N, T, 1 + n, d]: of a', and of the n
            actions over which the advantage is centred.
        coefficients: see learn.
    """
    count, c = batch["actions"].shape[0], coefficients.c
    mean, total = _mean_of_valid(batch)
    outputs = policy.forward(*_inputs(batch))
    flat, v, features = (_without_last(x, count) for x in (outputs.flat, outputs.value, outputs.features))
    now, then = policy.head.distribution(flat), policy.head.distribution(_merge(batch["mus"]))
    noise = _merge(batch["noise"])
    actions = _merge(batch["actions"])
    other = tf.stop_gradient(now.sample(noise[:, 0]))
    centre = [tf.stop_gradient(now.sample(noise[:, k])) for k in range(1, noise.shape[1])]
    q_a, q_other = policy.q_of(features, v, [actions, other], centre)

    def ratio(taken: tf.Tensor) -> tf.Tensor:
        return tf.stop_gradient(tf.exp(tf.clip_by_value(now.logp(taken) - then.logp(taken), -LARGEST, LARGEST)))

    rho, rho_other = ratio(actions), ratio(other)
    trace = tf.minimum(1.0, rho ** (1.0 / policy.head.width))
    targets = _targets(batch, q_a, outputs.value, trace, coefficients.gamma)
    uncut = _targets(batch, q_a, outputs.value, tf.ones_like(trace), coefficients.gamma)

    entropy = mean(now.entropy())
    loss_f = -mean(now.logp(actions) * tf.stop_gradient(tf.minimum(c, rho) * (uncut - v)))
    correction = tf.stop_gradient(tf.nn.relu(1.0 - c / rho_other) * (q_other - v))
    loss_bc = -mean(now.logp(other) * correction)
    loss_q = 0.5 * mean(tf.square(targets - q_a))
    loss_v = -mean(v * tf.stop_gradient(tf.minimum(1.0, rho) * (targets - q_a)))
    objective = loss_f + loss_bc - coefficients.ent_coef * entropy
    critic = coefficients.q_coef * (loss_q + loss_v)
    statistics = _statistics(objective + critic, loss_q, entropy, loss_f, loss_bc)
    statistics |= _explained(targets, q_a, v, mean)
    return Terms(flat, lambda average: gaussian_kl_gradient(average, flat), objective, critic, statistics, mean, total)


def divergence(policy: Policy, average: Forward, batch: dict[str, tf.Tensor]) -> tf.Tensor:
    """Mean of KL(averaged policy || policy) over the steps of a batch; arguments as for `gradients`."""
    mean, _ = _mean_of_valid(batch)
    inputs, count = _inputs(batch), batch["actions"].shape[0]
    flats = (average(*inputs), policy.forward(*inputs).flat)
    then, now = (policy.head.distribution(_without_last(flat, count)) for flat in flats)
    return mean(then.kl(now))


def gradients(
    terms_of: Callable[..., Terms],
    policy: Policy,
    average: Forward,
    batch: dict[str, tf.Tensor],
    coefficients: Coefficients,
    apart: bool = True,
) -> tuple[list[tf.Tensor], Statistics]:
    """Gradients of one batch, bounded by the efficient trust region if it is on, and the statistics.

    Args:
        terms_of: discrete_terms or continuous_terms.
        policy: the policy that learns.
        average: the averaged policy's distribution parameters for a batch of observations, episode_start and states.
        batch: see discrete_terms.
        coefficients: see Coefficients.
        apart: take the gradients of policy and critic one by one, for the trust region's statistics; otherwise one
            backward pass does for both, without them.
    """
    variables = [variable.value for variable in policy.trainable_variables]
    with tf.GradientTape(persistent=True) as tape:
        terms = terms_of(policy, batch, coefficients)
        loss = terms.objective + terms.critic
    if coefficients.trust_region is not True:
        whole = tape.gradient(loss, variables, unconnected_gradients="zero")
        return whole, terms.statistics | {"norm_grads": tf.linalg.global_norm(whole)}
    mean, total = terms.mean, terms.total
    then = _without_last(average(*_inputs(batch)), batch["actions"].shape[0])
    ascent = -tape.gradient(terms.objective, terms.phi) * total
    bounded, sizes = bounded_gradient(ascent, terms.kl_gradient(then), coefficients.delta)
    if not apart:
        whole = tape.gradient(
            [terms.phi, terms.critic], variables, [-bounded / total, tf.ones([])], unconnected_gradients="zero"
        )
        return whole, terms.statistics | {"norm_grads": tf.linalg.global_norm(whole)}
    of_policy = tape.gradient(terms.phi, variables, output_gradients=-bounded / total, unconnected_gradients="zero")
    of_q = tape.gradient(terms.critic, variables, unconnected_gradients="zero")
    whole = [one + other for one, other in zip(of_policy, of_q, strict=True)]
    norms = {"norm_grads": whole, "norm_grads_q": of_q, "norm_grads_policy": of_policy}
    rows = {"avg_norm_grads_f": row_norms(bounded)} | dict(zip(SIZES, sizes, strict=True))
    return whole, (
        terms.statistics
        | {name: tf.linalg.global_norm(gradient) for name, gradient in norms.items()}
        | {name: mean(row) for name, row in rows.items()}
    )


def _inputs(batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor | None, tf.Tensor | None]:
    """Observations, episode_start and states as the policy takes them: rows ordered by sequence, then time."""
    states = batch.get("states")
    if states is None:
        return _merge(batch["obs"]), None, None
    return _merge(batch["obs"]), _merge(batch["episode_start"]), states[:, 0]


def _merge(x: tf.Tensor) -> tf.Tensor:
    return tf.reshape(x, (-1, *x.shape[2:]))


def _without_last(x: tf.Tensor, count: int) -> tf.Tensor:
    """Rows [N * (T + 1), ...] without each sequence's last."""
    return _merge(tf.reshape(x, (count, -1, *x.shape[1:]))[:, :-1])


def _mean_of_valid(batch: dict[str, tf.Tensor]) -> tuple[Callable[[tf.Tensor], tf.Tensor], tf.Tensor]:
    """The mean over the steps that are not truncated, and their number."""
    valid = tf.reshape(1.0 - batch["truncated"], [-1])
    total = tf.maximum(tf.reduce_sum(valid), 1.0)
    return lambda x: tf.reduce_sum(x * valid) / total, total


def _targets(
    batch: dict[str, tf.Tensor], q_taken: tf.Tensor, v_all: tf.Tensor, weights: tf.Tensor, gamma: float
) -> tf.Tensor:
    """Retrace targets of all rows; v_all has the observation after the last step too."""
    shape = batch["rewards"].shape
    values = tf.reshape(v_all, (shape[0], -1))
    q_taken, weights = tf.reshape(q_taken, shape), tf.reshape(weights, shape)
    targets = retrace(
        batch["rewards"],
        batch["terminated"],
        batch["truncated"],
        q_taken,
        values[:, :-1],
        values[:, -1],
        weights,
        gamma,
    )
    return tf.reshape(targets, [-1])


def _statistics(
    loss: tf.Tensor, loss_q: tf.Tensor, entropy: tf.Tensor, loss_f: tf.Tensor, loss_bc: tf.Tensor
) -> Statistics:
    """The losses under the original's names."""
    return {
        "loss": loss,
        "loss_q": loss_q,
        "entropy": entropy,
        "loss_policy": loss_f + loss_bc,
        "loss_f": loss_f,
        "loss_bc": loss_bc,
    }


def _explained(targets: tf.Tensor, q: tf.Tensor, v: tf.Tensor, mean: Callable[[tf.Tensor], tf.Tensor]) -> Statistics:
    """Share of the targets' variance that Q and V explain."""

    def variance(x: tf.Tensor) -> tf.Tensor:
        return mean(tf.square(x - mean(x)))

    def explained(predictions: tf.Tensor) -> tf.Tensor:
        return 1.0 - variance(targets - predictions) / variance(targets)

    return {"explained_variance": explained(q), "explained_variance_v": explained(v)}
