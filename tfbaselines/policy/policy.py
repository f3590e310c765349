"""Policies of on-policy algorithms, with values or without, and the function that builds them from names.

A policy holds variables and pure graph functions over them; policy/actor.py samples from it.
"""

import copy
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.errors import UsageError, bad_argument
from tfbaselines.parallel import mpi
from tfbaselines.policy.base import BasePolicy, Head, Mirror, Outputs, memory_tensors
from tfbaselines.policy.bounded import Bounded
from tfbaselines.policy.distributions import ShapedHead, make_pdtype
from tfbaselines.policy.encoding import networks_part, seen_in_numpy
from tfbaselines.policy.layers import (
    flat_width,
    in_full,
    run_with_memory,
    state_size_of,
    uniform_instead_of_orthogonal,
)
from tfbaselines.policy.networks import NetworkFn, NetworkSpec
from tfbaselines.policy.trunk import network_for, network_over

# Gain of the initialization of the layer below the action head.
PI_GAIN = 0.01


class NetworkPolicy(BasePolicy):
    """Base of policies of a network and an output layer for the parameters of the action head.

    BasePolicy explains further arguments.

    Args:
        network: function of an input shape that returns the Keras model of the latent.
        direct: a latent as wide as the head's input becomes the head's input, as in the original, if it has weights.
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        head: Head,
        network: NetworkFn,
        direct: bool,
        **base: Any,
    ) -> None:
        super().__init__(observation_space, action_space, head, **base)
        self.network = network_over(network, self.network_space())
        self.state_size = state_size_of(self.network)
        width = flat_width(self.network)
        direct = direct and width == head.width and bool(self.network.weights)
        self.pi_layer = None if direct else _dense(head.width, PI_GAIN, width, "pi")
        has_logstd = head.param_size != head.width
        self.logstd = keras.Variable(np.zeros((1, head.width), np.float32), name="logstd") if has_logstd else None

    def network_space(self) -> spaces.Space:
        """Return the space of the networks' inputs: observations without the action mask."""
        return self._seen

    @property
    def modules(self) -> list[Any]:
        return [self.network] if self.pi_layer is None else [self.network, self.pi_layer]

    @property
    def acting_variables(self) -> list[keras.Variable]:
        """Trainable variables of the action distributions."""
        return [*self.network.trainable_variables, *self._head_variables]

    @property
    def _head_variables(self) -> list[keras.Variable]:
        layer = [] if self.pi_layer is None else self.pi_layer.trainable_variables
        return [*layer, *([] if self.logstd is None else [self.logstd])]

    def _flat(self, latent: tf.Tensor, encoded: Any) -> tf.Tensor:
        """Compute the head's parameters [B, P] from the latent."""
        pi = latent if self.pi_layer is None else self.pi_layer(latent)
        flat = pi if self.logstd is None else tf.concat([pi, tf.zeros_like(pi) + self.logstd.value], axis=-1)
        return self._allowed(in_full(flat), encoded)


