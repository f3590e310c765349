"""Acting: compute the actions of one step with little time around the arithmetic.

A tf.function call costs some 200 us however small the network. Policies of dense layers therefore act through numpy
copies of their weights (`NumpyActor`), and so do policies of an LSTM and dense layers (`MemoryActor`). All others act
through one compiled function (`GraphActor`). All compute the same numbers, and randomness is an argument.
"""

import abc
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.compiling import Reading, compiled, prompt
from tfbaselines.envs.vec.observations import MASK as ACTION_MASK
from tfbaselines.envs.vec.observations import is_image, parts_of_obs
from tfbaselines.envs.vec.packed import unpacked
from tfbaselines.policy.base import BasePolicy, Chain, Mirror, SamplingActor, Step
from tfbaselines.policy.encoding import FORBIDDEN, encode_numpy, observation_spec
from tfbaselines.policy.layers import RoundedKernels
from tfbaselines.policy.recurrent import cell_of, normalized_in_numpy

ArrayFunction = Callable[[np.ndarray], np.ndarray]
# Arrays without axes are faster operands than numbers.
ZERO = np.zeros((), np.float32)


class NumpyCopies:
    """Numpy copies of variables, and the functions that compute with them."""

    # Half the time of np.dot, which looks for other kinds of arrays first.
    _product = staticmethod(np.ndarray.dot)

    def __init__(self) -> None:
        self._variables: list[tf.Variable] = []
        self._copies: list[np.ndarray] = []
        self._reading: Reading | None = None

    def refresh(self) -> None:
        """Copy the variables' present values."""
        if self._reading is None:
            self._reading = Reading(self._variables)
        for copy, numbers in zip(self._copies, self._reading(), strict=True):
            # The variable's own numpy() copies twice.
            copy[...] = memoryview(numbers)

    def of(self, variable: keras.Variable) -> np.ndarray:
        """Make an array for a variable; `refresh` fills it."""
        copy = np.empty(variable.shape, np.float32)
        self._variables.append(variable.value)
        self._copies.append(copy)
        self._reading = None
        return copy

    def function(self, chain: Chain) -> ArrayFunction:
        """Make a function of arrays [B, ...] from a chain; an empty chain is the identity."""
        functions = [function for module in chain for function in self._functions(module)]
        if len(functions) == 1:
            return functions[0]

        def forward(x: np.ndarray) -> np.ndarray:
            for function in functions:
                x = function(x)
            return x

        return forward

    def _functions(self, module: Any) -> list[ArrayFunction]:
        if hasattr(module, "in_numpy"):
            return [module.in_numpy(self)]
        functions = [function for layer in _layers(module) if (function := self._layer(layer)) is not None]
        if isinstance(module, keras.Model) and len(module.output_shape) != 2:
            functions.append(_rows)
        return functions

    def _layer(self, layer: keras.layers.Layer) -> ArrayFunction | None:
        if hasattr(layer, "in_numpy"):
            return layer.in_numpy(self)
        if isinstance(layer, keras.layers.Dense):
            return self._dense(layer)
        if isinstance(layer, keras.layers.LayerNormalization):
            return self._layer_norm(layer)
        if isinstance(layer, keras.layers.Activation):
            activation = _ACTIVATIONS[_activation_name(layer)]
            # Not in place: x may be the caller's observations.
            return lambda x: activation(x, None)
        return _rows if isinstance(layer, keras.layers.Flatten) else None

    def _dense(self, layer: keras.layers.Dense) -> ArrayFunction:
        product = self._product
        kernel = self.of(layer.kernel)
        # Sums of arrays of the same rank are faster for one row.
        bias = np.atleast_2d(self.of(layer.bias)) if layer.use_bias else ZERO
        activation = _ACTIVATIONS[_activation_name(layer)]

        def dense(x: np.ndarray) -> np.ndarray:
            y = product(x, kernel)
            y += bias
            return activation(y, y)

        return dense

    def _layer_norm(self, layer: keras.layers.LayerNormalization) -> ArrayFunction:
        gamma, beta, epsilon = self.of(layer.gamma), self.of(layer.beta), layer.epsilon
        return lambda x: normalized_in_numpy(x, gamma, beta, epsilon)


