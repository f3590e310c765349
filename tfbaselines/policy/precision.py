"""bfloat16 inside the networks, and float32 for everything computed from their outputs."""

import tensorflow as tf

from tfbaselines.policy.base import BasePolicy

OPTION = "auto_mixed_precision_onednn_bfloat16"

# Units from which on a dense layer is faster in oneDNN's bfloat16 than in XLA's float32.
BFLOAT16_UNITS = 128


def set_precision(precision: str) -> None:
    """'bfloat16' makes oneDNN compute convolutions and matrix products in bfloat16; variables stay float32."""
    tf.config.optimizer.set_experimental_options({OPTION: precision == "bfloat16"})


def in_full(x: tf.Tensor) -> tf.Tensor:
    """A network's output, beyond which (and before whose gradient) nothing is computed in bfloat16.

    TensorFlow continues in bfloat16 after a matrix product as far as it can: over ratios, advantages and returns,
    whose differences need more than eight bits. It stops at a conversion that the program itself makes.
    """
    return tf.cast(tf.cast(x, tf.float64), tf.float32) if _bfloat16() else x


def compile_with_xla(policy: BasePolicy) -> bool:
    """Whether the updates of a policy are compiled with XLA; set_precision comes first.

    XLA halves the speed of convolutions on a CPU, and has no bfloat16 matrix products there.
    """
    return not policy.convolutional and not (_bfloat16() and policy.widest_dense >= BFLOAT16_UNITS)


def _bfloat16() -> bool:
    return bool(tf.config.optimizer.get_experimental_options().get(OPTION))
