"""Q-networks: values of all discrete actions, and the epsilon-greedy choice of an action.

A branch for the actions and, with dueling, one for the state end in the outputs [..., atoms] of each action. They
represent the action's return by its expectation, a histogram or quantiles, and each representation gives its value.
"""

import copy
import itertools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.algs.deepq.loss import ExpectedReturn
from tfbaselines.envs.vec.observations import MASK as ACTION_MASK
from tfbaselines.envs.vec.observations import parts_of
from tfbaselines.errors import bad_argument
from tfbaselines.limits import UNITS
from tfbaselines.policy.base import ActionDistribution, BasePolicy, Mirror, Outputs
from tfbaselines.policy.copies import ArrayFunction, NumpyCopies
from tfbaselines.policy.encoding import FORBIDDEN, seen_in_numpy, without_mask
from tfbaselines.policy.layers import flat_width, in_full, run_network
from tfbaselines.policy.networks import (
    MLP_LAYER_NORM_EPSILON,
    NetworkFn,
    NetworkSpec,
    check_sizes,
    get_network_builder,
    require_weights,
)
from tfbaselines.policy.trunk import NetworkTrunk, Trunk, takes_observations, trunk_maker

# Initial standard deviation of a noisy layer's weights, times the root of the number of its inputs.
SIGMA_ZERO = 0.5


class NoisyDense(keras.layers.Dense):
    """A dense layer with learned, factorized Gaussian noise in its weights (Fortunato et al. 2018, arXiv:1706.10295).

    y = x W + b + ((x f(e_in)) W_sigma + b_sigma) f(e_out) with f(e) = sign(e) sqrt(|e|); without noise, y = x W + b.
    """

    # The layer's part of its head's noise.
    part = slice(None)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        inputs = input_shape[-1]
        bound = inputs**-0.5
        self.kernel_initializer = self.bias_initializer = keras.initializers.RandomUniform(-bound, bound)
        super().build(input_shape)
        size = keras.initializers.Constant(SIGMA_ZERO * bound)
        self.kernel_noise = self.add_weight(shape=(inputs, self.units), initializer=size, name="kernel_noise")
        self.bias_noise = self.add_weight(shape=(self.units,), initializer=size, name="bias_noise")
        self.noise_size = inputs + self.units

    def call(self, x: tf.Tensor, noise: tf.Tensor | None = None) -> tf.Tensor:
        """Compute outputs [B, units] of rows [B, n], with standard normal noise [n + units] or none."""
        y = tf.matmul(x, self.kernel.value) + self.bias.value
        if noise is not None:
            factors = tf.sign(noise) * tf.sqrt(tf.abs(noise))
            e_in, e_out = factors[: -self.units], factors[-self.units :]
            y += (tf.matmul(x * e_in, self.kernel_noise.value) + self.bias_noise.value) * e_out
        return self.activation(y)

    def noisy_in_numpy(self, copies: NumpyCopies, noise: np.ndarray) -> ArrayFunction:
        """Make a numpy version of `call`; it reads the noise again in every call."""
        kernel, bias, kernel_noise, bias_noise = (copies.of(variable) for variable in self.trainable_variables)
        units, rectified = self.units, self.activation is keras.activations.relu

        def noisy(x: np.ndarray) -> np.ndarray:
            factors = np.sign(noise) * np.sqrt(np.abs(noise))
            e_in, e_out = factors[:-units], factors[-units:]
            y = np.dot(x, kernel) + bias + (np.dot(x * e_in, kernel_noise) + bias_noise) * e_out
            return np.maximum(y, 0.0, out=y) if rectified else y

        return noisy


