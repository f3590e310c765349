"""Q-networks: the values of all discrete actions, and greedy actions with some that are random."""

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
from tfbaselines.policy.base import ActionDistribution, BasePolicy, Outputs
from tfbaselines.policy.encoding import FORBIDDEN, seen_in_numpy, without_mask
from tfbaselines.policy.layers import flat_width, run_network
from tfbaselines.policy.mirror import Mirror
from tfbaselines.policy.networks import NetworkFn, NetworkSpec, get_network_builder
from tfbaselines.policy.trunk import NetworkTrunk, Trunk, takes_observations, trunk_maker

# Larger than any difference of values, smaller than what forbids an action.
OVERWHELMING = 1e7


class EpsilonGreedyHead:
    """The action of the largest value; with probability epsilon any action.

    Attributes:
        epsilon: of actions that are sampled.

    Args:
        space: the action space.
        epsilon: first value of the attribute.
    """

    action_shape: tuple[int, ...] = ()
    action_dtype = np.dtype(np.int64)
    mode_noise = 0.0

    def __init__(self, space: spaces.Discrete, epsilon: float = 0.0) -> None:
        self.param_size, self._start, self.epsilon = int(space.n), int(space.start), epsilon
        self.noise_shape = (self.param_size,)

    def draw_noise(self, rng: np.random.Generator, batch: tuple[int, ...], epsilon: float | None = None) -> np.ndarray:
        """Noise [*batch, n]: zeros, or with probability epsilon (None for the head's) numbers that decide alone."""
        explores = rng.random((*batch, 1)) < (self.epsilon if epsilon is None else epsilon)
        return (OVERWHELMING * explores * rng.random((*batch, self.param_size))).astype(np.float32)

    def distribution(self, flat: tf.Tensor) -> ActionDistribution:
        """Of values [B, n]; its actions have no density."""
        return SimpleNamespace(
            sample=lambda noise: tf.argmax(flat + noise, axis=-1) + self._start,
            mode=lambda: tf.argmax(flat, axis=-1) + self._start,
            neglogp=lambda actions: tf.zeros(tf.shape(flat)[0]),
        )

    def sample_numpy(self, flat: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Actions [B]."""
        return (flat + noise).argmax(axis=-1) + self._start

    def mode_numpy(self, flat: np.ndarray) -> np.ndarray:
        """The greedy actions [B]."""
        return flat.argmax(axis=-1) + self._start

    def neglogp_numpy(self, flat: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Zeros [B]."""
        return np.zeros(len(flat), np.float32)


class QNetwork(BasePolicy):
    """Values of all discrete actions, those that an action mask forbids excepted.

    Attributes:
        noise: what noisy layers take while acting; None for none.

    Args:
        observation_space: of one environment.
        action_space: a Discrete.
        network_fn: builds the dense layers over the trunk's features; None for none.
        make_trunk: builds what is below them from an observation space; None for a plain Trunk.
        returns: how the return of an action is represented; None for its expectation.
        epsilon: of actions that are sampled.
        comm: see BasePolicy.
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
        """The trunk's, the network, and the head's layers."""
        return [*self.trunk.modules, *self._dense, *self.q_head.modules]

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """In the order of `modules`."""
        return [variable for module in self.modules for variable in module.trainable_variables]

    @property
    def perturbed_variables(self) -> list[keras.Variable]:
        """Those that noise in the parameters changes: as in baselines, of the dense layers above the network."""
        return self.q_head.dense_variables

    @property
    def _dense(self) -> list[keras.Model]:
        return [] if self.network is None else [self.network]

    def with_noise(self) -> "QNetwork":
        """The same network, acting with noise in its weights: its `noise` is to be assigned."""
        noisy = copy.copy(self)
        noisy.noise = keras.Variable(np.zeros(self.q_head.noise_size, np.float32), trainable=False, name="noise")
        return noisy

    def mirror(self) -> Mirror | None:
        """See BasePolicy; the largest value is computed through the graph."""
        repeatable, seen = seen_in_numpy(self)
        if not self.trunk.chained or not repeatable:
            return None
        below = [*self.trunk.modules, *self._dense]
        if self.noise is None and self.q_head.returns.atoms == 1:
            # Advantages have the same order as values.
            return Mirror([*below, *self.q_head.action_layers], seen=seen)
        return Mirror([*below, ValuesInNumpy(self.q_head, self.noise)], seen=seen)

    def outputs(self, encoded: Any, noise: tf.Tensor | None = None) -> tf.Tensor:
        """The representation [B, A, atoms] of every action's return.

        Args:
            encoded: observations as `preprocess` gives them.
            noise: [noise_size] of noisy layers, or None.
        """
        features, _ = self.trunk(encoded, None, None)
        return self.q_head(features if self.network is None else run_network(self.network, features), noise)

    def values(self, encoded: Any, outputs: tf.Tensor) -> tf.Tensor:
        """The values [B, A] of what `outputs` gave, far below all others where the action mask forbids the action."""
        values = self.q_head.returns.mean(outputs)
        return values + FORBIDDEN * (1.0 - encoded[ACTION_MASK]) if self.masked else values

    def chosen(self, outputs: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        """The representation [B, atoms] of the return of actions [B], as the environment takes them."""
        return self.at(outputs, tf.cast(actions, tf.int32) - int(self.action_space.start))

    def at(self, outputs: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
        """The same of actions [B] counted from 0."""
        one_hot = tf.one_hot(indices, int(self.action_space.n))
        return tf.reduce_sum(outputs * one_hot[:, :, None], axis=1)

    def forward(self, obs: Any, episode_start: tf.Tensor | None = None, states: tf.Tensor | None = None) -> Outputs:
        """See ActingPolicy; the value is that of the greedy action."""
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
    """Build a Q-network from names.

    A network with convolutions takes the observation itself; any other one takes a Trunk's features.

    Args:
        env: anything with observation_space and action_space.
        network: a registered network's name, or a builder.
        vis_encode_type: encoder of images below a dense network: simple, nature_cnn or resnet.
        comm: see BasePolicy.
        kind: further arguments of QNetwork.
        network_kwargs: the network builder's own arguments.
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
        raise bad_argument("network", network, "Q-networks are not recurrent, take ppo2 or acer for memory")
    return policy
