"""Policies of on-policy algorithms, with values or without, and the function that builds them from names.

A policy holds variables and pure graph functions over them; policy/actor.py samples from it.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.errors import UsageError, bad_argument
from tfbaselines.parallel import mpi
from tfbaselines.policy.actor import Mirror
from tfbaselines.policy.base import BasePolicy, Outputs, memory_tensors
from tfbaselines.policy.distributions import Bounded, make_pdtype
from tfbaselines.policy.encoding import networks_part, seen_in_numpy
from tfbaselines.policy.layers import flat_width, in_full, run_network
from tfbaselines.policy.networks import NetworkFn, NetworkSpec
from tfbaselines.policy.trunk import network_for, network_over


class Policy(BasePolicy):
    """Policy and value function.

    Args:
        observation_space: of one environment.
        action_space: of one environment.
        policy_network: function of an input shape that returns the Keras model of the policy's latent.
        value_network: the same for the value function, or None to share the policy's latent.
        normalize_observations: see BasePolicy.
        estimate_q: estimate a value of each discrete action instead of one value of the state.
        value_streams: number of values of the state, one for each reward signal; None for a single value.
        comm: see BasePolicy.
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        policy_network: NetworkFn,
        value_network: NetworkFn | None = None,
        *,
        normalize_observations: bool = False,
        estimate_q: bool = False,
        value_streams: int | None = None,
        comm: mpi.Communicator | None = None,
    ) -> None:
        if estimate_q and not isinstance(action_space, spaces.Discrete):
            raise bad_argument("estimate_q", True, f"needs a Discrete action space, not {action_space}")
        head = make_pdtype(action_space)
        super().__init__(
            observation_space, action_space, head, normalize_observations=normalize_observations, comm=comm
        )
        self.network = network_over(policy_network, self._seen)
        self.value_network = network_over(value_network, self._seen) if value_network else None
        self._pi_states = getattr(self.network, "state_size", None) or 0
        self.state_size = self._pi_states + (getattr(self.value_network, "state_size", None) or 0)
        latent_width = flat_width(self.network)
        # A latent as wide as the head's input becomes the head's input, as in the original.
        self.pi_layer = None if latent_width == head.width else _dense(head.width, 0.01, latent_width, "pi")
        has_logstd = head.param_size != head.width
        self.logstd = keras.Variable(np.zeros((1, head.width), np.float32), name="logstd") if has_logstd else None
        value_width = int(action_space.n) if estimate_q else value_streams or 1
        self.estimate_q = estimate_q
        self.value_shape = () if value_streams is None else (value_streams,)
        self.vf_layer = _dense(value_width, 1.0, flat_width(self.value_network or self.network), "vf")

    @property
    def modules(self) -> list[Any]:
        modules = [self.network, self.value_network, self.pi_layer, self.vf_layer]
        return [module for module in modules if module is not None]

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """Variables in the original's order: policy network, value network, policy head, value head."""
        value_network = [] if self.value_network is None else self.value_network.trainable_variables
        return [
            *self.network.trainable_variables,
            *value_network,
            *self._head_variables,
            *self.vf_layer.trainable_variables,
        ]

    @property
    def acting_variables(self) -> list[keras.Variable]:
        """Trainable variables of the action distributions."""
        return [*self.network.trainable_variables, *self._head_variables]

    @property
    def value_variables(self) -> list[keras.Variable]:
        """Trainable variables that only the values use."""
        network = [] if self.value_network is None else self.value_network.trainable_variables
        return [*network, *self.vf_layer.trainable_variables]

    @property
    def _head_variables(self) -> list[keras.Variable]:
        layer = [] if self.pi_layer is None else self.pi_layer.trainable_variables
        return [*layer, *([] if self.logstd is None else [self.logstd])]

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
        actor = [self.network] if self.pi_layer is None else [self.network, self.pi_layer]
        value = [self.value_network or self.network, self.vf_layer]
        return Mirror(actor, value, self.logstd, self._several_values, seen)

    def forward(self, obs: Any, episode_start: tf.Tensor | None = None, states: tf.Tensor | None = None) -> Outputs:
        """Compute distribution parameters, values and new states; features are the input of the value layer."""
        encoded = self.preprocess(obs)
        x = networks_part(encoded, self._seen)
        episode_start, states = memory_tensors(episode_start, states)
        pi_states = None if states is None else states[:, : self._pi_states]
        vf_states = None if states is None else states[:, self._pi_states :]
        latent, new_pi_states = _run(self.network, x, episode_start, pi_states)
        vf_latent, new_vf_states = latent, None
        if self.value_network is not None:
            vf_latent, new_vf_states = _run(self.value_network, x, episode_start, vf_states)
        pi = latent if self.pi_layer is None else self.pi_layer(latent)
        flat = pi if self.logstd is None else tf.concat([pi, tf.zeros_like(pi) + self.logstd.value], axis=-1)
        flat = self._allowed(in_full(flat), encoded)
        value = in_full(self.vf_layer(vf_latent))
        new_states = [s for s in (new_pi_states, new_vf_states) if s is not None]
        return Outputs(
            flat,
            value if self._several_values else value[:, 0],
            tf.concat(new_states, axis=-1) if new_states else None,
            vf_latent,
        )

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
    comm: mpi.Communicator | None = None,
    policy_class: type[Policy] = Policy,
    **policy_kwargs: Any,
) -> Policy:
    """Build the policy of an environment from names.

    Args:
        env: anything with observation_space and action_space.
        policy_network: a registered network's name, or a builder.
        value_network: None or 'shared' to share the policy's latent, 'copy' for a second network of the same kind,
            another network's name, or a builder.
        normalize_observations: see BasePolicy.
        estimate_q: see Policy.
        value_streams: see Policy.
        comm: see BasePolicy.
        policy_class: Policy, or a subclass with the same arguments.
        policy_kwargs: arguments of the network's builder.
    """
    network_fn = network_for(policy_network, env.observation_space, **policy_kwargs)
    if value_network in (None, "shared"):
        value_fn = None
    elif value_network == "copy":
        value_fn = network_for(policy_network, env.observation_space, **policy_kwargs)
    else:
        value_fn = network_for(value_network, env.observation_space)
    streams = {} if value_streams is None else {"value_streams": value_streams}
    return policy_class(
        env.observation_space,
        env.action_space,
        network_fn,
        value_fn,
        normalize_observations=normalize_observations,
        estimate_q=estimate_q,
        comm=comm,
        **streams,
    )


def _run(network: keras.Model, x: tf.Tensor, episode_start: Any, states: Any) -> tuple[tf.Tensor, tf.Tensor | None]:
    if getattr(network, "state_size", None):
        return tuple(network([x, episode_start, states]))
    return run_network(network, x), None


def _dense(width: int, gain: float, inputs: int, name: str) -> keras.layers.Dense:
    layer = keras.layers.Dense(width, kernel_initializer=keras.initializers.Orthogonal(gain), name=name)
    layer.build((None, inputs))
    return layer


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
