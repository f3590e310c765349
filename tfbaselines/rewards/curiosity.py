"""Curiosity (Pathak et al. 2017, arXiv:1705.05363): what the agent cannot predict of its actions is worth a reward.

An encoder phi is learnt so that an inverse model finds the action between two observations, which leaves out of phi
what actions have no influence on. A forward model predicts the next encoding. The reward is its error,

    r(s, a, s') = 1/2 |forward(phi(s), a) - phi(s')|^2,

and encoder and models descend 0.2 E[r] + 0.8 E[inverse error].

The intrinsic curiosity module's errors: pure functions of tensors [B, ...].
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.learn.update import Batch, Statistics
from tfbaselines.policy.base import Head
from tfbaselines.policy.distributions import make_pdtype
from tfbaselines.policy.encoding import encode, encoded_shape
from tfbaselines.rewards.learned import Dense, Encoder, LearntSignal


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


FORWARD_SHARE = 0.2


class Curiosity(LearntSignal):
    """See the module; arguments as for LearntSignal."""

    name = "curiosity"
    statistics = ("forward_loss", "inverse_loss")

    def build(self, action_space: spaces.Space, encoding_size: int) -> bool:
        """See LearntSignal."""
        self._action_space, self._head = action_space, make_pdtype(action_space)
        self._action_width = int(np.prod(encoded_shape(action_space)))
        box, hidden = isinstance(action_space, spaces.Box), (encoding_size, "relu")
        self.encoder = Encoder(self.observations, [hidden, (encoding_size, None)])
        self.forward_model = Dense(encoding_size + self._action_width, [hidden, (encoding_size, None)])
        outputs = self._action_width if box else self._head.param_size
        self.inverse_model = Dense(2 * encoding_size, [hidden, (outputs, None)])
        return self.encoder.convolutional

    @property
    def learnt(self) -> list[keras.Variable]:
        """The encoder's, then the models'."""
        models = self.encoder, self.forward_model, self.inverse_model
        return [variable for model in models for variable in model.trainable_variables]

    def reward(self, batch: Batch) -> tf.Tensor:
        """The forward model's error [B]."""
        return self._forward_error(*self._encodings(batch), batch["actions"])

    def loss(self, batch: Batch, _: dict[str, tf.Tensor]) -> tuple[tf.Tensor, Statistics]:
        """See the module."""
        encoding, following = self._encodings(batch)
        forward = tf.reduce_mean(self._forward_error(encoding, following, batch["actions"]))
        output = self.inverse_model(tf.concat([encoding, following], axis=-1))
        inverse = tf.reduce_mean(inverse_error(output, batch["actions"], self._action_space, self._head))
        loss = FORWARD_SHARE * forward + (1.0 - FORWARD_SHARE) * inverse
        return loss, {"forward_loss": forward, "inverse_loss": inverse}

    def take_in(self, batch: dict[str, Any]) -> None:
        """See RewardSignal."""
        self.observations.take_in(batch["obs"])

    def _encodings(self, batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
        obs, next_obs = (self.encoder(self.observations(batch[name])) for name in ("obs", "next_obs"))
        return obs, next_obs

    def _forward_error(self, encoding: tf.Tensor, following: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        rows = tf.reshape(encode(actions, self._action_space), (-1, self._action_width))
        done = tf.cast(rows, tf.float32)
        return forward_error(self.forward_model(tf.concat([encoding, done], axis=-1)), following)
