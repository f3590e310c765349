"""What policies of every kind share: spaces, action head, preprocessing of observations, saving and loading."""

import abc
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.envs.vec.packed import opened
from tfbaselines.parallel import mpi
from tfbaselines.policy.encoding import describe_space, encode, spaces_differ
from tfbaselines.policy.mirror import Mirror
from tfbaselines.policy.networks import has_convolutions, layers_of
from tfbaselines.policy.normalizer import make_normalizer, numeric_parts
from tfbaselines.policy.protocol import Head, Outputs

# Normalised observations are clipped to this many standard deviations.
CLIP_NORMALIZED = 5.0


class BasePolicy(abc.ABC):
    """A policy without its networks; see ActingPolicy in policy/protocol.py.

    A subclass defines `modules`, `trainable_variables` and `forward`, sets `state_size` if it is recurrent, and
    overrides `mirror` if numpy can repeat its networks.

    Args:
        observation_space: of one environment.
        action_space: of one environment.
        head: from the network's output to actions.
        normalize_observations: scale Box observations by a running mean and standard deviation kept by the policy.
        clip_observations: bound of every observed number, normalised or not; None clips normalised numbers alone, to
            CLIP_NORMALIZED.
        comm: communicator over which the running mean is merged.
    """

    # Numbers in one environment's recurrent state.
    state_size = 0
    # Shape of an observation's value; () but for policies with a value for each of several reward signals.
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
        self.observation_space, self.action_space, self.head = observation_space, action_space, head
        self.normalizer = make_normalizer(opened(observation_space), comm) if normalize_observations else None
        self.clip = CLIP_NORMALIZED if clip_observations is None and normalize_observations else clip_observations

    @property
    @abc.abstractmethod
    def modules(self) -> list[Any]:
        """Networks, layers and variables that an exported model holds."""

    @property
    @abc.abstractmethod
    def trainable_variables(self) -> list[keras.Variable]:
        """In a fixed order, in which they are saved."""

    @abc.abstractmethod
    def forward(self, obs: Any, episode_start: tf.Tensor | None = None, states: tf.Tensor | None = None) -> Outputs:
        """Distribution parameters, values and new states; see ActingPolicy."""

    def mirror(self) -> Mirror | None:
        """How numpy repeats the policy; None to act through the graph."""
        return None

    @property
    def recurrent(self) -> bool:
        """Whether acting needs a state."""
        return self.state_size > 0

    @property
    def convolutional(self) -> bool:
        """Whether a network convolves images."""
        return has_convolutions(*self.modules)

    @property
    def widest_dense(self) -> int:
        """Units of the widest dense layer; 0 without any."""
        return max((one.units for one in layers_of(*self.modules) if isinstance(one, keras.layers.Dense)), default=0)

    def initial_state(self, num_envs: int) -> np.ndarray | None:
        """Zeros [num_envs, state_size] for a recurrent policy, None for a feed-forward one."""
        return np.zeros((num_envs, self.state_size), np.float32) if self.recurrent else None

    def preprocess(self, obs: Any) -> Any:
        """Observations as the networks take them: encoded, normalised and clipped where the policy does so."""
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

    def _clipped(self, x: tf.Tensor) -> tf.Tensor:
        return tf.clip_by_value(tf.cast(x, tf.float32), -self.clip, self.clip)

    def state(self) -> dict[str, Any]:
        """Weights by number and name, and the normaliser's statistics."""
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
        """Load what `state` returned; ValueError when it belongs to other spaces or another network."""
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
            raise ValueError(
                "the saved model and this one differ in normalize_observations: give "
                f"normalize_observations={state['normalizer'] is not None}"
            )
        for variable, array in zip(self.trainable_variables, arrays, strict=True):
            variable.assign(array)
        if self.normalizer:
            self.normalizer.restore(state["normalizer"])


def memory_tensors(episode_start: Any, states: Any) -> tuple[tf.Tensor | None, tf.Tensor | None]:
    """Both as float32 tensors; None and None for a feed-forward policy, whose states are None."""
    if states is None:
        return None, None
    return tf.convert_to_tensor(episode_start, tf.float32), tf.convert_to_tensor(states, tf.float32)
