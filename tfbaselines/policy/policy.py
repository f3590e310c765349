"""The policy: networks, action head and value head over one environment's spaces.

``build_policy`` is the one factory of all on-policy algorithms. A Policy holds variables and pure graph functions
over them; sampling for acting is policy/actor.py's.
"""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.errors import bad_argument
from tfbaselines.parallel import mpi
from tfbaselines.parallel.moments import MpiRunningMeanStd
from tfbaselines.policy.distributions import make_pdtype
from tfbaselines.policy.encoding import (
    describe_space,
    encode,
    encoded_shape,
    is_image,
    observation_dtype,
    spaces_differ,
)
from tfbaselines.policy.networks import get_network_builder, has_convolutions
from tfbaselines.policy.precision import in_full

NetworkSpec = str | Callable[..., Any]

# Normalised observations are clipped to this many standard deviations.
CLIP_NORMALIZED = 5.0


class Outputs(NamedTuple):
    """What a policy says of a batch of observations.

    Attributes:
        flat: [B, P] parameters of the distributions.
        value: [B] values, or [B, A] one for each action.
        states: [num_envs, S] new recurrent states, or None.
        features: [B, F] the latent that the values are read from.
    """

    flat: tf.Tensor
    value: tf.Tensor
    states: tf.Tensor | None
    features: tf.Tensor


