"""A network with dead units, as runs of tests/doctor/spoiled.py have it."""

import keras

from tfbaselines.policy.networks import register


@register("dead")
def dead(units=64):
    """Build a network that returns 0 for each observation: no unit is ever above 0."""

    def network_fn(input_shape):
        inputs = x = keras.Input(input_shape)
        for _ in range(2):
            x = keras.layers.Dense(units, "relu", bias_initializer=keras.initializers.Constant(-1e3))(x)
        return keras.Model(inputs, x)

    return network_fn
