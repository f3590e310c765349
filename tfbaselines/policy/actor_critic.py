"""Policies of off-policy control: an actor, and critics that judge its actions."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.policy.bounded import BoundedHead
from tfbaselines.policy.encoding import is_image
from tfbaselines.policy.policy import Outputs, Policy, flat_width, run_network

NetworkFn = Callable[[tuple[int, ...]], keras.Model]

# Units of the layer in which features of images and actions meet.
JOINT_UNITS = 256


class Critic:
    """Q(x, a) of continuous actions.

    Args:
        space: of observations.
        shape: of one that is encoded.
        width: numbers in an action.
        network_fn: makes the network: over observation and action together, or over images alone.
        initializer: of the output layer.
    """

    def __init__(
        self, space: spaces.Space, shape: tuple[int, ...], width: int, network_fn: NetworkFn, initializer: Any
    ) -> None:
        self._image = is_image(space)
        inputs = shape if self._image else (int(np.prod(shape)) + width,)
        self.network = network_fn(inputs)
        latent = flat_width(self.network)
        self.joint = None
        if self._image:
            self.joint = keras.layers.Dense(JOINT_UNITS, "relu", name="joint")
            self.joint.build((None, latent + width))
            latent = JOINT_UNITS
        self.layer = keras.layers.Dense(1, kernel_initializer=initializer, name="q")
        self.layer.build((None, latent))

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """Network first, then the output layer."""
        joint = [] if self.joint is None else self.joint.trainable_variables
        return [*self.network.trainable_variables, *joint, *self.layer.trainable_variables]

    def __call__(self, encoded: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        """Values [B] of actions [B, n] in encoded observations."""
        if self._image:
            latent = self.joint(tf.concat([run_network(self.network, encoded), actions], axis=-1))
        else:
            flat = tf.reshape(encoded, (-1, int(np.prod(encoded.shape[1:]))))
            latent = run_network(self.network, tf.concat([flat, actions], axis=-1))
        return self.layer(latent)[:, 0]


class ActorCritic(Policy):
    """An actor with bounded actions and one or more critics.

    Args:
        observation_space: what the environment shows.
        action_space: a bounded Box.
        network_fn: makes each network.
        head: the kind of the actor's head.
        critics: how many.
        initializer: makes the initialiser of an output layer.
        normalize_observations: see Policy.
        comm: see Policy.
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        network_fn: NetworkFn,
        *,
        head: type[BoundedHead],
        critics: int,
        initializer: Callable[[], Any] = keras.initializers.GlorotUniform,
        normalize_observations: bool = False,
        comm: Any = None,
    ) -> None:
        self._prepare(observation_space, action_space, head(action_space), normalize_observations, comm)
        self.network, self.value_network = network_fn(self.encoded_shape), None
        self.state_size = 0
        self.pi_layer = keras.layers.Dense(self.head.param_size, kernel_initializer=initializer(), name="pi")
        self.pi_layer.build((None, flat_width(self.network)))
        self.logstd = None
        self.critics = [
            Critic(observation_space, self.encoded_shape, self.head.width, network_fn, initializer())
            for _ in range(critics)
        ]

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """The actor's, then each critic's."""
        return [*self.acting_variables, *self.critic_variables]

    @property
    def critic_variables(self) -> list[keras.Variable]:
        """All critics'."""
        return [variable for critic in self.critics for variable in critic.trainable_variables]

    def act(self, encoded: tf.Tensor) -> tf.Tensor:
        """Parameters [B, P] of the head's actions in encoded observations."""
        return self.pi_layer(run_network(self.network, encoded))

    def q(self, encoded: tf.Tensor, actions: tf.Tensor) -> list[tf.Tensor]:
        """What each critic says [B] of actions [B, ...] in encoded observations."""
        flat = tf.reshape(actions, (-1, self.head.width))
        return [critic(encoded, flat) for critic in self.critics]

    def forward(self, obs: tf.Tensor, masks: Any = None, states: Any = None) -> Outputs:
        """See Policy; the value is the smallest of the critics' for the most likely action."""
        encoded = self.preprocess(obs)
        flat = self.act(encoded)
        values = self.q(encoded, self.head.mode(flat))
        return Outputs(flat, tf.reduce_min(tf.stack(values), axis=0), None, flat)
