"""Retrace targets in the graph: they depend on the current policy and are computed anew for each batch."""

import tensorflow as tf


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