class QHead:
    """Computes the outputs of all actions from features: hidden layers with ReLU, then outputs.

    With dueling (arXiv:1511.06581) the outputs are V + A - mean of A, from a branch for the state and one for actions.

    Args:
        inputs: numbers in a row of features.
        actions: number of actions.
        returns: representation of returns.
        hiddens: units of each branch's hidden layers.
        dueling: add the branch for the state's value.
        layer_norm: normalize each hidden layer before its ReLU.
        noisy: use NoisyDense layers.
    """

    def __init__(
        self,
        inputs: int,
        actions: int,
        returns: ExpectedReturn,
        hiddens: Sequence[int] = (256,),
        *,
        dueling: bool = True,
        layer_norm: bool = False,
        noisy: bool = False,
    ) -> None:
        self.returns = returns
        self.actions = actions
        if hiddens:
            check_sizes(UNITS, hiddens=hiddens)
        make = NoisyDense if noisy else keras.layers.Dense
        widths = [inputs, *hiddens]
        self.action_layers = _branch("action", make, [*widths, actions * returns.atoms], layer_norm)
        self.state_layers = _branch("state", make, [*widths, returns.atoms], layer_norm) if dueling else []
        self.modules = [*self.action_layers, *self.state_layers]
        # Numbers of noise that all layers take together, each its own part.
        self.noise_size = 0
        for layer in self.modules:
            if isinstance(layer, NoisyDense):
                layer.part = slice(self.noise_size, self.noise_size + layer.noise_size)
                self.noise_size += layer.noise_size

    def __call__(self, features: tf.Tensor, noise: tf.Tensor | None = None) -> tf.Tensor:
        """Compute outputs [B, actions, atoms] of features [B, n], with standard normal noise [noise_size] or none."""
        outputs = _run(self.action_layers, features, noise)
        outputs = tf.reshape(outputs, (-1, self.actions, self.returns.atoms))
        if self.state_layers:
            state = _run(self.state_layers, features, noise)[:, None]
            outputs = state + outputs - tf.reduce_mean(outputs, axis=1, keepdims=True)
        return in_full(outputs)


class ValuesInNumpy:
    """Computes the values [B, actions] of a head, with the noise of its noisy layers or None, in a Mirror's chain."""

    def __init__(self, head: QHead, noise: keras.Variable | None = None) -> None:
        self._head = head
        self._noise = noise

    def in_numpy(self, copies: NumpyCopies) -> ArrayFunction:
        head, atoms = self._head, self._head.returns.atoms
        noise = None if self._noise is None else copies.of(self._noise)
        of_actions = _in_numpy(head.action_layers, copies, noise)
        of_state = _in_numpy(head.state_layers, copies, noise) if head.state_layers else None

        def values(features: np.ndarray) -> np.ndarray:
            outputs = of_actions(features).reshape(-1, head.actions, atoms)
            if of_state is not None:
                outputs = of_state(features)[:, None] + outputs - outputs.mean(axis=1, keepdims=True)
            return head.returns.mean_numpy(outputs)

        return values


def _branch(name: str, make: Callable[..., Any], widths: list[int], layer_norm: bool) -> list[keras.layers.Layer]:
    """Build the layers that turn rows of widths[0] numbers into rows of widths[-1]."""
    require_weights("hiddens", (widths[0],), widths[1:])
    layers: list[keras.layers.Layer] = []
    for k, (inputs, units) in enumerate(itertools.pairwise(widths[:-1])):
        dense = make(units, activation=None if layer_norm else "relu", name=f"{name}_fc{k}")
        dense.build((None, inputs))
        layers.append(dense)
        if layer_norm:
            norm = keras.layers.LayerNormalization(epsilon=MLP_LAYER_NORM_EPSILON, name=f"{name}_normalization{k}")
            norm.build((None, units))
            layers += [norm, keras.layers.Activation("relu")]
    output = make(widths[-1], name=f"{name}_value")
    output.build((None, widths[-2]))
    return [*layers, output]


def _run(layers: list[keras.layers.Layer], x: tf.Tensor, noise: tf.Tensor | None) -> tf.Tensor:
    for layer in layers:
        noisy = noise is not None and isinstance(layer, NoisyDense)
        x = layer(x, noise[layer.part]) if noisy else layer(x)
    return x


def _in_numpy(layers: list[keras.layers.Layer], copies: NumpyCopies, noise: np.ndarray | None) -> ArrayFunction:
    functions = [
        layer.noisy_in_numpy(copies, noise[layer.part])
        if noise is not None and isinstance(layer, NoisyDense)
        else copies.function([layer])
        for layer in layers
    ]

    def forward(x: np.ndarray) -> np.ndarray:
        for function in functions:
            x = function(x)
        return x

    return forward


# Larger than any difference of values, smaller than the number that forbids an action.
OVERWHELMING = 1e7


