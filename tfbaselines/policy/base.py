"""Protocols of policies, action heads and actors, and the base class of policies with networks.

Rollouts, models, --play and export are written against the protocols and `BasePolicy`.
"""

import abc
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.envs.vec.observations import MASK as ACTION_MASK
from tfbaselines.envs.vec.observations import parts_of
from tfbaselines.envs.vec.packed import opened
from tfbaselines.errors import UsageError
from tfbaselines.parallel import mpi
from tfbaselines.policy.encoding import (
    FORBIDDEN,
    announce_size,
    describe_space,
    encode,
    make_normalizer,
    numeric_parts,
    spaces_differ,
    without_mask,
)
from tfbaselines.policy.layers import has_convolutions, layers_of


class Step(NamedTuple):
    """Results of acting: actions [N, ...], values [N], states [N, S] or None, negative log probabilities [N]."""

    actions: np.ndarray
    values: np.ndarray
    states: np.ndarray | None
    neglogps: np.ndarray


class Outputs(NamedTuple):
    """Outputs of a policy for a batch of observations.

    Attributes:
        flat: [B, P] parameters of the action distributions.
        value: [B] values, or [B, A] with one value for each action or reward signal.
        states: [num_envs, S] new recurrent states, or None.
        features: [B, F] latent below the value layer, or None if a policy does not expose it.
    """

    flat: tf.Tensor
    value: tf.Tensor
    states: tf.Tensor | None = None
    features: tf.Tensor | None = None


class ActionDistribution(Protocol):
    """A batch of distributions over actions, in the graph."""

    def sample(self, noise: tf.Tensor) -> tf.Tensor:
        """Compute actions [B, ...] from the head's noise [B, ...]."""

    def mode(self) -> tf.Tensor:
        """Compute the most likely actions [B, ...]."""

    def neglogp(self, actions: tf.Tensor) -> tf.Tensor:
        """Compute negative log probabilities [B]; zeros if actions have no density."""


@runtime_checkable
class Head(Protocol):
    """Action head: computes actions from a network's output, in the graph and in numpy.

    All randomness is the argument `noise`.

    Attributes:
        param_size: P, numbers in a row of parameters.
        mode_noise: the noise component that makes a sample the mode.
    """

    param_size: int
    action_shape: tuple[int, ...]
    action_dtype: np.dtype
    noise_shape: tuple[int, ...]
    mode_noise: float

    def draw_noise(self, rng: np.random.Generator, batch: tuple[int, ...]) -> np.ndarray:
        """Draw noise [*batch, *noise_shape] for sampling."""

    def distribution(self, flat: tf.Tensor) -> ActionDistribution:
        """Make the distributions with parameters [B, P]."""

    def sample_numpy(self, flat: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Compute actions [B, ...] from parameters [B, P] and noise."""

    def mode_numpy(self, flat: np.ndarray) -> np.ndarray:
        """Compute the most likely actions [B, ...]."""

    def neglogp_numpy(self, flat: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Compute negative log probabilities [B] of actions."""


@runtime_checkable
class Actor(Protocol):
    """Chooses actions for a policy, for replay collectors, evaluation and --play."""

    def choose(
        self, obs: Any, states: np.ndarray | None, episode_start: np.ndarray | None, noise: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Compute actions [N, ...] and new states [N, S] or None.

        Args:
            obs: observations [N, ...], or a dictionary of observations.
            states: [N, S], or None for a feed-forward policy.
            episode_start: [N] whether the observation is the first of an episode, or None for a feed-forward policy.
            noise: [N, ...] from the head's draw_noise, or None for the mode.
        """

    def value(self, obs: Any, states: np.ndarray | None = None, episode_start: np.ndarray | None = None) -> np.ndarray:
        """Compute values [N]."""

    def refresh(self) -> None:
        """Use the policy's present weights; called after every update."""


@runtime_checkable
class SamplingActor(Actor, Protocol):
    """An actor that also gives the probabilities of its actions, as policy gradients need."""

    def step(
        self, obs: Any, states: np.ndarray | None, episode_start: np.ndarray | None, noise: np.ndarray | None
    ) -> Step:
        """Compute actions, values, new states and negative log probabilities; arguments as for `choose`."""

    def behave(
        self, obs: Any, states: np.ndarray | None, episode_start: np.ndarray | None, noise: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Compute actions [N, ...], the parameters [N, P] of their distributions, and new states."""


@runtime_checkable
class BlockActor(SamplingActor, Protocol):
    """A feed-forward actor that computes values and probabilities once for a whole rollout."""

    def act(self, obs: np.ndarray, noise: np.ndarray | None) -> np.ndarray:
        """Compute only actions [N, ...]."""

    def evaluate(self, obs: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Compute values [B] and negative log probabilities [B] of observations [B, ...] and the actions taken."""


# Networks and layers in a row; each takes the rows that the one before it returns. A part that is neither has a method
# `in_numpy(copies)`, which makes its function of arrays.
Chain = Sequence[Any]


class Mirror(NamedTuple):
    """Description of a policy's computation for numpy.

    Modules at the start of both chains are computed once if both chains are needed.

    Attributes:
        actor: chain from encoded observations to the head's parameters. For a Q-network these are the values of all
            actions; for a dueling one the advantages suffice, which have the same order.
        value: chain from encoded observations to values; None to compute values through the graph.
        logstd: [1, n] appended to every row of the actor's output, or None.
        value_per_action: values are [B, A], one for each action or each reward signal, not [B].
        seen: observation space without the action mask, the input of both chains, which take the parts of a Dict side
            by side; None if observations have one part and no mask.
    """

    actor: Chain
    value: Chain | None = None
    logstd: keras.Variable | None = None
    value_per_action: bool = False
    seen: spaces.Space | None = None

    def split(self) -> tuple[Chain, Chain, Chain]:
        """Split the chains into their common start, the rest of the actor's and the rest of the values'."""
        value = self.value or []
        pairs = zip(self.actor, value, strict=False)
        count = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] is pair[1], pairs))
        return self.actor[:count], self.actor[count:], value[count:]