def takes_rows(module: keras.Model | keras.layers.Layer) -> bool:
    """Check whether a chain's first module takes observations as rows of numbers [B, n]."""
    return not isinstance(module, keras.Model) or len(module.input_shape) == 2


_ACTIVATIONS: dict[str, Callable[..., np.ndarray]] = {
    "linear": lambda x, out: x,
    "tanh": np.tanh,
    "relu": lambda x, out: np.maximum(x, ZERO, out=out),
}


def _rows(x: np.ndarray) -> np.ndarray:
    return x.reshape(len(x), -1)


def _activation_name(layer: keras.layers.Layer) -> str:
    return getattr(layer.activation, "__name__", "")


def _layers(module: keras.Model | keras.layers.Layer) -> list[keras.layers.Layer]:
    return list(module.layers) if isinstance(module, keras.Model) else [module]


def _repeatable(module: Any) -> bool:
    """Check whether numpy can compute a module: known layers in a row, or its own function."""
    if hasattr(module, "in_numpy"):
        return True
    layers = _layers(module)
    return not getattr(module, "state_size", None) and bool(layers) and all(map(_known, layers))


def _known(layer: keras.layers.Layer) -> bool:
    used_again = len(getattr(layer, "_inbound_nodes", [None])) > 1
    if used_again:
        return False
    if hasattr(layer, "in_numpy"):
        return True
    if isinstance(layer, keras.layers.Dense | keras.layers.Activation):
        return _activation_name(layer) in _ACTIVATIONS
    if isinstance(layer, keras.layers.LayerNormalization):
        return layer.axis == [-1] and layer.gamma is not None and layer.beta is not None
    return isinstance(layer, keras.layers.InputLayer | keras.layers.Flatten)


def make_actor(policy: BasePolicy) -> SamplingActor:
    """Make the fastest actor of a policy; a policy without networks may define its own `make_actor`."""
    own = getattr(policy, "make_actor", None)
    if own is not None:
        return own()
    mirror = policy.mirror()
    if mirror is not None and repeatable(mirror):
        return NumpyActor(policy)
    return MemoryActor(policy) if mirror is not None and remembers(mirror) else GraphActor(policy)


def acts_in_numpy(policy: BasePolicy) -> bool:
    """Check whether numpy can compute the policy's networks."""
    mirror = policy.mirror()
    return mirror is not None and repeatable(mirror)


def repeatable(mirror: Mirror) -> bool:
    """Check whether numpy can compute every layer of the chains."""
    return all(map(_repeatable, (*mirror.actor, *(mirror.value or ()))))


def remembers(mirror: Mirror) -> bool:
    """Check whether both chains begin with an LSTM, and numpy can compute every layer above it."""
    chains = (mirror.actor, mirror.value or ())
    return all(chain and cell_of(chain[0]) and all(map(_repeatable, chain[1:])) for chain in chains)


