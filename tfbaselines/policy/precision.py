"""bfloat16 inside the networks, and float32 again for what is computed from their outputs."""

import tensorflow as tf

OPTION = "auto_mixed_precision_onednn_bfloat16"


def set_precision(precision: str) -> None:
    """'bfloat16' lets oneDNN do convolutions and matrix products in bfloat16; variables stay float32."""
    tf.config.optimizer.set_experimental_options({OPTION: precision == "bfloat16"})


def in_full(x: tf.Tensor) -> tf.Tensor:
    """A network's output, beyond which (and before whose gradient) nothing is done in bfloat16.

    TensorFlow goes on in bfloat16 after a matrix product as far as it can: over ratios, advantages and returns, to
    whose differences eight bits are too few. It does not go past a conversion that the program itself asks for.
    """
    if not tf.config.optimizer.get_experimental_options().get(OPTION):
        return x
    return tf.cast(tf.cast(x, tf.float64), tf.float32)


def compile_with_xla(policy) -> bool:
    return not policy.convolutional
