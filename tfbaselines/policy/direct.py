"""Policies without values: deterministic ones, which a population searches, and policies that imitate."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.parallel import mpi
from tfbaselines.policy.base import BasePolicy, Outputs, memory_tensors
from tfbaselines.policy.bounded import Bounded
from tfbaselines.policy.distributions import make_pdtype
from tfbaselines.policy.encoding import networks_part, seen_in_numpy
from tfbaselines.policy.layers import flat_width, run_network
from tfbaselines.policy.mirror import Mirror
from tfbaselines.policy.networks import NetworkFn
from tfbaselines.policy.precision import in_full
from tfbaselines.policy.trunk import network_over

# Gain of the output layer's initialization.
GAIN = 0.01


class CertainHead:
    """The most likely actions of the action space's head; for a Box the parameters [B, n] are the actions.

    Args:
        space: the action space.
    """

    mode_noise = 0.0
    noise_shape = (0,)

    def __init__(self, space: spaces.Space) -> None:
        self._head = make_pdtype(space)
        self._box = isinstance(space, spaces.Box)
        self.width = self.param_size = self._head.width
        self.action_shape = self._head.action_shape
        self.action_dtype = self._head.action_dtype

    def draw_noise(self, rng: np.random.Generator, batch: tuple[int, ...]) -> np.ndarray:
        return np.empty((*batch, 0), np.float32)

    def distribution(self, flat: tf.Tensor) -> Bounded:
        actions = tf.reshape(flat, (-1, *self.action_shape)) if self._box else self._head.distribution(flat).mode()
        return Bounded(actions, lambda noise: actions, lambda _: tf.zeros(tf.shape(actions)[0]))

    def sample_numpy(self, flat: np.ndarray, noise: np.ndarray) -> np.ndarray:
        return self.mode_numpy(flat)

    def mode_numpy(self, flat: np.ndarray) -> np.ndarray:
        return self._head.mode_numpy(flat)

    def neglogp_numpy(self, flat: np.ndarray, actions: np.ndarray) -> np.ndarray:
        return np.zeros(len(flat), np.float32)


class DirectPolicy(BasePolicy):
    """A network and an output layer; all values are 0.

    Args:
        observation_space: of one environment.
        action_space: of one environment.
        network: function of an input shape that returns the Keras model of the latent.
        certain: always take the most likely action, so that the only noise is in the parameters; otherwise draw actions
            from the action space's distribution.
        normalize_observations: see BasePolicy.
        comm: see BasePolicy.
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        network: NetworkFn,
        *,
        certain: bool = True,
        normalize_observations: bool = False,
        comm: mpi.Communicator | None = None,
    ) -> None:
        head = CertainHead(action_space) if certain else make_pdtype(action_space)
        super().__init__(
            observation_space, action_space, head, normalize_observations=normalize_observations, comm=comm
        )
        self.network = network_over(network, self._seen)
        self.state_size = getattr(self.network, "state_size", None) or 0
        orthogonal = keras.initializers.Orthogonal(GAIN)
        self.output_layer = keras.layers.Dense(head.width, kernel_initializer=orthogonal, name="pi")
        self.output_layer.build((None, flat_width(self.network)))
        has_logstd = head.param_size != head.width
        self.logstd = keras.Variable(np.zeros((1, head.width), np.float32), name="logstd") if has_logstd else None

    @property
    def modules(self) -> list[Any]:
        return [self.network, self.output_layer]

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        layers = [variable for module in self.modules for variable in module.trainable_variables]
        return layers if self.logstd is None else [*layers, self.logstd]

    def mirror(self) -> Mirror | None:
        repeatable, seen = seen_in_numpy(self)
        return None if self.recurrent or not repeatable else Mirror(self.modules, logstd=self.logstd, seen=seen)

    def forward(self, obs: Any, episode_start: tf.Tensor | None = None, states: tf.Tensor | None = None) -> Outputs:
        encoded = self.preprocess(obs)
        x = networks_part(encoded, self._seen)
        episode_start, states = memory_tensors(episode_start, states)
        if self.recurrent:
            latent, states = self.network([x, episode_start, states])
        else:
            latent = run_network(self.network, x)
        flat = self.output_layer(latent)
        if self.logstd is not None:
            flat = tf.concat([flat, tf.zeros_like(flat) + self.logstd.value], axis=-1)
        flat = self._allowed(in_full(flat), encoded)
        return Outputs(flat, tf.zeros(tf.shape(flat)[0]), states)