class Policy(NetworkPolicy):
    """Policy and value function; BasePolicy explains further arguments.

    Args:
        policy_network: function of an input shape that returns the Keras model of the policy's latent.
        value_network: the same for the value function, or None to share the policy's latent.
        estimate_q: estimate a value of each discrete action instead of one value of the state.
        value_streams: number of values of the state, one for each reward signal; None for a single value.
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        policy_network: NetworkFn,
        value_network: NetworkFn | None = None,
        *,
        estimate_q: bool = False,
        value_streams: int | None = None,
        **base: Any,
    ) -> None:
        if estimate_q and not isinstance(action_space, spaces.Discrete):
            raise bad_argument("estimate_q", True, f"needs a Discrete action space, not {action_space}")
        head = make_pdtype(action_space)
        super().__init__(observation_space, action_space, head, policy_network, True, **base)
        self.value_network = network_over(value_network, self.network_space()) if value_network else None
        self._pi_states = self.state_size
        self.state_size += state_size_of(self.value_network)
        value_width = int(action_space.n) if estimate_q else value_streams or 1
        self.estimate_q = estimate_q
        self.value_shape = () if value_streams is None else (value_streams,)
        self.vf_layer = _dense(value_width, 1.0, flat_width(self.value_network or self.network), "vf")

    @property
    def modules(self) -> list[Any]:
        modules = [self.network, self.value_network, self.pi_layer, self.vf_layer]
        return [module for module in modules if module is not None]

    def over(self, change: Callable[[Any], Any]) -> "Policy":
        """Copy the policy; `change` makes, of each network or layer, the one in its place."""
        other = copy.copy(self)
        other.network = change(self.network)
        other.value_network = None if self.value_network is None else change(self.value_network)
        other.pi_layer = None if self.pi_layer is None else change(self.pi_layer)
        other.vf_layer = change(self.vf_layer)
        return other

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """Variables in the original's order: policy network, value network, policy head, value head."""
        network, head = self.network.trainable_variables, self._head_variables
        value_network = [] if self.value_network is None else self.value_network.trainable_variables
        return [*network, *value_network, *head, *self.vf_layer.trainable_variables]

    @property
    def value_variables(self) -> list[keras.Variable]:
        """Trainable variables that only the values use."""
        network = [] if self.value_network is None else self.value_network.trainable_variables
        return [*network, *self.vf_layer.trainable_variables]

    @property
    def parameter_groups(self) -> dict[str, list[keras.Variable]]:
        return {"pi": self.acting_variables, "q" if self.estimate_q else "v": self.value_variables}

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Raise an error that names the methods to call: in baselines, build_policy returns a function."""
        raise UsageError(
            "build_policy returns the policy itself, which is not called: use policy.forward(observations), or the "
            "model that learn(network, env, total_timesteps=0) returns, which has step, act and value"
        )

    def mirror(self) -> Mirror | None:
        repeatable, seen = seen_in_numpy(self)
        if not repeatable:
            return None
        value = [self.value_network or self.network, self.vf_layer]
        return Mirror(super().modules, value, self.logstd, self._several_values, seen)

    def forward(self, obs: Any, episode_start: tf.Tensor | None = None, states: tf.Tensor | None = None) -> Outputs:
        """Compute distribution parameters, values and new states; features are the input of the value layer."""
        encoded = self.preprocess(obs)
        x = networks_part(encoded, self._seen)
        episode_start, states = memory_tensors(episode_start, states)
        pi_states = None if states is None else states[:, : self._pi_states]
        vf_states = None if states is None else states[:, self._pi_states :]
        latent, new_pi_states = run_with_memory(self.network, x, episode_start, pi_states)
        vf_latent, new_vf_states = latent, None
        if self.value_network is not None:
            vf_latent, new_vf_states = run_with_memory(self.value_network, x, episode_start, vf_states)
        flat, value = self._heads(latent, vf_latent, encoded)
        new_states = [s for s in (new_pi_states, new_vf_states) if s is not None]
        return Outputs(flat, value, tf.concat(new_states, axis=-1) if new_states else None, vf_latent)

    def _heads(self, latent: tf.Tensor, vf_latent: tf.Tensor, encoded: Any) -> tuple[tf.Tensor, tf.Tensor]:
        """Compute the head's parameters [B, P] and the values of both networks' latents."""
        value = in_full(self.vf_layer(vf_latent))
        return self._flat(latent, encoded), value if self._several_values else value[:, 0]

    @property
    def _several_values(self) -> bool:
        return self.estimate_q or bool(self.value_shape)


def build_policy(
    env: Any,
    policy_network: NetworkSpec,
    value_network: NetworkSpec | None = None,
    normalize_observations: bool = False,
    estimate_q: bool = False,
    value_streams: int | None = None,
    init_logstd: float = 0.0,
    ortho_init: bool = True,
    comm: mpi.Communicator | None = None,
    policy_class: type[Policy] = Policy,
    **policy_kwargs: Any,
) -> Policy:
    """Build the policy of an environment from names; Policy and BasePolicy explain other arguments.

    Args:
        value_network: None or 'shared' to share the policy's latent, 'copy' for a second network of the same kind,
            another network's name, or a builder.
        init_logstd: initial log standard deviation of Gaussian actions.
        ortho_init: False replaces orthogonal weights, see uniform_instead_of_orthogonal.
        policy_class: Policy, or a subclass with the same arguments.
    """
    # With further inputs beside it, an image is a part, which network_over encodes.
    space = env.observation_space if policy_class is Policy else spaces.Dict({})
    network_fn = network_for(policy_network, space, **policy_kwargs)
    if value_network in (None, "shared"):
        value_fn = None
    elif value_network == "copy":
        value_fn = network_for(policy_network, space, **policy_kwargs)
    else:
        value_fn = network_for(value_network, space)
    streams = {} if value_streams is None else {"value_streams": value_streams}
    policy = policy_class(
        env.observation_space,
        env.action_space,
        network_fn,
        value_fn,
        normalize_observations=normalize_observations,
        estimate_q=estimate_q,
        comm=comm,
        **streams,
    )
    if policy.logstd is not None:
        policy.logstd.assign(np.full(policy.logstd.shape, init_logstd, np.float32))
    if not ortho_init:
        uniform_instead_of_orthogonal(*policy.modules)
    return policy


def _dense(width: int, gain: float, inputs: int, name: str) -> keras.layers.Dense:
    layer = keras.layers.Dense(width, kernel_initializer=keras.initializers.Orthogonal(gain), name=name)
    layer.build((None, inputs))
    return layer


class CertainHead(ShapedHead):
    """The most likely actions of the action space's head; for a Box the parameters [B, n] are the actions."""

    def __init__(self, space: spaces.Space) -> None:
        self._head = make_pdtype(space)
        self._box = isinstance(space, spaces.Box)
        super().__init__(self._head.width, self._head.action_shape, self._head.action_dtype)
        self.noise_shape = (0,)

    def draw_noise(self, rng: np.random.Generator, batch: tuple[int, ...]) -> np.ndarray:
        return np.empty((*batch, 0), np.float32)

    def distribution(self, flat: tf.Tensor) -> Bounded:
        actions = tf.reshape(flat, (-1, *self.action_shape)) if self._box else self._head.distribution(flat).mode()
        return Bounded(lambda: actions, lambda noise: actions, lambda _: tf.zeros(tf.shape(actions)[0]))

    def sample_numpy(self, flat: np.ndarray, noise: np.ndarray) -> np.ndarray:
        return self.mode_numpy(flat)

    def mode_numpy(self, flat: np.ndarray) -> np.ndarray:
        return self._head.mode_numpy(flat)

    def neglogp_numpy(self, flat: np.ndarray, actions: np.ndarray) -> np.ndarray:
        return np.zeros(len(flat), np.float32)


class DirectPolicy(NetworkPolicy):
    """A network and an output layer; all values are 0. NetworkPolicy explains further arguments.

    Args:
        certain: always take the most likely action, so that the only noise is in the parameters; otherwise draw actions
            from the action space's distribution.
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        network: NetworkFn,
        *,
        certain: bool = True,
        **base: Any,
    ) -> None:
        head = CertainHead(action_space) if certain else make_pdtype(action_space)
        super().__init__(observation_space, action_space, head, network, False, **base)

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        return self.acting_variables

    def mirror(self) -> Mirror | None:
        repeatable, seen = seen_in_numpy(self)
        return None if self.recurrent or not repeatable else Mirror(self.modules, logstd=self.logstd, seen=seen)

    def forward(self, obs: Any, episode_start: tf.Tensor | None = None, states: tf.Tensor | None = None) -> Outputs:
        encoded = self.preprocess(obs)
        x = networks_part(encoded, self._seen)
        latent, states = run_with_memory(self.network, x, *memory_tensors(episode_start, states))
        flat = self._flat(latent, encoded)
        return Outputs(flat, tf.zeros(tf.shape(flat)[0]), states)
