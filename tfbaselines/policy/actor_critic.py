"""Policies of off-policy control: an actor, and critics that judge actions by their expected return."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.envs.vec.action_mask import MASK as ACTION_MASK
from tfbaselines.envs.vec.observations import ONLY, parts_of
from tfbaselines.errors import bad_argument, unknown
from tfbaselines.policy.distributions import make_pdtype
from tfbaselines.policy.encoding import encoded_shape
from tfbaselines.policy.networks import get_network_builder, has_convolutions
from tfbaselines.policy.policy import NetworkSpec, Outputs, Policy, flat_width, run_network
from tfbaselines.policy.precision import in_full
from tfbaselines.policy.trunk import NetworkFn, NetworkTrunk, Trunk

# Units of the layer in which features and actions meet where nothing else is above the features.
JOINT_UNITS = 256

# Images' encoders by the name that ML-Agents gives them, and the network that each is.
ENCODERS = {"simple": "cnn_simple", "nature_cnn": "cnn", "resnet": "impala_cnn"}

# Added to the logits of actions that are not allowed.
FORBIDDEN = -1e9


class View(NamedTuple):
    """Observations as actor and critics take them.

    Attributes:
        encoded: [B, ...], or a dictionary.
        episode_start: [B] 1 where an episode begins; None without memory.
        states: [num_envs, S] memory before the first row; None without memory.
    """

    encoded: Any
    episode_start: tf.Tensor | None = None
    states: tf.Tensor | None = None


class Critic:
    """Dense layers over features, or over features and an action.

    Args:
        inputs: numbers in a row.
        outputs: values that are told: 1, or one for each choice of a discrete action.
        network_fn: makes the hidden layers; None for none.
        initializer: of the output layer.
    """

    def __init__(self, inputs: int, outputs: int, network_fn: NetworkFn | None, initializer: Any) -> None:
        self._network = network_fn((inputs,)) if network_fn else None
        self.layer = keras.layers.Dense(outputs, kernel_initializer=initializer, name="q")
        self.layer.build((None, flat_width(self._network) if self._network else inputs))

    @property
    def modules(self) -> list[Any]:
        """The hidden layers and the output layer."""
        return [*([self._network] if self._network else []), self.layer]

    @property
    def kernels(self) -> list[keras.Variable]:
        """Of the hidden layers."""
        layers = self._network.layers if self._network else []
        return [layer.kernel for layer in layers if isinstance(layer, keras.layers.Dense)]

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """Hidden layers first."""
        return [variable for module in self.modules for variable in module.trainable_variables]

    def __call__(self, rows: tf.Tensor) -> tf.Tensor:
        """Values [B, outputs]."""
        return in_full(self.layer(rows if self._network is None else run_network(self._network, rows)))


class ActorCritic(Policy):
    """An actor with one or more critics, for bounded Box or for discrete actions.

    A critic of continuous actions takes the action beside the observation; one of discrete actions tells a value for
    each choice, and of several choices at once (MultiDiscrete) what it says is added up.

    Args:
        observation_space: what the environment shows.
        action_space: a bounded Box, Discrete or MultiDiscrete.
        network_fn: makes the dense layers of the actor and of each critic from the width of a row; None for none.
        head: makes the actor's head from the action space.
        critics: how many.
        make_trunk: makes what lies below, for the actor and for all critics together; None for a Trunk.
        initializer: makes the initialiser of an output layer.
        normalize_observations: see Policy.
        clip_observations: bound of every number that is observed, normalised or not; None for Policy's own.
        unit_actions: critics see actions in units of their bounds.
        comm: see Policy.
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        network_fn: NetworkFn | None,
        *,
        head: Callable[[spaces.Space], Any],
        critics: int,
        make_trunk: Callable[[spaces.Space], Any] | None = None,
        initializer: Callable[[], Any] = keras.initializers.GlorotUniform,
        normalize_observations: bool = False,
        clip_observations: float | None = None,
        unit_actions: bool = False,
        comm: Any = None,
    ) -> None:
        self._prepare(
            observation_space, action_space, head(action_space), normalize_observations, comm, clip_observations
        )
        self._unit_actions = unit_actions
        # Statistics in whose units critics speak (optim/popart.py); an algorithm sets them.
        self.returns: Any = None
        self.discrete = not isinstance(action_space, spaces.Box)
        self.masked = ACTION_MASK in parts_of(observation_space)
        make_trunk = make_trunk or (lambda space: Trunk(space, None))
        shown = _without_mask(observation_space)
        self.trunk, self.critic_trunk = make_trunk(shown), make_trunk(shown)
        self.state_size = self.trunk.state_size + self.critic_trunk.state_size
        self.network = network_fn((self.trunk.width,)) if network_fn else None
        self.value_network = self.vf_layer = self.logstd = None
        width = flat_width(self.network) if self.network else self.trunk.width
        self.pi_layer = keras.layers.Dense(self.head.param_size, kernel_initializer=initializer(), name="pi")
        self.pi_layer.build((None, width))
        judged, told = self.critic_trunk.width, self.head.param_size
        if not self.discrete:
            judged, told = judged + self.head.width, 1
            network_fn = network_fn or _joint
        self.critics = [Critic(judged, told, network_fn, initializer()) for _ in range(critics)]

    @property
    def plain(self) -> bool:
        """Whether the actor is its dense layers over an observation's numbers, and nothing else."""
        return self.trunk.plain and self.network is not None and not self.masked

    @property
    def convolutional(self) -> bool:
        """See Policy."""
        return self.trunk.convolutional

    @property
    def modules(self) -> list[Any]:
        """See Policy."""
        actor = [*self.trunk.modules, *([self.network] if self.network else []), self.pi_layer]
        critics = [*self.critic_trunk.modules, *(module for critic in self.critics for module in critic.modules)]
        return [*actor, *critics, *([] if self.returns is None else self.returns.variables)]

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """The actor's, then the critics'."""
        return [*self.acting_variables, *self.critic_variables]

    @property
    def acting_variables(self) -> list[keras.Variable]:
        """The actor's."""
        network = self.network.trainable_variables if self.network else []
        return [*self.trunk.trainable_variables, *network, *self.pi_layer.trainable_variables]

    @property
    def critic_variables(self) -> list[keras.Variable]:
        """What lies below the critics, and then each of them."""
        own = [variable for critic in self.critics for variable in critic.trainable_variables]
        return [*self.critic_trunk.trainable_variables, *own]

    def view(self, obs: Any, episode_start: tf.Tensor | None = None, states: tf.Tensor | None = None) -> View:
        """What actor and critics take, from arguments as Policy.forward takes them."""
        if states is not None:
            episode_start, states = (
                tf.convert_to_tensor(episode_start, tf.float32),
                tf.convert_to_tensor(states, tf.float32),
            )
        return View(self.preprocess(obs), episode_start, states)

    def act(self, view: View) -> tf.Tensor:
        """Parameters [B, P] of the head's actions."""
        return self._act(view)[0]

    def q(self, view: View, actions: tf.Tensor) -> list[tf.Tensor]:
        """What each critic says [B] of actions [B, ...]."""
        if self.discrete:
            chosen = self.choices(actions)
            return [tf.reduce_sum(values * chosen, axis=-1) for values in self.q_all(view)]
        rows = self._judged(self._critic_features(view)[0], actions)
        return [critic(rows)[:, 0] for critic in self.critics]

    def q_all(self, view: View) -> list[tf.Tensor]:
        """What each critic says [B, P] of every choice of a discrete action."""
        features, _ = self._critic_features(view)
        return [critic(features) for critic in self.critics]

    def choices(self, actions: tf.Tensor) -> tf.Tensor:
        """Discrete actions [B, ...] as rows of one-hots [B, P]."""
        space = self.action_space
        if isinstance(space, spaces.Discrete):
            return tf.one_hot(tf.cast(actions, tf.int32) - int(space.start), int(space.n))
        starts = np.ravel(space.start)
        columns = tf.unstack(tf.reshape(tf.cast(actions, tf.int32), (-1, len(starts))), axis=-1)
        widths = space.nvec.ravel()
        return tf.concat(
            [tf.one_hot(column - int(s), int(n)) for column, s, n in zip(columns, starts, widths, strict=True)], axis=-1
        )

    def log_probabilities(self, flat: tf.Tensor) -> tf.Tensor:
        """Logarithms [B, P] of the probability of each choice of a discrete action."""
        space = self.action_space
        widths = [int(space.n)] if isinstance(space, spaces.Discrete) else space.nvec.ravel().tolist()
        return tf.concat([tf.nn.log_softmax(part) for part in tf.split(flat, widths, axis=-1)], axis=-1)

    def forward(self, obs: Any, episode_start: tf.Tensor | None = None, states: tf.Tensor | None = None) -> Outputs:
        """See Policy; the value is the smallest of the critics' for the most likely action."""
        view = self.view(obs, episode_start, states)
        flat, acting = self._act(view)
        features, judging = self._critic_features(view)
        mode = self.head.distribution(flat).mode()
        if self.discrete:
            chosen = self.choices(mode)
            values = [tf.reduce_sum(critic(features) * chosen, axis=-1) for critic in self.critics]
        else:
            rows = self._judged(features, mode)
            values = [critic(rows)[:, 0] for critic in self.critics]
        new_states = tf.concat([acting, judging], axis=-1) if self.recurrent else None
        # Without critics there is nothing to tell.
        value = tf.reduce_min(tf.stack(values), axis=0) if values else tf.zeros(tf.shape(flat)[0])
        return Outputs(flat, self.returns_of(value), new_states, flat)

    def state(self) -> dict[str, Any]:
        """See Policy; also the statistics of returns."""
        return super().state() | {"returns": None if self.returns is None else self.returns.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """See Policy."""
        super().restore(state)
        if self.returns is not None and state["returns"] is not None:
            self.returns.restore(state["returns"])

    def returns_of(self, values: tf.Tensor) -> tf.Tensor:
        """What critics say as returns: it may be in units of their statistics."""
        return values if self.returns is None else self.returns.denormalized(values)

    def _act(self, view: View) -> tuple[tf.Tensor, tf.Tensor | None]:
        states = None if view.states is None else view.states[:, : self.trunk.state_size]
        features, states = self.trunk(view.encoded, view.episode_start, states)
        flat = in_full(self.pi_layer(features if self.network is None else run_network(self.network, features)))
        if self.masked:
            flat += FORBIDDEN * (1.0 - view.encoded[ACTION_MASK])
        return flat, states

    def _critic_features(self, view: View) -> tuple[tf.Tensor, tf.Tensor | None]:
        states = None if view.states is None else view.states[:, self.trunk.state_size :]
        return self.critic_trunk(view.encoded, view.episode_start, states)

    def _judged(self, features: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        flat = self.head.unit(actions) if self._unit_actions else tf.reshape(actions, (-1, self.head.width))
        return tf.concat([features, flat], axis=-1)


def build_actor_critic(
    env: Any,
    network: NetworkSpec,
    *,
    head: Callable[[spaces.Space], Any] = make_pdtype,
    critics: int,
    memory_size: int | None = None,
    vis_encode_type: str = "simple",
    normalize_observations: bool = False,
    comm: Any = None,
    kind: dict[str, Any] | None = None,
    **network_kwargs: Any,
) -> ActorCritic:
    """Build an actor with critics from names.

    A network with convolutions or memory takes the observation itself; any other one stands above images' encoders.

    Args:
        env: anything with observation_space and action_space.
        network: a registered network's name, or a builder.
        head: see ActorCritic.
        critics: see ActorCritic.
        memory_size: numbers that actor and critics remember each, two for every unit of an LSTM; None for none.
        vis_encode_type: how images are encoded: simple, nature_cnn or resnet.
        normalize_observations: see Policy.
        comm: see Policy.
        kind: further arguments of ActorCritic.
        network_kwargs: the network builder's own arguments.
    """
    if vis_encode_type not in ENCODERS:
        raise unknown("vis_encode_type", vis_encode_type, ENCODERS)
    if memory_size is not None and (memory_size < 2 or memory_size % 2):
        raise bad_argument("memory_size", memory_size, "an even number: two for every unit of the LSTM")
    network_fn = get_network_builder(network)(**network_kwargs)
    space = _without_mask(env.observation_space)
    memory = (memory_size or 0) // 2

    def make_trunk(shown: spaces.Space) -> Trunk | NetworkTrunk:
        if _takes_observations(network_fn, shown):
            return NetworkTrunk(network_fn(encoded_shape(shown)))
        return Trunk(shown, get_network_builder(ENCODERS[vis_encode_type])(), memory)

    whole = _takes_observations(network_fn, space)
    if whole and memory:
        raise bad_argument("memory_size", memory_size, f"needs a dense network, not {network!r}")
    return ActorCritic(
        env.observation_space,
        env.action_space,
        None if whole else network_fn,
        head=head,
        critics=critics,
        make_trunk=make_trunk,
        normalize_observations=normalize_observations,
        comm=comm,
        **(kind or {}),
    )


def actor_critic_arguments(network: NetworkSpec, arguments: dict[str, Any]) -> dict[str, Any]:
    """Those of learn's arguments that build_actor_critic takes."""
    own = {"memory_size", "vis_encode_type", "normalize_observations", "comm"}
    names = {*own, *inspect.signature(get_network_builder(network)).parameters}
    return {name: value for name, value in arguments.items() if name in names}


def _takes_observations(network_fn: NetworkFn, space: spaces.Space) -> bool:
    """Whether a network has convolutions or memory, and so cannot stand above other layers."""
    try:
        network = network_fn((1,) if isinstance(space, spaces.Dict) else encoded_shape(space))
        whole = has_convolutions(network) or bool(getattr(network, "state_size", None))
    except ValueError:
        if not isinstance(space, spaces.Dict):
            raise
        whole = True
    if whole and isinstance(space, spaces.Dict):
        raise ValueError("Dict observations need a dense network: vis_encode_type and memory_size say what is below it")
    return whole


def _without_mask(space: spaces.Space) -> spaces.Space:
    """What networks see: all parts but the mask of actions."""
    parts = parts_of(space)
    if ACTION_MASK not in parts:
        return space
    rest = {name: part for name, part in parts.items() if name != ACTION_MASK}
    return rest[ONLY] if list(rest) == [ONLY] else spaces.Dict(rest)


def _joint(shape: tuple[int, ...]) -> keras.Model:
    """The layer in which features and actions meet where the network has none."""
    inputs = keras.Input(shape)
    return keras.Model(inputs, keras.layers.Dense(JOINT_UNITS, "relu", name="joint")(inputs))
