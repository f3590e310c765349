"""The intrinsic curiosity module's errors: pure functions of tensors [B, ...]."""

import tensorflow as tf
from gymnasium import spaces

from tfbaselines.policy.protocol import Head


def forward_error(predicted: tf.Tensor, encoding: tf.Tensor) -> tf.Tensor:
    """Half the squared distance [B] between the encoding that was predicted and the one that followed.

    Args:
        predicted: [B, E].
        encoding: [B, E].
    """
    return 0.5 * tf.reduce_sum(tf.square(predicted - encoding), axis=-1)


def inverse_error(output: tf.Tensor, actions: tf.Tensor, action_space: spaces.Space, head: Head) -> tf.Tensor:
    """How far [B] the inverse model's output is from the actions taken.

    Half the squared distance of Box actions, and for the others the negative log probability of the actions under the
    distribution with these parameters.

    Args:
        output: [B, P].
        actions: [B, ...].
        action_space: of one environment.
        head: of that space.
    """
    if isinstance(action_space, spaces.Box):
        taken = tf.reshape(tf.cast(actions, tf.float32), tf.shape(output))
        return 0.5 * tf.reduce_sum(tf.square(output - taken), axis=-1)
    return head.distribution(output).neglogp(actions)
