"""What keeps a policy near a data set, or values low away from it, when nothing else is learnt from."""

import math

import numpy as np
import tensorflow as tf

from tfbaselines.losses.off_policy import Batch, mean
from tfbaselines.policy.actor_critic import ActorCritic, View


def behaviour_regularized(
    policy: ActorCritic, batch: Batch, q: tf.Tensor, actions: tf.Tensor, alpha: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """TD3+BC's loss of a deterministic actor (Fujimoto and Gu 2021, arXiv:2106.06860), and its second term:

        -lambda E[Q(s, pi(s))] + E[(pi(s) - a)^2],   lambda = alpha / E|Q(s, pi(s))|

    with actions in units of their bounds.

    Args:
        policy: whose head scales actions.
        batch: the data's actions [B, ...].
        q: Q(s, pi(s)) [B].
        actions: pi(s) [B, ...].
        alpha: weight of the values.
    """
    # Values that are all zero say nothing of actions.
    weight = tf.math.divide_no_nan(tf.cast(alpha, q.dtype), tf.stop_gradient(mean(batch, tf.abs(q))))
    squared = tf.square(policy.head.unit(actions) - policy.head.unit(batch["actions"]))
    distance = mean(batch, tf.reduce_mean(squared, axis=-1))
    return distance - weight * mean(batch, q), distance


def sampled_actions(
    policy: ActorCritic, view: View, uniform: tf.Tensor, noise: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Actions [B, 2N, ...], N uniform ones and N of the policy, and the log density [B, 2N] of each.

    Args:
        policy: with continuous actions.
        view: the observations.
        uniform: [B, N, n] in -1..1.
        noise: [B, N, n] to draw the policy's with.
    """
    head, (_, count, width) = policy.head, uniform.shape
    flat = tf.repeat(policy.act(view), count, axis=0)
    own, logp = head.sample(flat, tf.reshape(noise, (-1, width)))
    actions = [tf.reshape(one, (-1, count, *head.action_shape)) for one in (head.scaled(_rows(uniform)), own)]
    logp = tf.reshape(logp, (-1, count))
    return tf.concat(actions, axis=1), tf.concat([tf.fill(tf.shape(logp), -width * math.log(2.0)), logp], axis=1)


def conservative_gaps(policy: ActorCritic, batch: Batch, values: list[tf.Tensor]) -> list[tf.Tensor]:
    """CQL(H)'s penalty of each critic (Kumar et al. 2020, arXiv:2006.04779): E[log sum_a exp Q(s, a) - Q(s, a_data)].

    Of continuous actions the sum is an integral, which samples estimate: log E[exp(Q(s, a)) / density(a)].

    Args:
        policy: gives the critics.
        batch: view 'now', and the data's actions; of continuous ones 'sampled' and 'log_density' of `sampled_actions`.
        values: of the data's actions, [B] of each critic.
    """
    view = batch["now"]
    if policy.discrete:
        # Of several choices at once the values are added, so that the sums factorise.
        chosen = policy.choices(batch["actions"])
        return [-mean(batch, tf.reduce_sum(chosen * policy.log_probabilities(q), axis=-1)) for q in policy.q_all(view)]
    density = batch["log_density"]
    count = np.float32(math.log(density.shape[1]))
    every = policy.q_of_several(view, batch["sampled"])
    soft = [tf.reduce_logsumexp(q - density, axis=1) - count for q in every]
    return [mean(batch, high - value) for high, value in zip(soft, values, strict=True)]


def _rows(x: tf.Tensor) -> tf.Tensor:
    return tf.reshape(x, (-1, x.shape[-1]))