class EpsilonGreedyHead:
    """Chooses the action of the largest value, or with probability epsilon, when actions are sampled, any action."""

    action_shape: tuple[int, ...] = ()
    action_dtype = np.dtype(np.int64)
    mode_noise = 0.0

    def __init__(self, space: spaces.Discrete, epsilon: float = 0.0) -> None:
        self.param_size = int(space.n)
        self._start = int(space.start)
        self.epsilon = epsilon
        self.noise_shape = (self.param_size,)

    def draw_noise(self, rng: np.random.Generator, batch: tuple[int, ...], epsilon: float | None = None) -> np.ndarray:
        """Draw noise [*batch, n]: zeros, or with probability epsilon (None: the head's) numbers above all values."""
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
        return (flat + noise).argmax(axis=-1) + self._start

    def mode_numpy(self, flat: np.ndarray) -> np.ndarray:
        return flat.argmax(axis=-1) + self._start

    def neglogp_numpy(self, flat: np.ndarray, actions: np.ndarray) -> np.ndarray:
        return np.zeros(len(flat), np.float32)


class QNetwork(BasePolicy):
    """Computes the values of all discrete actions that an action mask allows.

    Attributes:
        noise: noise of the noisy layers while acting, or None.

    Args:
        observation_space: see BasePolicy.
        action_space: a Discrete space.
        network_fn: builds the dense layers over the trunk's features; None for no such layers.
        make_trunk: builds the trunk from an observation space; None for a plain Trunk.
        returns: representation of returns; None for expectations.
        epsilon: probability of a random action when actions are sampled.
        normalize_observations, comm: see BasePolicy.
        head: arguments of QHead: hiddens, dueling, layer_norm, noisy.
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Discrete,
        network_fn: NetworkFn | None,
        *,
        make_trunk: Callable[[spaces.Space], Trunk | NetworkTrunk] | None = None,
        returns: ExpectedReturn | None = None,
        epsilon: float = 0.0,
        normalize_observations: bool = False,
        comm: Any = None,
        **head: Any,
    ) -> None:
        chooser = EpsilonGreedyHead(action_space, epsilon)
        base = {"normalize_observations": normalize_observations, "comm": comm}
        super().__init__(observation_space, action_space, chooser, **base)
        self.masked = ACTION_MASK in parts_of(observation_space)
        self.trunk = (make_trunk or (lambda space: Trunk(space, None)))(without_mask(observation_space))
        self.network = network_fn((self.trunk.width,)) if network_fn else None
        self._below = [*self.trunk.modules, *([self.network] if self.network else [])]
        width = flat_width(self.network) if self.network else self.trunk.width
        self.q_head = QHead(width, int(action_space.n), returns or ExpectedReturn(), **head)
        self.noise: keras.Variable | None = None

    @property
    def parameter_groups(self) -> dict[str, list[keras.Variable]]:
        return {"q": self.trainable_variables}

    @property
    def modules(self) -> list[Any]:
        return [*self._below, *self.q_head.modules]

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        return [variable for module in self.modules for variable in module.trainable_variables]

    @property
    def perturbed_variables(self) -> list[keras.Variable]:
        """Variables that parameter noise changes: as in baselines, only in the dense layers above the network."""
        dense = [layer for layer in self.q_head.modules if isinstance(layer, keras.layers.Dense)]
        return [variable for layer in dense for variable in layer.trainable_variables]

    def with_noise(self) -> "QNetwork":
        """Copy the network for acting with noise in its weights; the caller assigns the copy's `noise`."""
        noisy = copy.copy(self)
        noisy.noise = keras.Variable(np.zeros(self.q_head.noise_size, np.float32), trainable=False, name="noise")
        return noisy

    def mirror(self) -> Mirror | None:
        repeatable, seen = seen_in_numpy(self, rows=True)
        if not self.trunk.chained or not repeatable:
            return None
        if self.noise is None and self.q_head.returns.atoms == 1:
            # Advantages have the same order as values.
            return Mirror([*self._below, *self.q_head.action_layers], seen=seen)
        return Mirror([*self._below, ValuesInNumpy(self.q_head, self.noise)], seen=seen)

    def outputs(self, encoded: Any, noise: tf.Tensor | None = None) -> tf.Tensor:
        """Compute the outputs [B, A, atoms] of every action, from the result of `preprocess` and noise or None."""
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

    `kind` has further arguments of QNetwork; policy/actor_critic.py explains the others.
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