class ActsInNumpy(abc.ABC):
    """Base of actors with numpy copies of weights; see SamplingActor in policy/base.py.

    A subclass defines `_run`, and sets `_value_rest`, the function from its second result to values.
    """

    def __init__(self, policy: BasePolicy, copies: NumpyCopies) -> None:
        self._policy = policy
        self._head = policy.head
        self._copies = copies
        mirror = policy.mirror()
        self._logstd = None
        if mirror.logstd is not None:
            # One row, or one for each member of a population.
            self._logstd = copies.of(mirror.logstd).reshape(-1, mirror.logstd.shape[-1])
        self._value_per_action = mirror.value_per_action
        self._takes_rows = takes_rows(mirror.actor[0])
        self._seen = mirror.seen
        space = policy.observation_space
        self._numbers = isinstance(space, spaces.Box | spaces.MultiBinary) and not is_image(space)

    def refresh(self) -> None:
        self._copies.refresh()
        if self._logstd is not None:
            self._action_std = np.exp(self._logstd)
        normalizer = self._policy.normalizer
        if normalizer:
            self._mean = normalizer.mean
            self._std = normalizer.std

    def step(self, obs: Any, states: Any, episode_start: Any, noise: np.ndarray | None) -> Step:
        flat, latent, states = self._run(obs, states, episode_start)
        actions = self._chosen(flat, noise)
        return Step(actions, self._value_of(latent, obs), states, self._head.neglogp_numpy(flat, actions))

    def choose(
        self, obs: Any, states: Any, episode_start: Any, noise: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        flat, _, states = self._run(obs, states, episode_start)
        return self._chosen(flat, noise), states

    def behave(
        self, obs: Any, states: Any, episode_start: Any, noise: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        flat, _, states = self._run(obs, states, episode_start)
        return self._head.sample_numpy(flat, noise), flat, states

    @abc.abstractmethod
    def _run(self, obs: Any, states: Any, episode_start: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Compute the head's parameters [N, P], the values' input [N, n], and new states [N, S]."""

    def _value_of(self, latent: np.ndarray, obs: Any) -> np.ndarray:
        value = self._value_rest(latent)
        return value if self._value_per_action else value[:, 0]

    def _chosen(self, flat: np.ndarray, noise: np.ndarray | None) -> np.ndarray:
        return self._head.mode_numpy(flat) if noise is None else self._head.sample_numpy(flat, noise)

    def _encode(self, obs: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """Encode observations, and compute the addition to the head's parameters [B, P] for forbidden actions."""
        space, forbidden = self._policy.observation_space, None
        if self._seen is not None:
            parts = dict(unpacked(obs, space))
            forbidden = np.float32(FORBIDDEN) * (1.0 - np.asarray(parts.pop(ACTION_MASK), np.float32))
            (obs,), space = parts.values(), self._seen
        x = np.asarray(obs, np.float32) if self._numbers else encode_numpy(obs, space)
        if self._policy.normalizer:
            x = (x - self._mean) / self._std
        clip = self._policy.clip
        x = x if clip is None else np.clip(x, -clip, clip)
        return x.reshape(len(x), -1) if self._takes_rows else x, forbidden

    def _flat(self, pi: np.ndarray, forbidden: np.ndarray | None) -> np.ndarray:
        if forbidden is not None:
            return pi + forbidden
        if self._logstd is None:
            return pi
        flat = np.empty((len(pi), 2 * pi.shape[1]), np.float32)
        flat[:, : pi.shape[1]] = pi
        flat[:, pi.shape[1] :] = self._logstd
        return flat


class NumpyActor(ActsInNumpy):
    """Acts through numpy copies of the weights of a policy that has a mirror.

    Choosing an action needs only the actor's chain, so a rollout calls `act` at each step and `evaluate` once for
    all of its values and probabilities: one large matrix product instead of many tiny ones.

    Args:
        copies: numpy copies of other weights; None for the policy's own weights.
    """

    def __init__(self, policy: BasePolicy, copies: NumpyCopies | None = None) -> None:
        super().__init__(policy, NumpyCopies() if copies is None else copies)
        mirror = policy.mirror()
        self._shared, self._actor_rest, self._value_rest = map(self._copies.function, mirror.split())
        self._has_values = mirror.value is not None
        self._graph: GraphActor | None = None
        self.refresh()

    def refresh(self) -> None:
        super().refresh()
        if self._graph is not None:
            self._graph.refresh()

    def act(self, obs: np.ndarray, noise: np.ndarray | None) -> np.ndarray:
        if noise is None or self._logstd is None:
            return self._chosen(self._run(obs)[0], noise)
        mean = self._actor_rest(self._shared(self._encode(obs)[0]))
        return self._head.draw_numpy(mean, self._action_std, noise)

    def evaluate(self, obs: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        flat, latent, _ = self._run(obs)
        return self._value_of(latent, obs), self._head.neglogp_numpy(flat, actions)

    def value(self, obs: np.ndarray, states: Any = None, episode_start: Any = None) -> np.ndarray:
        return self._value_of(self._shared(self._encode(obs)[0]) if self._has_values else None, obs)

    def _run(self, obs: Any, states: Any = None, episode_start: Any = None) -> tuple[np.ndarray, np.ndarray, None]:
        x, forbidden = self._encode(obs)
        latent = self._shared(x)
        return self._flat(self._actor_rest(latent), forbidden), latent, None

    def _value_of(self, latent: np.ndarray | None, obs: Any) -> np.ndarray:
        if self._has_values:
            return super()._value_of(latent, obs)
        self._graph = self._graph or GraphActor(self._policy)
        return self._graph.value(obs)


class MemoryActor(ActsInNumpy):
    """Acts through numpy copies of the weights of a policy with LSTMs."""

    def __init__(self, policy: BasePolicy) -> None:
        super().__init__(policy, NumpyCopies())
        mirror = policy.mirror()
        (network, *actor_rest), (value_network, *value_rest) = mirror.actor, mirror.value
        self._actor_rest = self._copies.function(actor_rest)
        self._value_rest = self._copies.function(value_rest)
        self._cell = cell_of(network).step_in_numpy(self._copies.of)
        self._value_cell = None
        if value_network is not network:
            self._value_cell = cell_of(value_network).step_in_numpy(self._copies.of)
        # Numbers in the state of the actor's network, which come first.
        self._width = network.state_size
        self._takes_rows = True
        self.refresh()

    def value(self, obs: np.ndarray, states: np.ndarray, episode_start: np.ndarray) -> np.ndarray:
        return self._value_of(self._run(obs, states, episode_start)[1], obs)

    def _run(
        self, obs: np.ndarray, states: np.ndarray, episode_start: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        x, forbidden = self._encode(obs)
        keep = 1.0 - np.asarray(episode_start, np.float32)[:, None]
        latent, new = self._cell(x, keep, states[:, : self._width])
        flat = self._flat(self._actor_rest(latent), forbidden)
        if self._value_cell is None:
            return flat, latent, new
        value_latent, value_new = self._value_cell(x, keep, states[:, self._width :])
        return flat, value_latent, np.concatenate([new, value_new], axis=1)


class GraphActor:
    """Acts through one compiled function with a fixed signature: for convolutional, recurrent and unusual networks."""

    def __init__(self, policy: BasePolicy) -> None:
        head = self._head = policy.head
        self._recurrent = policy.recurrent
        kernels = self._kernels = RoundedKernels(policy.modules)
        obs_spec = observation_spec(policy.observation_space)
        noise_spec = tf.TensorSpec((None, *head.noise_shape))
        memory_specs = [tf.TensorSpec((None,)), tf.TensorSpec((None, policy.state_size))] if self._recurrent else []

        def step(obs: tf.Tensor, noise: tf.Tensor, episode_start: Any = None, states: Any = None) -> tuple:
            with kernels.in_use():
                outputs = policy.forward(obs, episode_start, states)
            distribution = head.distribution(outputs.flat)
            actions = distribution.sample(noise)
            neglogps = distribution.neglogp(actions)
            results = (tf.cast(actions, head.action_dtype), outputs.value, neglogps, outputs.flat)
            return (*results, policy.after_action(outputs.states, actions)) if self._recurrent else results

        def value(obs: tf.Tensor, episode_start: Any = None, states: Any = None) -> tf.Tensor:
            with kernels.in_use():
                return policy.forward(obs, episode_start, states).value

        self._step = kernels.up_to_date(prompt(compiled(step, signature=[obs_spec, noise_spec, *memory_specs])))
        self._value = kernels.up_to_date(prompt(compiled(value, signature=[obs_spec, *memory_specs])))

    def refresh(self) -> None:
        # The compiled function itself reads all variables that are not rounded.
        self._kernels.refresh()

    def step(self, obs: Any, states: Any, episode_start: Any, noise: np.ndarray | None) -> Step:
        if noise is None:
            count = len(next(iter(parts_of_obs(obs).values())))
            noise = np.full((count, *self._head.noise_shape), self._head.mode_noise, np.float32)
        actions, values, neglogps, _, *new_states = self._step(obs, noise, *self._memory(episode_start, states))
        states = new_states[0].numpy() if new_states else None
        return Step(actions.numpy(), values.numpy(), states, neglogps.numpy())

    def choose(
        self, obs: Any, states: Any, episode_start: Any, noise: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        step = self.step(obs, states, episode_start, noise)
        return step.actions, step.states

    def behave(
        self, obs: Any, states: Any, episode_start: Any, noise: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        actions, _, _, flat, *new_states = self._step(obs, noise, *self._memory(episode_start, states))
        return actions.numpy(), flat.numpy(), new_states[0].numpy() if new_states else None

    def value(self, obs: Any, states: Any = None, episode_start: Any = None) -> np.ndarray:
        return self._value(obs, *self._memory(episode_start, states)).numpy()

    def _memory(self, episode_start: Any, states: Any) -> tuple:
        return (np.asarray(episode_start, np.float32), states) if self._recurrent else ()
