"""Q-networks: values of all discrete actions, and the epsilon-greedy choice of an action."""

import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.algs.deepq.q_head import ExpectedReturn, QHead, ReturnDistribution, ValuesInNumpy
from tfbaselines.envs.vec.observations import MASK as ACTION_MASK
from tfbaselines.envs.vec.observations import parts_of
from tfbaselines.errors import bad_argument
from tfbaselines.policy.actor import Mirror
from tfbaselines.policy.base import ActionDistribution, BasePolicy, Outputs
from tfbaselines.policy.encoding import FORBIDDEN, seen_in_numpy, without_mask
from tfbaselines.policy.layers import flat_width, run_network
from tfbaselines.policy.networks import NetworkFn, NetworkSpec, get_network_builder
from tfbaselines.policy.trunk import NetworkTrunk, Trunk, takes_observations, trunk_maker

# Larger than any difference of values, smaller than the number that forbids an action.
OVERWHELMING = 1e7


class EpsilonGreedyHead:
    """Chooses the action of the largest value, or with probability epsilon any action.

    Attributes:
        epsilon: probability of a random action when actions are sampled.

    Args:
        space: the action space.
        epsilon: initial value of the attribute.
    """

    action_shape: tuple[int, ...] = ()
    action_dtype = np.dtype(np.int64)
    mode_noise = 0.0

    def __init__(self, space: spaces.Discrete, epsilon: float = 0.0) -> None:
        self.param_size = int(space.n)
        self._start = int(space.start)
        self.epsilon = epsilon
        self.noise_shape = (self.param_size,)

    def draw_noise(self, rng: np.random.Generator, batch: tuple[int, ...], epsilon: float | None = None) -> np.ndarray:
        """Draw noise [*batch, n]: zeros, or with probability epsilon numbers that outweigh all values.

        Args:
            rng: numpy generator.
            batch: shape of the batch.
            epsilon: the probability; None for the head's.
        """
        explores = rng.random((*batch, 1)) < (self.epsilon if epsilon is None else epsilon)
        return (OVERWHELMING * explores * rng.random((*batch, self.param_size))).astype(np.float32)

    def distribution(self, flat: tf.Tensor) -> ActionDistribution:
        """Make the distribution of values [B, n]; its actions have no density."""
        return SimpleNamespace(
            sample=lambda noise: tf.argmax(flat + noise, axis=-1) + self._start,
            mode=lambda: tf.argmax(flat, axis=-1) + self._start,
            neglogp=lambda actions: tf.zeros(tf.shape(flat)[0]),
        )

    def sample_numpy(self, flat: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Choose actions [B] by values [B, n] and noise."""
        return (flat + noise).argmax(axis=-1) + self._start

    def mode_numpy(self, flat: np.ndarray) -> np.ndarray:
        """Choose the greedy actions [B]."""
        return flat.argmax(axis=-1) + self._start

    def neglogp_numpy(self, flat: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Return zeros [B]."""
        return np.zeros(len(flat), np.float32)


class QNetwork(BasePolicy):
    """Computes the values of all discrete actions that an action mask allows.

    Attributes:
        noise: noise of the noisy layers while acting, or None.

    Args:
        observation_space: observation space of one environment.
        action_space: a Discrete space.
        network_fn: builds the dense layers over the trunk's features; None for no such layers.
        make_trunk: builds the trunk from an observation space; None for a plain Trunk.
        returns: representation of returns; None for expectations.
        epsilon: probability of a random action when actions are sampled.
        comm: communicator of the ranks that share the statistics of observations.
        head: arguments of QHead: hiddens, dueling, layer_norm, noisy.
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Discrete,
        network_fn: NetworkFn | None,
        *,
        make_trunk: Callable[[spaces.Space], Trunk | NetworkTrunk] | None = None,
        returns: ReturnDistribution | None = None,
        epsilon: float = 0.0,
        comm: Any = None,
        **head: Any,
    ) -> None:
        super().__init__(observation_space, action_space, EpsilonGreedyHead(action_space, epsilon), comm=comm)
        self.masked = ACTION_MASK in parts_of(observation_space)
        self.trunk = (make_trunk or (lambda space: Trunk(space, None)))(without_mask(observation_space))
        self.network = network_fn((self.trunk.width,)) if network_fn else None
        width = flat_width(self.network) if self.network else self.trunk.width
        self.q_head = QHead(width, int(action_space.n), returns or ExpectedReturn(), **head)
        self.noise: keras.Variable | None = None

    @property
    def modules(self) -> list[Any]:
        """Modules of the trunk, the network, and the layers of the head."""
        return [*self.trunk.modules, *self._dense, *self.q_head.modules]

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """Variables in the order of `modules`."""
        return [variable for module in self.modules for variable in module.trainable_variables]

    @property
    def perturbed_variables(self) -> list[keras.Variable]:
        """Variables that parameter noise changes: as in baselines, only in the dense layers above the network."""
        return self.q_head.dense_variables

    @property
    def _dense(self) -> list[keras.Model]:
        return [] if self.network is None else [self.network]

    def with_noise(self) -> "QNetwork":
        """Copy the network for acting with noise in its weights; the caller assigns the copy's `noise`."""
        noisy = copy.copy(self)
        noisy.noise = keras.Variable(np.zeros(self.q_head.noise_size, np.float32), trainable=False, name="noise")
        return noisy

    def mirror(self) -> Mirror | None:
        repeatable, seen = seen_in_numpy(self)
        if not self.trunk.chained or not repeatable:
            return None
        below = [*self.trunk.modules, *self._dense]
        if self.noise is None and self.q_head.returns.atoms == 1:
            # Advantages have the same order as values.
            return Mirror([*below, *self.q_head.action_layers], seen=seen)
        return Mirror([*below, ValuesInNumpy(self.q_head, self.noise)], seen=seen)

    def outputs(self, encoded: Any, noise: tf.Tensor | None = None) -> tf.Tensor:
        """Compute the outputs [B, A, atoms] of every action.

        Args:
            encoded: the result of `preprocess`.
            noise: [noise_size] noise of noisy layers, or None.
        """
        features, _ = self.trunk(encoded, None, None)
        return self.q_head(features if self.network is None else run_network(self.network, features), noise)

    def values(self, encoded: Any, outputs: tf.Tensor) -> tf.Tensor:
        """Compute values [B, A] from outputs; the value of a forbidden action is far below all others."""
        values = self.q_head.returns.mean(outputs)
        return values + FORBIDDEN * (1.0 - encoded[ACTION_MASK]) if self.masked else values

    def chosen(self, outputs: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        """Select the outputs [B, atoms] of actions [B], numbered as in the environment."""
        return self.at(outputs, tf.cast(actions, tf.int32) - int(self.action_space.start))

    def at(self, outputs: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
        """Select the outputs [B, atoms] of actions [B] counted from 0."""
        one_hot = tf.one_hot(indices, int(self.action_space.n))
        return tf.reduce_sum(outputs * one_hot[:, :, None], axis=1)

    def forward(self, obs: Any, episode_start: tf.Tensor | None = None, states: tf.Tensor | None = None) -> Outputs:
        encoded = self.preprocess(obs)
        noise = None if self.noise is None else self.noise.value
        values = self.values(encoded, self.outputs(encoded, noise))
        return Outputs(values, tf.reduce_max(values, axis=-1))


def build_q_network(
    env: Any,
    network: NetworkSpec,
    *,
    vis_encode_type: str = "simple",
    comm: Any = None,
    kind: dict[str, Any] | None = None,
    **network_kwargs: Any,
) -> QNetwork:
    """Build a Q-network from the name of its network.

    A network with convolutions takes the observation itself; any other network takes a Trunk's features.

    Args:
        env: anything with observation_space and action_space.
        network: a registered network's name, or a builder.
        vis_encode_type: encoder of images below a dense network: simple, nature_cnn or resnet.
        comm: communicator of the ranks that share the statistics of observations.
        kind: further arguments of QNetwork.
        network_kwargs: arguments of the network builder.
    """
    network_fn = get_network_builder(network)(**network_kwargs)
    whole = takes_observations(network_fn, without_mask(env.observation_space))
    policy = QNetwork(
        env.observation_space,
        env.action_space,
        None if whole else network_fn,
        make_trunk=trunk_maker(network_fn, whole, vis_encode_type),
        comm=comm,
        **(kind or {}),
    )
    if policy.trunk.state_size:
        raise bad_argument("network", network, "Q-networks are not recurrent: choose ppo2 or acer for memory")
    return policy