# Normalized observations are clipped to this many standard deviations.
CLIP_NORMALIZED = 5.0


class BasePolicy(abc.ABC):
    """A policy without its networks: it can act, be evaluated, saved, loaded and exported.

    A subclass defines `modules`, `trainable_variables` and `forward`, sets `state_size` if it is recurrent, and
    overrides `mirror` if numpy can compute its networks.

    Attributes:
        masked: observations have an action mask.
        normalizer: running statistics of observations, or None.
        clip: bound of every observed number after normalization, or None.

    Args:
        normalize_observations: scale Box observations by the policy's running mean and standard deviation.
        clip_observations: bound of every observed number, normalized or not; None clips only normalized numbers, to
            CLIP_NORMALIZED.
    """

    # Numbers in one environment's recurrent state.
    state_size = 0
    # Discrete observations and actions are one-hot.
    one_hot = True
    # Shape of an observation's value: (K,) with K reward signals, () otherwise.
    value_shape: tuple[int, ...] = ()

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        head: Head,
        *,
        normalize_observations: bool = False,
        clip_observations: float | None = None,
        comm: mpi.Communicator | None = None,
    ) -> None:
        self.observation_space = observation_space
        self.action_space = action_space
        self.head = head
        parts = opened(observation_space)
        self.masked = ACTION_MASK in parts_of(parts)
        # Observation space of the networks.
        self._seen = without_mask(parts)
        if self.one_hot:
            announce_size("observations", self._seen)
            announce_size("actions", action_space)
        self.normalizer = make_normalizer(parts, comm) if normalize_observations else None
        self.clip = CLIP_NORMALIZED if clip_observations is None and normalize_observations else clip_observations

    @property
    @abc.abstractmethod
    def modules(self) -> list[Any]:
        """Networks, layers and variables that an exported model holds."""

    @property
    @abc.abstractmethod
    def trainable_variables(self) -> list[keras.Variable]:
        """Variables in their saved order."""

    @property
    def parameter_groups(self) -> dict[str, list[Any]]:
        """Trainable variables of each part of the policy, by its name in papers: pi, v, q."""
        return {"pi": self.trainable_variables}

    @abc.abstractmethod
    def forward(self, obs: Any, episode_start: tf.Tensor | None = None, states: tf.Tensor | None = None) -> Outputs:
        """Compute distribution parameters, values and new states.

        Args:
            obs: [B, ...] observations in the space's dtype; recurrent: B = num_envs * steps, environment-major.
            episode_start: [B] 1 where the observation is an episode's first (recurrent only).
            states: [num_envs, S] before the first step (recurrent only).
        """

    def mirror(self) -> Mirror | None:
        """Describe the policy's computation for numpy; None to act through the graph."""
        return None

    def sequence_inputs(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return further arguments of `forward` for sequences of a batch."""
        return {}

    def after_action(self, states: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        """Return the states after the actions [N, ...] were chosen, from those that `forward` returned."""
        return states

    def after_other_action(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Return the states after actions [N, ...] that exploration put in place of the chosen ones."""
        return states

    @property
    def recurrent(self) -> bool:
        """True if acting needs a state."""
        return self.state_size > 0

    @property
    def convolutional(self) -> bool:
        """True if a network convolves images."""
        return has_convolutions(*self.modules)

    @property
    def widest_dense(self) -> int:
        """Units of the widest dense layer; 0 without any."""
        dense = (layer for layer in layers_of(*self.modules) if isinstance(layer, keras.layers.Dense))
        return max((layer.units for layer in dense), default=0)

    def initial_state(self, num_envs: int) -> np.ndarray | None:
        """Make states [num_envs, state_size] of zeros; None for a feed-forward policy."""
        return np.zeros((num_envs, self.state_size), np.float32) if self.recurrent else None

    def preprocess(self, obs: Any) -> Any:
        """Encode observations for the networks, and normalize and clip them if the policy does so."""
        encoded = encode(obs, self.observation_space)
        if self.normalizer:
            encoded = self.normalizer.apply(encoded)
        if self.clip is None:
            return encoded
        if isinstance(encoded, dict):
            return encoded | {
                name: self._clipped(encoded[name]) for name in numeric_parts(opened(self.observation_space))
            }
        return self._clipped(encoded)

    def _allowed(self, flat: tf.Tensor, encoded: Any) -> tf.Tensor:
        """Lower the logits [B, P] of actions that the action mask forbids."""
        return flat + FORBIDDEN * (1.0 - encoded[ACTION_MASK]) if self.masked else flat

    def _clipped(self, x: tf.Tensor) -> tf.Tensor:
        return tf.clip_by_value(tf.cast(x, tf.float32), -self.clip, self.clip)

    def state(self) -> dict[str, Any]:
        """Save weights by number and name, and the normalizer's statistics."""
        return {
            "observation_space": describe_space(self.observation_space),
            "action_space": describe_space(self.action_space),
            "weights": {
                f"{number:02d}": {variable.path.replace("/", "."): variable.numpy()}
                for number, variable in enumerate(self.trainable_variables)
            },
            "normalizer": self.normalizer.state() if self.normalizer else None,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Load a state that `state` returned; raise an error if it has other spaces or another network."""
        for kind, space in (("observation", self.observation_space), ("action", self.action_space)):
            difference = spaces_differ(state[f"{kind}_space"], describe_space(space))
            if difference:
                raise UsageError(f"the saved model is for another {kind} space: {difference}")
        weights = state["weights"]
        saved = [next(iter(weights[number].items())) for number in sorted(weights, key=int)]
        arrays = [array for _, array in saved]
        theirs = [f"{name.replace('.', '/')} {tuple(array.shape)}" for name, array in saved]
        ours = [f"{variable.path} {tuple(variable.shape)}" for variable in self.trainable_variables]
        pairs = zip(arrays, self.trainable_variables, strict=False)
        if len(theirs) != len(ours) or any(tuple(array.shape) != tuple(variable.shape) for array, variable in pairs):
            raise UsageError(_another_network(theirs, ours))
        if (state["normalizer"] is None) != (self.normalizer is None):
            raise UsageError(
                "the saved model and this one differ in normalize_observations: give "
                f"normalize_observations={state['normalizer'] is not None}"
            )
        for variable, array in zip(self.trainable_variables, arrays, strict=True):
            variable.assign(array)
        if self.normalizer:
            self.normalizer.restore(state["normalizer"])


def _another_network(theirs: list[str], ours: list[str]) -> str:
    """Write an error message that names the first weights that differ."""
    shapes = [[text[text.index("(") :] for text in texts] for texts in (theirs, ours)]
    first = next((k for k, (a, b) in enumerate(zip(*shapes, strict=False)) if a != b), min(len(theirs), len(ours)))
    there, here = (texts[first] if first < len(texts) else "nothing" for texts in (theirs, ours))
    return (
        f"the saved model has another network: its weights {first + 1} of {len(theirs)} are {there}, those of this "
        f"network {here}; give the network and its arguments as they were in training"
    )


def memory_tensors(episode_start: Any, states: Any) -> tuple[tf.Tensor | None, tf.Tensor | None]:
    """Convert both to float32 tensors; return None and None for a feed-forward policy, where states are None."""
    if states is None:
        return None, None
    return tf.convert_to_tensor(episode_start, tf.float32), tf.convert_to_tensor(states, tf.float32)