class Policy:
    """Policy and value function.

    Args:
        observation_space: what the environment shows.
        action_space: what it takes.
        policy_network: function of an input shape to a Keras model giving the policy's latent.
        value_network: the same for the value function, or None to share the policy's latent.
        normalize_observations: scale Box observations by a running mean and standard deviation kept by the policy.
        estimate_q: the value head gives a value per (discrete) action instead of one of the state.
        comm: communicator over which the running mean is merged.
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        policy_network: Callable[[tuple[int, ...]], keras.Model],
        value_network: Callable[[tuple[int, ...]], keras.Model] | None = None,
        *,
        normalize_observations: bool = False,
        estimate_q: bool = False,
        comm: mpi.Communicator | None = None,
    ) -> None:
        if estimate_q and not isinstance(action_space, spaces.Discrete):
            raise bad_argument("estimate_q", True, f"needs a Discrete action space, not {action_space}")
        self._prepare(observation_space, action_space, make_pdtype(action_space), normalize_observations, comm)
        shape = encoded_shape(observation_space)
        self.network = policy_network(shape)
        self.value_network = value_network(shape) if value_network else None
        self._pi_states = getattr(self.network, "state_size", None) or 0
        self._vf_states = getattr(self.value_network, "state_size", None) or 0
        self.state_size = self._pi_states + self._vf_states
        latent_width = flat_width(self.network)
        # A latent as wide as the head needs is taken as the head's output itself, as in the original.
        self.pi_layer = None if latent_width == self.head.width else _dense(self.head.width, 0.01, latent_width, "pi")
        has_logstd = self.head.param_size != self.head.width
        self.logstd = keras.Variable(np.zeros((1, self.head.width), np.float32), name="logstd") if has_logstd else None
        value_width = int(action_space.n) if estimate_q else 1
        self.estimate_q = estimate_q
        self.vf_layer = _dense(value_width, 1.0, flat_width(self.value_network or self.network), "vf")

    def _prepare(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        head: Any,
        normalize: bool,
        comm: Any,
        clip: float | None = None,
    ) -> None:
        """What every kind of policy has: spaces, a head for its actions, and a running mean if it is asked for."""
        self.observation_space, self.action_space, self.head = observation_space, action_space, head
        self.normalizer = _make_normalizer(observation_space, comm) if normalize else None
        self.clip = CLIP_NORMALIZED if clip is None and normalize else clip

    @property
    def convolutional(self) -> bool:
        """Whether a network convolves images."""
        return any(has_convolutions(network) for network in (self.network, self.value_network) if network is not None)

    @property
    def modules(self) -> list[Any]:
        """The networks and layers, for an exported model to hold."""
        return [self.network, self.value_network, self.pi_layer, self.vf_layer]

    @property
    def plain(self) -> bool:
        """Whether acting is dense layers over one observation's numbers, and nothing else."""
        return not self.recurrent

    @property
    def recurrent(self) -> bool:
        """Whether acting needs a state."""
        return self.state_size > 0

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """Variables in the original's order of creation: policy net, value net, policy head, value head."""
        value_network = [] if self.value_network is None else self.value_network.trainable_variables
        return [
            *self.network.trainable_variables,
            *value_network,
            *self._head_variables,
            *self.vf_layer.trainable_variables,
        ]

    @property
    def acting_variables(self) -> list[keras.Variable]:
        """Those of them that the distributions of actions depend on."""
        return [*self.network.trainable_variables, *self._head_variables]

    @property
    def _head_variables(self) -> list[keras.Variable]:
        layer = [] if self.pi_layer is None else self.pi_layer.trainable_variables
        return [*layer, *([] if self.logstd is None else [self.logstd])]

    def initial_state(self, num_envs: int) -> np.ndarray | None:
        """Zeros [num_envs, state_size] for a recurrent policy, None for the others."""
        return np.zeros((num_envs, self.state_size), np.float32) if self.recurrent else None

    def preprocess(self, obs: tf.Tensor) -> tf.Tensor:
        """Observations as the networks take them: encoded and, if asked for, normalised."""
        encoded = encode(obs, self.observation_space)
        if self.normalizer:
            encoded = self.normalizer.apply(encoded)
        if self.clip is None:
            return encoded
        if isinstance(encoded, dict):
            return encoded | {name: self._clipped(encoded[name]) for name in _numbers(self.observation_space)}
        return self._clipped(encoded)

    def _clipped(self, x: tf.Tensor) -> tf.Tensor:
        return tf.clip_by_value(tf.cast(x, tf.float32), -self.clip, self.clip)

    def forward(
        self, obs: tf.Tensor, episode_start: tf.Tensor | None = None, states: tf.Tensor | None = None
    ) -> Outputs:
        """Distribution parameters, values and new states.

        Args:
            obs: [B, ...] observations of the space's own dtype; recurrent: B = num_envs * steps, environment-major.
            episode_start: [B] 1 where the observation is an episode's first (recurrent only).
            states: [num_envs, state_size] before the first step (recurrent only).
        """
        x = self.preprocess(obs)
        if states is not None:
            episode_start, states = (
                tf.convert_to_tensor(episode_start, tf.float32),
                tf.convert_to_tensor(states, tf.float32),
            )
        pi_states = None if states is None else states[:, : self._pi_states]
        vf_states = None if states is None else states[:, self._pi_states :]
        latent, new_pi_states = _run(self.network, x, episode_start, pi_states)
        vf_latent, new_vf_states = latent, None
        if self.value_network is not None:
            vf_latent, new_vf_states = _run(self.value_network, x, episode_start, vf_states)
        pi = latent if self.pi_layer is None else self.pi_layer(latent)
        flat = pi if self.logstd is None else tf.concat([pi, tf.zeros_like(pi) + self.logstd.value], axis=-1)
        flat, value = in_full(flat), in_full(self.vf_layer(vf_latent))
        new_states = [s for s in (new_pi_states, new_vf_states) if s is not None]
        return Outputs(
            flat,
            value if self.estimate_q else value[:, 0],
            tf.concat(new_states, axis=-1) if new_states else None,
            vf_latent,
        )

    def state(self) -> dict[str, Any]:
        """Weights by number and name, and the normaliser's statistics."""
        weights = {
            f"{number:02d}/{variable.path.replace('/', '.')}": variable.numpy()
            for number, variable in enumerate(self.trainable_variables)
        }
        return {
            "observation_space": describe_space(self.observation_space),
            "action_space": describe_space(self.action_space),
            "weights": _nest(weights),
            "normalizer": self.normalizer.state() if self.normalizer else None,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over weights; ValueError when they belong to other spaces or another network."""
        for kind, space in (("observation", self.observation_space), ("action", self.action_space)):
            difference = spaces_differ(state[f"{kind}_space"], describe_space(space))
            if difference:
                raise ValueError(f"the saved model is for another {kind} space: {difference}")
        weights = state["weights"]
        arrays = [next(iter(weights[number].values())) for number in sorted(weights, key=int)]
        shapes = [tuple(array.shape) for array in arrays]
        wanted = [tuple(variable.shape) for variable in self.trainable_variables]
        if shapes != wanted:
            raise ValueError(
                f"the saved model is of another network: its weights are {shapes}, this network's are {wanted}"
            )
        if (state["normalizer"] is None) != (self.normalizer is None):
            raise ValueError("the saved model and this one differ in normalize_observations")
        for variable, array in zip(self.trainable_variables, arrays, strict=True):
            variable.assign(array)
        if self.normalizer:
            self.normalizer.restore(state["normalizer"])


def build_policy(
    env: Any,
    policy_network: NetworkSpec,
    value_network: NetworkSpec | None = None,
    normalize_observations: bool = False,
    estimate_q: bool = False,
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
        normalize_observations: see Policy.
        estimate_q: see Policy.
        comm: see Policy.
        policy_class: what is built.
        policy_kwargs: the network builder's own arguments.
    """
    network_fn = get_network_builder(policy_network)(**policy_kwargs)
    if value_network in (None, "shared"):
        value_fn = None
    elif value_network == "copy":
        value_fn = get_network_builder(policy_network)(**policy_kwargs)
    else:
        value_fn = get_network_builder(value_network)()
    return policy_class(
        env.observation_space,
        env.action_space,
        network_fn,
        value_fn,
        normalize_observations=normalize_observations,
        estimate_q=estimate_q,
        comm=comm,
    )


def policy_of_run(env: Any, network: NetworkSpec, arguments: dict[str, Any], **kind: Any) -> Policy:
    """The policy that learn(network, env, **arguments) built, with fresh weights.

    Args:
        env: anything with the run's spaces.
        network: as given to learn.
        arguments: of learn; those that are not about the policy are left alone.
        kind: estimate_q and policy_class, which the algorithm decides.
    """
    names = {"value_network", "normalize_observations", *inspect.signature(get_network_builder(network)).parameters}
    own = {name: value for name, value in arguments.items() if name in names}
    return build_policy(env, network, **kind, **own)


class _Normalizer:
    """Running mean and standard deviation of observations, mirrored in variables that compiled functions read."""

    def __init__(self, shape: tuple[int, ...], comm: mpi.Communicator | None) -> None:
        self._statistics = MpiRunningMeanStd(shape=shape, comm=mpi.wrap(comm))
        self._mean = tf.Variable(self._statistics.mean, dtype=tf.float32, trainable=False)
        self._std = tf.Variable(self._statistics.std, dtype=tf.float32, trainable=False)

    @property
    def variables(self) -> list[tf.Variable]:
        return [self._mean, self._std]

    @property
    def mean(self) -> np.ndarray:
        return self._statistics.mean

    @property
    def std(self) -> np.ndarray:
        return self._statistics.std

    def apply(self, x: tf.Tensor) -> tf.Tensor:
        return (tf.cast(x, tf.float32) - self._mean) / self._std

    def update(self, observations: np.ndarray) -> None:
        """Merge a batch [B, ...] of this rank (and the others') into the statistics."""
        self._statistics.update(observations)
        self._refresh()

    def state(self) -> dict[str, Any]:
        return self._statistics.state()

    def restore(self, state: dict[str, Any]) -> None:
        self._statistics.restore(state)
        self._refresh()

    def _refresh(self) -> None:
        self._mean.assign(self._statistics.mean)
        self._std.assign(self._statistics.std)


class _DictNormalizer:
    """One for each part of a Dict that is numbers, neither pixels nor choices."""

    def __init__(self, space: spaces.Dict, comm: mpi.Communicator | None) -> None:
        self._own = {name: _Normalizer(encoded_shape(part), comm) for name, part in _numbers(space).items()}

    @property
    def variables(self) -> list[tf.Variable]:
        return [variable for own in self._own.values() for variable in own.variables]

    def apply(self, parts: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return parts | {name: own.apply(parts[name]) for name, own in self._own.items()}

    def update(self, observations: dict[str, np.ndarray]) -> None:
        for name, own in self._own.items():
            own.update(observations[name])

    def state(self) -> dict[str, Any]:
        return {name: own.state() for name, own in self._own.items()}

    def restore(self, state: dict[str, Any]) -> None:
        for name, own in self._own.items():
            own.restore(state[name])


def _numbers(space: spaces.Dict) -> dict[str, spaces.Box]:
    """The parts of a Dict that are numbers, neither pixels nor choices."""
    return {name: part for name, part in space.items() if isinstance(part, spaces.Box) and not is_image(part)}


def _make_normalizer(space: spaces.Space, comm: mpi.Communicator | None) -> _Normalizer | _DictNormalizer:
    if isinstance(space, spaces.Dict):
        return _DictNormalizer(space, comm)
    if not isinstance(space, spaces.Box):
        raise bad_argument("normalize_observations", True, f"needs Box observations, not {space}")
    return _Normalizer(encoded_shape(space), comm)


def observation_spec(space: spaces.Space, batch: int | None = None) -> Any:
    """The fixed signature of a batch of observations for compiled functions; of a Dict a dictionary of them."""
    if isinstance(space, spaces.Dict):
        return {name: observation_spec(part, batch) for name, part in space.spaces.items()}
    return tf.TensorSpec((batch, *(space.shape or ())), tf.as_dtype(observation_dtype(space)))


def _run(network: keras.Model, x: tf.Tensor, episode_start: Any, states: Any) -> tuple[tf.Tensor, tf.Tensor | None]:
    if getattr(network, "state_size", None):
        latent, new_states = network([x, episode_start, states])
        return latent, new_states
    return run_network(network, x), None


def run_network(network: keras.Model, x: tf.Tensor) -> tf.Tensor:
    """What a network without memory makes of a batch, as rows."""
    latent = network(x)
    return latent if len(latent.shape) == 2 else tf.reshape(latent, (-1, flat_width(network)))


def flat_width(network: keras.Model) -> int:
    """Numbers in one row of a network's output."""
    shape = network.output_shape
    shape = shape[0] if isinstance(shape, list) or isinstance(shape[0], tuple) else shape
    return int(np.prod(shape[1:]))


def _dense(width: int, gain: float, inputs: int, name: str) -> keras.layers.Dense:
    layer = keras.layers.Dense(width, kernel_initializer=keras.initializers.Orthogonal(gain), name=name)
    layer.build((None, inputs))
    return layer


def _nest(flat: dict[str, np.ndarray]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key, value in flat.items():
        number, name = key.split("/")
        tree[number] = {name: value}
    return tree
