"""Arrays of many shapes as one vector, and back.

What is done to each of a dozen small arrays costs XLA a dozen kernels, which cost more than the arithmetic in them.
"""

import math
from collections.abc import Sequence

import keras
import tensorflow as tf

# Numbers up to which one vector is faster than many arrays: beyond them it is copied for longer than kernels take.
FEW = 100_000


def joined(arrays: Sequence[tf.Tensor]) -> tf.Tensor:
    """Arrays end to end as one float32 vector: one message between ranks, one copy out of a compiled call."""
    return tf.concat([tf.reshape(array, [-1]) for array in arrays], 0)


def taken_apart(flat: tf.Tensor, like: Sequence[keras.Variable | tf.Tensor]) -> list[tf.Tensor]:
    """What `joined` put together, in the shapes of variables or arrays."""
    parts = tf.split(flat, [math.prod(one.shape) for one in like])
    return [tf.reshape(part, one.shape) for part, one in zip(parts, like, strict=True)]


def numbers_in(variables: Sequence[keras.Variable]) -> int:
    """How many numbers variables have together."""
    return sum(math.prod(variable.shape) for variable in variables)


def few(variables: Sequence[keras.Variable]) -> bool:
    """Whether variables are so small that one vector is faster than all of them."""
    return numbers_in(variables) <= FEW


def clipped(gradients: Sequence[tf.Tensor], variables: Sequence[keras.Variable], most: float) -> list[tf.Tensor]:
    """Gradients, shortened together to a global norm of at most `most`.

    Args:
        gradients: one for each variable.
        variables: whose shapes they have.
        most: the bound.
    """
    if not few(variables):
        return tf.clip_by_global_norm(gradients, most)[0]
    (flat,), _ = tf.clip_by_global_norm([joined(gradients)], most)
    return taken_apart(flat, variables)
