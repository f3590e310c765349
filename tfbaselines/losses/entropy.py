"""Soft values: expectations over a policy's actions, and the entropy that a temperature is learnt for."""

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.envs.vec.action_mask import MASK as ACTION_MASK
from tfbaselines.policy.actor_critic import ActorCritic, View

# Share of the largest entropy of discrete actions that a temperature is learnt for.
DISCRETE_ENTROPY = 0.2


def expectation(
    policy: ActorCritic, critics: ActorCritic, view: View, noise: tf.Tensor | None
) -> tuple[tf.Tensor, tf.Tensor]:
    """The smallest of the critics' values [B] and log pi [B], expected over the policy's actions.

    Critics of K reward signals have values [B, K]. Of continuous actions one is drawn, of discrete ones the expectation
    is exact.

    Args:
        policy: whose actions.
        critics: who value them.
        view: the observations.
        noise: [B, n] to draw with; not used for discrete actions.
    """
    flat = policy.act(view)
    if not policy.discrete:
        actions, logp = policy.head.sample(flat, noise)
        return critics.least(critics.q(view, actions)), logp
    logp = policy.log_probabilities(flat)
    probabilities = tf.exp(logp)
    values = critics.least(critics.q_all(view))
    weights = probabilities if critics.streams is None else probabilities[:, :, None]
    return tf.reduce_sum(weights * values, axis=1), tf.reduce_sum(probabilities * logp, axis=1)


def allowed_share(policy: ActorCritic, view: View) -> tf.Tensor | float:
    """Largest entropy [B] of the actions that masks allow, as a share of the largest of all actions; 1 without masks.

    A target entropy that counts actions which are not allowed cannot be reached, and a temperature learnt for it grows
    without bound.
    """
    if not policy.masked:
        return 1.0
    space = policy.action_space
    widths = [int(space.n)] if isinstance(space, spaces.Discrete) else space.nvec.ravel().tolist()
    parts = tf.split(tf.cast(view.encoded[ACTION_MASK], tf.float32), widths, axis=-1)
    allowed = [tf.math.log(tf.maximum(tf.reduce_sum(part, axis=-1), 1.0)) for part in parts]
    return tf.add_n(allowed) / max(float(np.sum(np.log(widths))), 1e-6)


def default_target_entropy(space: spaces.Space) -> float:
    """Minus the number of continuous actions, or a part of the greatest entropy of discrete ones."""
    if isinstance(space, spaces.Box):
        return -float(np.prod(space.shape))
    choices = [space.n] if isinstance(space, spaces.Discrete) else space.nvec.ravel()
    return DISCRETE_ENTROPY * float(np.sum(np.log(choices)))
