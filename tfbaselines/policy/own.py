"""Whole actors and critics of a user's own: what Spinning Up's argument actor_critic gives, as Keras models.

    def actor_critic(observation_space, action_space, **ac_kwargs):
        return an object with `pi` and `v` (vpg, trpo, ppo), `pi` and `q` (ddpg), or `pi`, `q1` and `q2` (td3, sac)

- `pi` takes observations. For vpg, trpo and ppo it returns logits of choices, or the mean of Box actions: a variable of
  the policy is then the log standard deviation, as in Spinning Up. A `pi` that is twice as wide returns mean and log
  standard deviation. For sac it returns mean and log standard deviation before tanh, or logits. For ddpg and td3 it
  returns the action, within the bounds of its space.
- `v` takes observations and returns one value.
- `q` takes [observations, actions] and returns one value; for sac's discrete actions it takes observations and returns
  the value of each choice.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.envs.vec.observations import is_image
from tfbaselines.envs.vec.packed import opened
from tfbaselines.errors import UsageError, bad_argument
from tfbaselines.policy.actor_critic import ActorCritic
from tfbaselines.policy.base import BasePolicy
from tfbaselines.policy.bounded import DeterministicHead
from tfbaselines.policy.encoding import encoded_shape, without_mask
from tfbaselines.policy.layers import in_full
from tfbaselines.policy.policy import Policy


class OwnNetworks:
    """The network of a run whose user gives a whole actor and its critics.

    Args:
        actor_critic: function, or class, of observation space, action space and `arguments`; see above.
        arguments: further arguments by name, Spinning Up's ac_kwargs.
    """

    def __init__(self, actor_critic: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
        if not callable(actor_critic):
            accepted = "a function of observation space and action space that returns an object with pi and v, or q"
            raise bad_argument("actor_critic", actor_critic, accepted)
        self._actor_critic = actor_critic
        self._arguments = dict(arguments)
        self.__name__ = getattr(actor_critic, "__name__", type(actor_critic).__name__)

    def __call__(self, **_: Any) -> None:
        """Raise an error: these networks are more than the hidden layers that other algorithms take."""
        raise bad_argument("actor_critic", self.__name__, "vpg, trpo, ppo, ddpg, td3 and sac take it, no other")

    def make(self, observation_space: spaces.Space, action_space: spaces.Space, names: Sequence[str]) -> list[Any]:
        """Make the models of these names; UsageError for a part that is missing or takes other observations."""
        seen = without_mask(opened(observation_space))
        if isinstance(seen, spaces.Dict) or is_image(seen) or len(encoded_shape(seen)) != 1:
            raise bad_argument("actor_critic", self.__name__, f"it takes vectors or choices, not {seen!s:.100}")
        made = self._actor_critic(observation_space, action_space, **self._arguments)
        models = []
        for name in names:
            model = getattr(made, name, None)
            if not isinstance(model, keras.Model):
                there = "none" if model is None else type(model).__name__
                raise bad_argument("actor_critic", self.__name__, f"it returns a Keras model '{name}', not {there}")
            first = model.inputs[0].shape[1:]
            if tuple(first) != encoded_shape(seen):
                raise self.wrong(name, f"takes {tuple(first)}", f"observations {encoded_shape(seen)}")
            models.append(model)
        return models

    def wrong(self, name: str, found: str, wanted: str) -> UsageError:
        """Build the error for a model of another shape."""
        return bad_argument("actor_critic", self.__name__, f"its {name} {found}, this space needs {wanted}")

    def check_width(self, name: str, model: keras.Model, *widths: int) -> None:
        """Raise a UsageError unless a model returns rows of one of these widths."""
        if model.output_shape[1:] not in [(width,) for width in widths]:
            wanted = " or ".join(f"{(width,)}" for width in widths)
            raise self.wrong(name, f"returns {tuple(model.output_shape[1:])}", wanted)


class OwnPolicy(Policy):
    """A policy and a value function of a user's own; see Policy."""

    def __init__(
        self, observation_space: spaces.Space, action_space: spaces.Space, own: OwnNetworks, **base: Any
    ) -> None:
        pi, v = own.make(observation_space, action_space, ("pi", "v"))
        super().__init__(observation_space, action_space, lambda _: pi, lambda _: v, **base)
        own.check_width("pi", pi, self.head.width, self.head.param_size)
        own.check_width("v", v, 1)
        # The models' outputs are the parameters and the value.
        self.pi_layer = None
        self.vf_layer = keras.layers.Activation("linear", name="vf")
        if pi.output_shape[1] == self.head.param_size:
            self.logstd = None


