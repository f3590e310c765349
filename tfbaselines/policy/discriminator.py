"""A network that distinguishes a policy's observations and actions from a demonstrator's."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.parallel import mpi
from tfbaselines.policy.encoding import encode, encoded_shape, is_image
from tfbaselines.policy.networks import get_network_builder
from tfbaselines.policy.normalizer import Normalizer
from tfbaselines.policy.trunk import ENCODERS, Trunk

IMAGE_ENCODER = "simple"


class Discriminator:
    """Two layers of tanh units on observation and action, and a linear logit.

    Box observations are scaled by a running mean and deviation of its own; images pass through an encoder; discrete
    actions are one-hot.

    Attributes:
        normalizer: of observations; None where they are no numbers.

    Args:
        observation_space: of one environment.
        action_space: of one environment.
        hidden_size: units of each layer.
        use_actions: actions count, not observations alone.
        comm: the ranks over which the running mean is merged.
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        hidden_size: int,
        comm: mpi.Communicator | None = None,
        use_actions: bool = True,
    ) -> None:
        self._observation_space, self._action_space = observation_space, action_space
        image = is_image(observation_space)
        numbers = isinstance(observation_space, spaces.Box) and not image
        self.normalizer = Normalizer(encoded_shape(observation_space), comm) if numbers else None
        self._trunk = Trunk(observation_space, get_network_builder(ENCODERS[IMAGE_ENCODER])() if image else None)
        self._action_width = int(np.prod(encoded_shape(action_space))) if use_actions else 0
        units = ((hidden_size, "tanh"), (hidden_size, "tanh"), (1, None))
        self._layers = [keras.layers.Dense(width, activation=activation) for width, activation in units]
        width = self._trunk.width + self._action_width
        for layer in self._layers:
            layer.build((None, width))
            width = layer.units

    @property
    def convolutional(self) -> bool:
        """Whether it convolves images."""
        return bool(self._trunk.modules)

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """The encoder's, then the layers'."""
        layers = [variable for layer in self._layers for variable in layer.trainable_variables]
        return [*self._trunk.trainable_variables, *layers]

    def logits(self, obs: Any, actions: tf.Tensor) -> tf.Tensor:
        """[B], above 0 for what seems to be the demonstrator's.

        Args:
            obs: [B, ...].
            actions: [B, ...], as the environment takes them.
        """
        encoded = encode(obs, self._observation_space)
        if self.normalizer is not None:
            encoded = self.normalizer.apply(encoded)
        features, _ = self._trunk(encoded, None, None)
        x = features
        if self._action_width:
            done = tf.reshape(encode(actions, self._action_space), (-1, self._action_width))
            x = tf.concat([features, tf.cast(done, tf.float32)], axis=-1)
        for layer in self._layers:
            x = layer(x)
        return x[:, 0]

    def state(self) -> dict[str, Any]:
        """Weights by number, and the statistics of observations."""
        weights = {f"{number:02d}": variable.numpy() for number, variable in enumerate(self.trainable_variables)}
        return {"weights": weights, "normalizer": None if self.normalizer is None else self.normalizer.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `state` gave."""
        for number, variable in enumerate(self.trainable_variables):
            variable.assign(state["weights"][f"{number:02d}"])
        if self.normalizer is not None:
            self.normalizer.restore(state["normalizer"])
