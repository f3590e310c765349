"""Acting: what a policy does on one step of its environments, with as little time as possible around the arithmetic.

A tf.function call costs some 200 us however small the network, so policies made of dense layers act through a numpy
copy of their weights (`NumpyActor`); convolutional and recurrent ones through one compiled function (`GraphActor`).
Both give the same numbers and take their randomness as an argument.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.envs.vec.observations import parts_of_obs
from tfbaselines.policy.encoding import encode_numpy
from tfbaselines.policy.policy import Policy, observation_spec

# OpenBLAS computes larger products (rows x inputs x outputs) on several threads, which then spin for a while and take
# the cores from TensorFlow's: a large batch is cut into pieces that stay below, unless these would be tiny.
LARGEST_PRODUCT = 2**18
FEWEST_ROWS = 16

ArrayFunction = Callable[[np.ndarray], np.ndarray]
CopyOf = Callable[[keras.Variable], np.ndarray]


class Step(NamedTuple):
    """One step of acting: actions [N, ...], values [N], states [N, S] or None, negative log probabilities [N]."""

    actions: np.ndarray
    values: np.ndarray
    states: np.ndarray | None
    neglogps: np.ndarray


def make_actor(policy: Policy) -> "NumpyActor | GraphActor":
    """The fastest actor that can act for this policy."""
    networks = [policy.network] + ([policy.value_network] if policy.value_network is not None else [])
    if policy.plain and all(_mirrors(network) for network in networks):
        return NumpyActor(policy)
    return GraphActor(policy)


class NumpyActor:
    """Acts through numpy copies of the weights of a policy made of dense layers.

    Choosing an action needs only the policy network, so a rollout calls `act` at each step and `evaluate` once for
    all of its values and probabilities: one large matrix product instead of many tiny ones.
    """

    recurrent = False

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._head = policy.head
        self._copies: list[tuple[tf.Tensor, np.ndarray]] = []
        self._latent = _numpy_network(policy.network, self._copy_of)
        self._flatten = len(policy.network.input_shape) == 2
        self._value_latent = (
            None if policy.value_network is None else _numpy_network(policy.value_network, self._copy_of)
        )
        self._pi = _numpy_dense(policy.pi_layer, self._copy_of) if policy.pi_layer is not None else None
        # The critics of an actor-critic judge through the graph: they are seldom asked.
        self._vf = None if policy.vf_layer is None else _numpy_dense(policy.vf_layer, self._copy_of)
        self._graph: GraphActor | None = None
        self._logstd = None if policy.logstd is None else self._copy_of(policy.logstd)
        self.refresh()

    def refresh(self) -> None:
        """Copy the policy's weights; call it after every update."""
        read = tf.raw_ops.ReadVariableOp
        for handle, copy in self._copies:
            # A third of what the variable's own numpy() costs, a dozen times after every update.
            copy[...] = read(resource=handle, dtype=tf.float32).numpy()
        normalizer = self._policy.normalizer
        if normalizer:
            self._mean, self._std = normalizer.mean, normalizer.std

    def act(self, obs: np.ndarray, noise: np.ndarray | None) -> np.ndarray:
        """Actions [N, ...] for observations [N, ...]; noise from the head's draw_noise, or None for the mode."""
        flat = self._flat(self._latent(self._encode(obs)))
        return self._head.mode_numpy(flat) if noise is None else self._head.sample_numpy(flat, noise)

    def evaluate(self, obs: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values [B] and negative log probabilities [B] of a whole block of observations and the actions taken."""
        encoded = self._encode(obs)
        latent = self._latent(encoded)
        values = self.value(obs) if self._vf is None else self._value(encoded, latent)
        return values, self._head.neglogp_numpy(self._flat(latent), actions)

    def value(self, obs: np.ndarray, states: Any = None, episode_start: Any = None) -> np.ndarray:
        """Values [B]."""
        if self._vf is None:
            self._graph = self._graph or GraphActor(self._policy)
            return self._graph.value(obs)
        return self._value(self._encode(obs), None)

    def choose(
        self, obs: np.ndarray, states: Any, episode_start: Any, noise: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Actions [N, ...] and new states alone."""
        return self.act(obs, noise), None

    def step(self, obs: np.ndarray, states: Any, episode_start: Any, noise: np.ndarray | None) -> Step:
        """Actions, values and negative log probabilities of one step; states and episode_start are not used."""
        actions = self.act(obs, noise)
        values, neglogps = self.evaluate(obs, actions)
        return Step(actions, values, None, neglogps)

    def behave(
        self, obs: np.ndarray, states: Any, episode_start: Any, noise: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Actions [N, ...], the parameters [N, P] of the distributions they were drawn from, and new states."""
        flat = self._flat(self._latent(self._encode(obs)))
        return self._head.sample_numpy(flat, noise), flat, None

    def _copy_of(self, variable: keras.Variable) -> np.ndarray:
        """Room for a variable's numbers, which `refresh` brings up to date."""
        copy = np.empty(variable.shape, np.float32)
        self._copies.append((variable.value.handle, copy))
        return copy

    def _encode(self, obs: np.ndarray) -> np.ndarray:
        x = encode_numpy(obs, self._policy.observation_space)
        if self._policy.normalizer:
            x = (x - self._mean) / self._std
        clip = self._policy.clip
        x = x if clip is None else np.clip(x, -clip, clip)
        return x.reshape(len(x), -1) if self._flatten else x

    def _flat(self, latent: np.ndarray) -> np.ndarray:
        pi = latent if self._pi is None else self._pi(latent)
        if self._logstd is None:
            return pi
        flat = np.empty((len(pi), 2 * pi.shape[1]), np.float32)
        flat[:, : pi.shape[1]] = pi
        flat[:, pi.shape[1] :] = self._logstd
        return flat

    def _value(self, encoded: np.ndarray, latent: np.ndarray | None) -> np.ndarray:
        if self._value_latent is not None:
            latent = self._value_latent(encoded)
        elif latent is None:
            latent = self._latent(encoded)
        value = self._vf(latent)
        return value if self._policy.estimate_q else value[:, 0]


class GraphActor:
    """Acts through one compiled function with a fixed signature: for convolutional, recurrent and unusual networks."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.recurrent = policy.recurrent
        head = policy.head
        signature = [
            observation_spec(policy.observation_space),
            tf.TensorSpec((None, *head.noise_shape), tf.float32),
        ]
        if self.recurrent:
            signature += [tf.TensorSpec((None,), tf.float32), tf.TensorSpec((None, policy.state_size), tf.float32)]

        def step(obs: tf.Tensor, noise: tf.Tensor, episode_start: Any = None, states: Any = None) -> tuple:
            outputs = policy.forward(obs, episode_start, states)
            distribution = head.distribution(outputs.flat)
            actions = distribution.sample(noise)
            neglogps = distribution.neglogp(actions)
            results = (tf.cast(actions, head.action_dtype), outputs.value, neglogps, outputs.flat)
            return (*results, outputs.states) if self.recurrent else results

        def value(obs: tf.Tensor, episode_start: Any = None, states: Any = None) -> tf.Tensor:
            return policy.forward(obs, episode_start, states).value

        self._step = tf.function(step, input_signature=signature)
        self._value = tf.function(value, input_signature=[signature[0], *signature[2:]])

    def refresh(self) -> None:
        """Nothing to copy: the compiled function reads the policy's variables."""

    def step(self, obs: np.ndarray, states: Any, episode_start: Any, noise: np.ndarray | None) -> Step:
        """Actions, values, new states and negative log probabilities of one step.

        Args:
            obs: [N, ...].
            states: [N, S], or None for a feed-forward policy.
            episode_start: [N] whether the observation is the first of an episode, or None for a feed-forward policy.
            noise: [N, ...] from the head's draw_noise, or None for the mode.
        """
        head = self._policy.head
        if noise is None:
            count = len(next(iter(parts_of_obs(obs).values())))
            noise = np.full((count, *head.noise_shape), head.mode_noise, np.float32)
        actions, values, neglogps, _, *new_states = self._step(obs, noise, *self._memory(episode_start, states))
        states = new_states[0].numpy() if new_states else None
        return Step(actions.numpy(), values.numpy(), states, neglogps.numpy())

    def choose(
        self, obs: np.ndarray, states: Any, episode_start: Any, noise: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Actions [N, ...] and new states alone."""
        step = self.step(obs, states, episode_start, noise)
        return step.actions, step.states

    def behave(
        self, obs: np.ndarray, states: Any, episode_start: Any, noise: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Actions [N, ...], the parameters [N, P] of the distributions they were drawn from, and new states."""
        actions, _, _, flat, *new_states = self._step(obs, noise, *self._memory(episode_start, states))
        return actions.numpy(), flat.numpy(), new_states[0].numpy() if new_states else None

    def value(self, obs: np.ndarray, states: Any = None, episode_start: Any = None) -> np.ndarray:
        """Values [B]."""
        return self._value(obs, *self._memory(episode_start, states)).numpy()

    def _memory(self, episode_start: Any, states: Any) -> tuple:
        return (np.asarray(episode_start, np.float32), states) if self.recurrent else ()


_NUMPY_ACTIVATIONS: dict[str, Callable[..., np.ndarray]] = {
    "linear": lambda x, out: x,
    "tanh": np.tanh,
    "relu": lambda x, out: np.maximum(x, 0.0, out=out),
}


def _activation_name(layer: keras.layers.Layer) -> str:
    return getattr(layer.activation, "__name__", "")


def _mirrors(network: keras.Model) -> bool:
    """Whether the network is a plain chain of layers that numpy can repeat."""
    layers = keras.layers
    if getattr(network, "state_size", None) or not isinstance(network, keras.Sequential | keras.Model):
        return False
    known = layers.InputLayer | layers.Flatten | layers.Dense | layers.LayerNormalization | layers.Activation
    chain = list(network.layers)
    if not chain or any(not isinstance(layer, known) for layer in chain):
        return False
    if any(len(getattr(layer, "_inbound_nodes", [None])) > 1 for layer in chain):
        return False
    norms = [layer for layer in chain if isinstance(layer, layers.LayerNormalization)]
    if any(layer.axis != [-1] or layer.gamma is None or layer.beta is None for layer in norms):
        return False
    activated = [layer for layer in chain if isinstance(layer, layers.Dense | layers.Activation)]
    return all(_activation_name(layer) in _NUMPY_ACTIVATIONS for layer in activated)


def _numpy_network(network: keras.Model, copy_of: CopyOf) -> ArrayFunction:
    functions = [function for layer in network.layers if (function := _numpy_layer(layer, copy_of)) is not None]

    def forward(x: np.ndarray) -> np.ndarray:
        for function in functions:
            x = function(x)
        return x

    return forward


def _numpy_layer(layer: keras.layers.Layer, copy_of: CopyOf) -> ArrayFunction | None:
    if isinstance(layer, keras.layers.Dense):
        return _numpy_dense(layer, copy_of)
    if isinstance(layer, keras.layers.LayerNormalization):
        return _numpy_layer_norm(layer, copy_of)
    if isinstance(layer, keras.layers.Activation):
        activation = _NUMPY_ACTIVATIONS[_activation_name(layer)]
        # Not in place: x may be the caller's observations.
        return lambda x: activation(x, None)
    if isinstance(layer, keras.layers.Flatten):
        return lambda x: x.reshape(len(x), -1)
    return None


def _numpy_dense(layer: keras.layers.Dense, copy_of: CopyOf) -> ArrayFunction:
    kernel, bias = copy_of(layer.kernel), copy_of(layer.bias) if layer.use_bias else np.float32(0.0)
    activation, dot = _NUMPY_ACTIVATIONS[_activation_name(layer)], np.dot
    most_rows = LARGEST_PRODUCT // kernel.size

    def dense(x: np.ndarray) -> np.ndarray:
        if most_rows < FEWEST_ROWS or len(x) <= most_rows:
            y = dot(x, kernel)
        else:
            y = np.empty((len(x), kernel.shape[1]), np.result_type(x, kernel))
            for start in range(0, len(x), most_rows):
                dot(x[start : start + most_rows], kernel, out=y[start : start + most_rows])
        y += bias
        return activation(y, out=y)

    return dense


def _numpy_layer_norm(layer: keras.layers.LayerNormalization, copy_of: CopyOf) -> ArrayFunction:
    gamma, beta, epsilon = copy_of(layer.gamma), copy_of(layer.beta), layer.epsilon

    def layer_norm(x: np.ndarray) -> np.ndarray:
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = np.square(centred).mean(axis=-1, keepdims=True)
        return centred / np.sqrt(variance + epsilon) * gamma + beta

    return layer_norm
