"""Policies of off-policy control: an actor, and critics that estimate the returns of actions."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.errors import bad_argument
from tfbaselines.policy.base import BasePolicy, Head, Mirror, Outputs, memory_tensors
from tfbaselines.policy.distributions import make_pdtype
from tfbaselines.policy.encoding import encode, seen_in_numpy, without_mask
from tfbaselines.policy.layers import flat_width, in_full, run_network
from tfbaselines.policy.networks import NetworkFn, NetworkSpec, get_network_builder
from tfbaselines.policy.trunk import NetworkTrunk, Trunk, takes_observations, trunk_maker

# Units of a critic's layer over features and actions, if its network takes only the observation.
JOINT_UNITS = 256


class View(NamedTuple):
    """Preprocessed observations, the input of actor and critics.

    Attributes:
        encoded: [B, ...], or a dictionary.
        episode_start: [B] 1 where the observation is an episode's first; None without memory.
        states: [num_envs, S] before the first row; None without memory.
    """

    encoded: Any
    episode_start: tf.Tensor | None = None
    states: tf.Tensor | None = None


class Critic:
    """Dense layers over features, or over features and an action.

    Args:
        outputs: 1, or the number of choices of a discrete action.
        network_fn: builds the hidden layers; None for no hidden layers.
    """

    def __init__(self, inputs: int, outputs: int, network_fn: NetworkFn | None, initializer: Any) -> None:
        self._network = network_fn((inputs,)) if network_fn else None
        self.layer = keras.layers.Dense(outputs, kernel_initializer=initializer, name="q")
        self.layer.build((None, flat_width(self._network) if self._network else inputs))

    @property
    def modules(self) -> list[Any]:
        """Hidden layers, then the output layer."""
        return [*([self._network] if self._network else []), self.layer]

    @property
    def kernels(self) -> list[keras.Variable]:
        """Kernels of the hidden layers."""
        layers = self._network.layers if self._network else []
        return [layer.kernel for layer in layers if isinstance(layer, keras.layers.Dense)]

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """Variables of the hidden layers, then of the output layer."""
        return [variable for module in self.modules for variable in module.trainable_variables]

    def __call__(self, rows: tf.Tensor) -> tf.Tensor:
        return in_full(self.layer(rows if self._network is None else run_network(self._network, rows)))


class ActorCritic(BasePolicy):
    """An actor with one or more critics, for bounded Box or for discrete actions.

    A critic of continuous actions takes features and action; a critic of discrete actions has a value for each choice,
    and the values of simultaneous choices (MultiDiscrete) are added.

    Args:
        network_fn: builds the dense layers of the actor and of each critic from the width of a row; None for no layers.
        critics: number of critics; with several reward signals, number for each signal.
        streams: number of reward signals, each with its own critics; None for the environment's rewards alone.
        make_trunk: builds the trunk of the actor and the trunk that all critics share; None for a plain Trunk.
        critic_fn: the same as network_fn for the critics, if they differ.
        make_critic: makes a critic; takes the arguments of Critic.
        quantiles: number of quantiles of the return that critics of continuous actions estimate, a value being their
            mean; None to estimate the mean alone.
        unit_actions: critics take actions scaled to -1..1.
        returns: statistics of returns that normalize the critics' outputs, as in algs/ddpg/loss.py; None for none.
        base: normalize_observations, clip_observations and comm of BasePolicy.
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        network_fn: NetworkFn | None,
        *,
        head: Callable[[spaces.Space], Head],
        critics: int,
        streams: int | None = None,
        make_trunk: Callable[[spaces.Space], Trunk | NetworkTrunk] | None = None,
        initializer: Callable[[], Any] = keras.initializers.GlorotUniform,
        critic_fn: NetworkFn | None = None,
        make_critic: Callable[..., Critic] = Critic,
        quantiles: int | None = None,
        unit_actions: bool = False,
        returns: Any = None,
        **base: Any,
    ) -> None:
        super().__init__(observation_space, action_space, head(action_space), **base)
        self._unit_actions = unit_actions
        self.streams = streams
        self.returns = returns
        self.discrete = not isinstance(action_space, spaces.Box)
        make_trunk = make_trunk or (lambda space: Trunk(space, None))
        self.trunk = make_trunk(self.network_space())
        self.critic_trunk = make_trunk(self.network_space())
        self.state_size = self.trunk.state_size + self.critic_trunk.state_size
        self.network = network_fn((self.trunk.width,)) if network_fn else None
        width = flat_width(self.network) if self.network else self.trunk.width
        self.pi_layer = keras.layers.Dense(self.head.param_size, kernel_initializer=initializer(), name="pi")
        self.pi_layer.build((None, width))
        inputs, outputs = self.critic_trunk.width, self.head.param_size
        critic_fn = critic_fn or network_fn
        if not self.discrete:
            inputs, outputs = inputs + self.head.width, quantiles or 1
            critic_fn = critic_fn or _joint
        self.critics = [make_critic(inputs, outputs, critic_fn, initializer()) for _ in range(critics * (streams or 1))]

    @property
    def modules(self) -> list[Any]:
        actor = [*self.trunk.modules, *([self.network] if self.network else []), self.pi_layer]
        critics = [*self.critic_trunk.modules, *(module for critic in self.critics for module in critic.modules)]
        return [*actor, *critics, *([] if self.returns is None else self.returns.variables)]

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        return [*self.acting_variables, *self.critic_variables]

    @property
    def acting_variables(self) -> list[keras.Variable]:
        """Trainable variables of the actor."""
        network = self.network.trainable_variables if self.network else []
        return [*self.trunk.trainable_variables, *network, *self.pi_layer.trainable_variables]

    @property
    def perturbed_variables(self) -> list[keras.Variable]:
        """Variables that parameter noise changes: the actor's without layer normalization."""
        return [variable for variable in self.acting_variables if "normalization" not in variable.path]

    @property
    def critic_variables(self) -> list[keras.Variable]:
        """Variables of the critics' trunk, then of each critic."""
        critics = [variable for critic in self.critics for variable in critic.trainable_variables]
        return [*self.critic_trunk.trainable_variables, *critics]

    @property
    def parameter_groups(self) -> dict[str, list[keras.Variable]]:
        names = ["q"] if len(self.critics) == 1 else [f"q{number}" for number in range(1, len(self.critics) + 1)]
        critics = {name: critic.trainable_variables for name, critic in zip(names, self.critics, strict=True)}
        shared = self.critic_trunk.trainable_variables
        return {"pi": self.acting_variables} | ({"q trunk": shared} if shared else {}) | critics

    def mirror(self) -> Mirror | None:
        # Acting rarely needs values, which are computed through the graph.
        repeatable, seen = seen_in_numpy(self, rows=True)
        if not self.trunk.chained or not repeatable:
            return None
        return Mirror([*self.trunk.modules, *([self.network] if self.network else []), self.pi_layer], seen=seen)

    def network_space(self) -> spaces.Space:
        """Return the space of the trunks' inputs: observations without the action mask."""
        return self._seen

    def view(
        self, obs: Any, episode_start: tf.Tensor | None = None, states: tf.Tensor | None = None, **sequence: Any
    ) -> View:
        """Preprocess observations for actor and critics; arguments as for `forward`."""
        return View(self.preprocess(obs), *memory_tensors(episode_start, states))

    def view_of(self, batch: Mapping[str, Any]) -> View:
        """Preprocess a batch: its obs and, for sequences, episode_start and states."""
        states = batch.get("states")
        sequence = {} if states is None else self.sequence_inputs(batch)
        return self.view(batch["obs"], batch.get("episode_start"), states, **sequence)

    def act(self, view: View) -> tf.Tensor:
        """Compute the head's parameters [B, P]."""
        return self._act(view)[0]

    def q(self, view: View, actions: tf.Tensor) -> list[tf.Tensor]:
        """Compute each critic's values [B] of actions [B, ...]."""
        if self.discrete:
            chosen = self.choices(actions)
            return [tf.reduce_sum(values * chosen, axis=-1) for values in self.q_all(view)]
        return [_mean(quantiles) for quantiles in self.quantiles(view, actions)]

    def quantiles(self, view: View, actions: tf.Tensor) -> list[tf.Tensor]:
        """Compute each critic's quantiles [B, M] of the returns of continuous actions; M is 1 without quantiles."""
        rows = self.critic_rows(view, actions)
        return [critic(rows) for critic in self.critics]

    def critic_rows(self, view: View, actions: tf.Tensor) -> tf.Tensor:
        """Compute the critics' input [B, n] for continuous actions."""
        return self._with_actions(self._critic_features(view)[0], actions)

    def q_of_several(self, view: View, actions: tf.Tensor) -> list[tf.Tensor]:
        """Compute each critic's values [B, N] of N continuous actions [B, N, ...] for every row."""
        features, _ = self._critic_features(view)
        count = actions.shape[1]
        flat = tf.reshape(actions, (-1, *actions.shape[2:]))
        rows = self._with_actions(tf.repeat(features, count, axis=0), flat)
        return [tf.reshape(_mean(critic(rows)), (-1, count)) for critic in self.critics]

    def q_all(self, view: View) -> list[tf.Tensor]:
        """Compute each critic's values [B, P] of all choices of a discrete action."""
        features, _ = self._critic_features(view)
        return [critic(features) for critic in self.critics]

    def least(self, values: list[tf.Tensor]) -> tf.Tensor:
        """Compute the minimum [...] of the critics' values [...]; with K reward signals one for each, [..., K]."""
        if self.streams is None:
            return tf.reduce_min(tf.stack(values), axis=0)
        count = len(values) // self.streams
        by_signal = [tf.stack(values[k : k + count]) for k in range(0, len(values), count)]
        return tf.stack([tf.reduce_min(critics, axis=0) for critics in by_signal], axis=-1)

    def choices(self, actions: tf.Tensor) -> tf.Tensor:
        """Encode discrete actions [B, ...] as rows of one-hots [B, P], one for each part of an action."""
        return encode(actions, self.action_space)

    def log_probabilities(self, flat: tf.Tensor) -> tf.Tensor:
        """Compute log probabilities [B, P] of all choices of a discrete action."""
        space = self.action_space
        widths = [int(space.n)] if isinstance(space, spaces.Discrete) else space.nvec.ravel().tolist()
        return tf.concat([tf.nn.log_softmax(part) for part in tf.split(flat, widths, axis=-1)], axis=-1)

    def forward(
        self, obs: Any, episode_start: tf.Tensor | None = None, states: tf.Tensor | None = None, **sequence: Any
    ) -> Outputs:
        """Compute parameters, values and new states; the value is the critics' minimum for the most likely action.

        Args:
            obs: [B, ...]; see BasePolicy, also for episode_start and states.
            sequence: the result of `sequence_inputs` for sequences.
        """
        view = self.view(obs, episode_start, states, **sequence)
        flat, actor_states = self._act(view)
        features, critic_states = self._critic_features(view)
        mode = self.head.distribution(flat).mode()
        if self.discrete:
            chosen = self.choices(mode)
            values = [tf.reduce_sum(critic(features) * chosen, axis=-1) for critic in self.critics]
        else:
            rows = self._with_actions(features, mode)
            values = [_mean(critic(rows)) for critic in self.critics]
        new_states = tf.concat([actor_states, critic_states], axis=-1) if self.recurrent else None
        # A policy without critics only acts.
        value = self.least(values) if values else tf.zeros(tf.shape(flat)[0])
        return Outputs(flat, self.returns_of(value), new_states)

    def state(self) -> dict[str, Any]:
        return super().state() | {"returns": None if self.returns is None else self.returns.state()}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        if self.returns is not None and state["returns"] is not None:
            self.returns.restore(state["returns"])

    def returns_of(self, values: tf.Tensor) -> tf.Tensor:
        """Convert critics' values to returns: statistics of returns, if any, normalize the values."""
        return values if self.returns is None else self.returns.denormalized(values)

    def _act(self, view: View) -> tuple[tf.Tensor, tf.Tensor | None]:
        states = None if view.states is None else view.states[:, : self.trunk.state_size]
        features, states = self.trunk(view.encoded, view.episode_start, states)
        flat = in_full(self.pi_layer(features if self.network is None else run_network(self.network, features)))
        return self._allowed(flat, view.encoded), states

    def _critic_features(self, view: View) -> tuple[tf.Tensor, tf.Tensor | None]:
        first, count = self.trunk.state_size, self.critic_trunk.state_size
        states = None if view.states is None else view.states[:, first : first + count]
        return self.critic_trunk(view.encoded, view.episode_start, states)

    def _with_actions(self, features: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        flat = self.head.unit(actions) if self._unit_actions else tf.reshape(actions, (-1, self.head.width))
        return tf.concat([features, flat], axis=-1)


def build_actor_critic(
    env: Any,
    network: NetworkSpec,
    *,
    head: Callable[[spaces.Space], Any] = make_pdtype,
    critics: int,
    streams: int | None = None,
    memory_size: int | None = None,
    policy_class: type[ActorCritic] = ActorCritic,
    vis_encode_type: str = "simple",
    normalize_observations: bool = False,
    critic_layer_norm: bool = False,
    comm: Any = None,
    kind: Mapping[str, Any] | None = None,
    **network_kwargs: Any,
) -> ActorCritic:
    """Build an actor with critics from names; ActorCritic explains head, critics and streams.

    A network with convolutions or memory takes the observation itself; any other takes a Trunk's features.

    Args:
        memory_size: numbers in the actor's state and in the critics' state, two per unit of an LSTM; None for no LSTM.
        policy_class: ActorCritic, or a subclass with the same arguments.
        vis_encode_type: encoder of images: simple, nature_cnn or resnet.
        critic_layer_norm: build the critics' layers with layer normalization.
    """
    if memory_size is not None and (memory_size < 2 or memory_size % 2):
        raise bad_argument("memory_size", memory_size, "an even number: two for every unit of the LSTM")
    network_fn = get_network_builder(network)(**network_kwargs)
    memory = (memory_size or 0) // 2
    whole = takes_observations(network_fn, without_mask(env.observation_space))
    if whole and memory:
        raise bad_argument("memory_size", memory_size, f"needs a dense network, not {network!r}")
    critic_fn = _with_layer_norm(network, whole, network_kwargs) if critic_layer_norm else None
    return policy_class(
        env.observation_space,
        env.action_space,
        None if whole else network_fn,
        head=head,
        critics=critics,
        streams=streams,
        critic_fn=critic_fn,
        make_trunk=trunk_maker(network_fn, whole, vis_encode_type, memory),
        normalize_observations=normalize_observations,
        comm=comm,
        **(kind or {}),
    )


def _with_layer_norm(network: NetworkSpec, whole: bool, network_kwargs: Mapping[str, Any]) -> NetworkFn:
    builder = get_network_builder(network)
    if whole or "layer_norm" not in inspect.signature(builder).parameters:
        raise bad_argument("critic_layer_norm", True, f"needs a dense network with layer_norm, not {network!r:.100}")
    return builder(**network_kwargs | {"layer_norm": True})


def _mean(quantiles: tf.Tensor) -> tf.Tensor:
    return quantiles[:, 0] if quantiles.shape[1] == 1 else tf.reduce_mean(quantiles, axis=1)


def _joint(shape: tuple[int, ...]) -> keras.Model:
    inputs = keras.Input(shape)
    return keras.Model(inputs, keras.layers.Dense(JOINT_UNITS, "relu", name="joint")(inputs))
