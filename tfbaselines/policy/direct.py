"""Policies without values: those without chance, which a population searches, and those that imitate."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.envs.vec.observations import MASK as ACTION_MASK
from tfbaselines.envs.vec.observations import parts_of
from tfbaselines.envs.vec.packed import opened
from tfbaselines.parallel import mpi
from tfbaselines.policy.base import BasePolicy, Outputs, memory_tensors
from tfbaselines.policy.distributions import make_pdtype
from tfbaselines.policy.encoding import FORBIDDEN, networks_part, seen_in_numpy, without_mask
from tfbaselines.policy.layers import flat_width, run_network
from tfbaselines.policy.mirror import Mirror
from tfbaselines.policy.networks import NetworkFn
from tfbaselines.policy.precision import in_full
from tfbaselines.policy.trunk import network_over

# Of the output layer's initialisation.
GAIN = 0.01


class Certain:
    """A batch of actions that are taken with certainty; see ActionDistribution in policy/base.py.

    Args:
        actions: [B, ...].
    """

    def __init__(self, actions: tf.Tensor) -> None:
        self._actions = actions

    def sample(self, noise: tf.Tensor) -> tf.Tensor:
        """The actions [B, ...]; the noise is ignored."""
        return self._actions

    def mode(self) -> tf.Tensor:
        """The actions [B, ...]."""
        return self._actions

    def neglogp(self, actions: tf.Tensor) -> tf.Tensor:
        """Zeros [B]."""
        return tf.zeros(tf.shape(self._actions)[0])


class CertainHead:
    """The most likely actions of the action space's own head; of a Box the parameters themselves, [B, n].

    Args:
        space: the action space.
    """

    mode_noise = 0.0
    noise_shape = (0,)

    def __init__(self, space: spaces.Space) -> None:
        self._head, self._box = make_pdtype(space), isinstance(space, spaces.Box)
        self.width = self.param_size = self._head.width
        self.action_shape, self.action_dtype = self._head.action_shape, self._head.action_dtype

    def draw_noise(self, rng: np.random.Generator, batch: tuple[int, ...]) -> np.ndarray:
        """No numbers [*batch, 0]; the generator stays as it is."""
        return np.empty((*batch, 0), np.float32)

    def distribution(self, flat: tf.Tensor) -> Certain:
        """The actions with parameters [B, P]."""
        if self._box:
            return Certain(tf.reshape(flat, (-1, *self.action_shape)))
        return Certain(self._head.distribution(flat).mode())

    def sample_numpy(self, flat: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Actions [B, ...]; the noise is ignored."""
        return self.mode_numpy(flat)

    def mode_numpy(self, flat: np.ndarray) -> np.ndarray:
        """Actions [B, ...]."""
        return self._head.mode_numpy(flat)

    def neglogp_numpy(self, flat: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Zeros [B]."""
        return np.zeros(len(flat), np.float32)


class DirectPolicy(BasePolicy):
    """A network and an output layer; values are 0, since none are learnt.

    Args:
        observation_space: of one environment.
        action_space: of one environment.
        network: function of an input shape that returns the Keras model of the latent.
        certain: take the most likely action for certain, so that the only noise is in the parameters; otherwise actions
            are drawn from the action space's own distribution.
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
        space = opened(observation_space)
        self.masked, self._seen = ACTION_MASK in parts_of(space), without_mask(space)
        self.network = network_over(network, self._seen)
        self.state_size = getattr(self.network, "state_size", None) or 0
        orthogonal = keras.initializers.Orthogonal(GAIN)
        self.output_layer = keras.layers.Dense(head.width, kernel_initializer=orthogonal, name="pi")
        self.output_layer.build((None, flat_width(self.network)))
        has_logstd = head.param_size != head.width
        self.logstd = keras.Variable(np.zeros((1, head.width), np.float32), name="logstd") if has_logstd else None

    @property
    def modules(self) -> list[Any]:
        """The network and the output layer."""
        return [self.network, self.output_layer]

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """Those of the network, those of the output layer, and the logarithm of a Gaussian's deviations."""
        layers = [variable for module in self.modules for variable in module.trainable_variables]
        return layers if self.logstd is None else [*layers, self.logstd]

    def mirror(self) -> Mirror | None:
        """See BasePolicy."""
        repeatable, seen = seen_in_numpy(self)
        return None if self.recurrent or not repeatable else Mirror(self.modules, logstd=self.logstd, seen=seen)

    def forward(self, obs: Any, episode_start: tf.Tensor | None = None, states: tf.Tensor | None = None) -> Outputs:
        """See ActingPolicy."""
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
        flat = in_full(flat)
        if self.masked:
            flat += FORBIDDEN * (1.0 - encoded[ACTION_MASK])
        return Outputs(flat, tf.zeros(tf.shape(flat)[0]), states)