class GivenActions(DeterministicHead):
    """The head of an actor that returns actions in the units of the environment."""

    def mode(self, flat: tf.Tensor) -> tf.Tensor:
        return tf.reshape(flat, (-1, *self.action_shape))

    def sample_numpy(self, flat: np.ndarray, noise: np.ndarray) -> np.ndarray:
        return self.mode_numpy(flat)

    def mode_numpy(self, flat: np.ndarray) -> np.ndarray:
        return flat.reshape(-1, *self.action_shape).astype(self.action_dtype)


class OwnCritic:
    """A critic of a user's own over rows of observations, or of observations and actions; see Critic."""

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self._sizes = [int(np.prod(one.shape[1:])) for one in model.inputs]
        self._shapes = [(-1, *one.shape[1:]) for one in model.inputs]
        self.modules = [model]

    @property
    def kernels(self) -> list[keras.Variable]:
        dense = [layer for layer in self._model.layers if isinstance(layer, keras.layers.Dense)]
        return [layer.kernel for layer in dense[:-1]]

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        return self._model.trainable_variables

    def __call__(self, rows: tf.Tensor) -> tf.Tensor:
        parts = [
            tf.reshape(part, shape) for part, shape in zip(tf.split(rows, self._sizes, 1), self._shapes, strict=True)
        ]
        return in_full(self._model(parts if len(parts) > 1 else parts[0]))


class OwnActorCritic(ActorCritic):
    """An actor and critics of a user's own; see ActorCritic."""

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        own: OwnNetworks,
        *,
        head: Callable[[spaces.Space], Any],
        critics: int,
        **base: Any,
    ) -> None:
        names = ["q"] if critics == 1 else [f"q{number}" for number in range(1, critics + 1)]
        pi, *models = own.make(observation_space, action_space, ["pi", *names[:critics]])
        head = GivenActions if head is DeterministicHead else head
        super().__init__(observation_space, action_space, None, head=head, critics=0, **base)
        own.check_width("pi", pi, self.head.param_size)
        for name, model in zip(names, models, strict=False):
            own.check_width(name, model, self.head.param_size if self.discrete else 1)
            self._check_inputs(own, name, model)
        self.network = pi
        self.pi_layer = keras.layers.Activation("linear", name="pi")
        self.critics = [OwnCritic(model) for model in models]

    def _check_inputs(self, own: OwnNetworks, name: str, model: keras.Model) -> None:
        found = [tuple(one.shape[1:]) for one in model.inputs][1:]
        wanted = [] if self.discrete else [(self.head.width,)]
        if found != wanted:
            raise own.wrong(
                name, f"takes {found or 'no actions'} as well", f"actions {wanted[0] if wanted else 'none'}"
            )


# Arguments that both kinds of classes take, and those that shape usual networks only and have no "off".
TAKEN = ("head", "critics", "returns", "unit_actions", "clip_observations", "normalize_observations", "comm")
SHAPING = ("value_network", "initializer", "init_logstd", "ortho_init", "vis_encode_type")


def make_own(kind: type[BasePolicy], network: OwnNetworks, env: Any, arguments: Mapping[str, Any]) -> Any:
    """Make an OwnPolicy or OwnActorCritic; UsageError for switches that change the algorithm's usual networks.

    Args:
        kind: the class.
        network: networks of the user.
        env: anything with observation_space and action_space.
        arguments: arguments for the policy, of the algorithm and of its Config; None and False are off.
    """
    given = {name: value for name, value in arguments.items() if value is not None and value is not False}
    wrong = sorted(given.keys() - {*TAKEN, *SHAPING})
    if wrong:
        raise bad_argument(wrong[0], given[wrong[0]], "leave it out: actor_critic makes the networks")
    taken = {name: value for name, value in given.items() if name in TAKEN}
    policy = kind(env.observation_space, env.action_space, network, **taken)
    logstd = getattr(policy, "logstd", None)
    if logstd is not None:
        logstd.assign(np.full(logstd.shape, arguments["init_logstd"], np.float32))
    return policy
