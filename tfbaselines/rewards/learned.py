"""What reward signals with networks of their own share; see RewardSignal in rewards/signals.py.

Networks of reward signals: observations scaled by running statistics of their own, and encoders of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.compiling import compiled
from tfbaselines.config.signals import LearntSignal as Arguments
from tfbaselines.envs.vec.packed import opened, unpacked
from tfbaselines.errors import UsageError
from tfbaselines.learn.optimizers import Adam, restore_slots, slots
from tfbaselines.learn.update import Batch, Statistics, Update
from tfbaselines.parallel import mpi
from tfbaselines.policy.base import CLIP_NORMALIZED
from tfbaselines.policy.encoding import encode, encoded_shape, is_image, without_mask
from tfbaselines.policy.networks import get_network_builder
from tfbaselines.policy.normalizer import DictNormalizer, Normalizer, numeric_parts
from tfbaselines.policy.trunk import ENCODERS, Trunk
from tfbaselines.rollout.rollout import GO_ON

IMAGE_ENCODER = "simple"

# A layer's units and its activation.
Units = tuple[int, str | None]


class Observations:
    """Observations as encoders take them: numbers scaled by a running mean and deviation, and clipped.

    Images, which encoders scale, and one-hots pass unchanged.

    Args:
        space: of one environment.
        comm: the ranks over which the statistics are merged.
    """

    def __init__(self, space: spaces.Space, comm: mpi.Communicator | None) -> None:
        self._space, whole = space, opened(space)
        self.parts = without_mask(whole)
        self._normalizer: Normalizer | DictNormalizer | None = None
        if isinstance(whole, spaces.Dict):
            self._normalizer = DictNormalizer(whole, comm)
        elif isinstance(whole, spaces.Box) and not is_image(whole):
            self._normalizer = Normalizer(encoded_shape(whole), comm)

    def __call__(self, obs: tf.Tensor) -> Any:
        """Encoded observations [B, ...], or a dictionary of them."""
        encoded = encode(obs, self._space)
        if self._normalizer is None:
            return encoded
        encoded = self._normalizer.apply(encoded)
        if isinstance(encoded, dict):
            return encoded | {name: _clipped(encoded[name]) for name in numeric_parts(opened(self._space))}
        return _clipped(encoded)

    def take_in(self, obs: Any) -> None:
        """Merge a batch [B, ...], or a dictionary of them, into the statistics; every rank must call it."""
        if self._normalizer is not None:
            self._normalizer.update(unpacked(obs, self._space))

    def state(self) -> dict[str, Any] | None:
        """The statistics."""
        return None if self._normalizer is None else self._normalizer.state()

    def restore(self, state: dict[str, Any] | None) -> None:
        """Take over what `state` gave."""
        if self._normalizer is not None:
            self._normalizer.restore(state)


class Dense:
    """Dense layers over rows.

    Args:
        inputs: numbers in a row.
        units: of each layer.
    """

    def __init__(self, inputs: int, units: Sequence[Units]) -> None:
        self._layers = []
        for width, activation in units:
            initializer = keras.initializers.Orthogonal(np.sqrt(2.0) if activation else 1.0)
            layer = keras.layers.Dense(width, activation=activation, kernel_initializer=initializer)
            layer.build((None, inputs))
            self._layers.append(layer)
            inputs = width

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """Of all layers, in their order."""
        return [variable for layer in self._layers for variable in layer.trainable_variables]

    def __call__(self, rows: tf.Tensor) -> tf.Tensor:
        """Rows [B, units of the last layer]."""
        for layer in self._layers:
            rows = layer(rows)
        return rows


class Encoder:
    """Dense layers over observations; images pass through convolutions first.

    Args:
        observations: gives the observations' parts.
        units: of each layer.
    """

    def __init__(self, observations: Observations, units: Sequence[Units]) -> None:
        self._trunk = Trunk(observations.parts, get_network_builder(ENCODERS[IMAGE_ENCODER])())
        self._dense = Dense(self._trunk.width, units)

    @property
    def convolutional(self) -> bool:
        """Whether it convolves images."""
        return bool(self._trunk.modules)

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """The convolutions', then the layers'."""
        return [*self._trunk.trainable_variables, *self._dense.trainable_variables]

    def __call__(self, encoded: Any) -> tf.Tensor:
        """Encodings [B, units of the last layer] of what Observations gave."""
        return self._dense(self._trunk(encoded, None, None)[0])


def _clipped(x: tf.Tensor) -> tf.Tensor:
    return tf.clip_by_value(x, -CLIP_NORMALIZED, CLIP_NORMALIZED)


class LearntSignal(ABC):
    """A reward signal that is a part of the model (see PolicyModel.parts), without its networks.

    A subclass makes its networks in `build`, and defines `learnt`, `reward` and `loss`.

    Attributes:
        name: see RewardSignal.
        statistics: see RewardSignal.
        strength: see RewardSignal.
        gamma: see RewardSignal.
        ends: see RewardSignal.

    Args:
        env: has observation_space and action_space.
        arguments: the signal's.
        comm: the ranks that train together.
    """

    name: str
    statistics: tuple[str, ...]
    # What is new is new in whichever episode it comes.
    ends = GO_ON

    def __init__(self, env: Any, arguments: Arguments, comm: mpi.Communicator | None = None) -> None:
        self.strength, self.gamma, self._lr = arguments.strength, arguments.gamma, arguments.learning_rate
        space = env.action_space
        self._action_shape = space.shape
        self._bounds = (space.low, space.high) if isinstance(space, spaces.Box) else None
        self.observations = Observations(env.observation_space, comm)
        convolutional = self.build(space, arguments.encoding_size)
        self.optimizer = Adam()
        self._update = Update(self.loss, self.learnt, self.optimizer, jit=not convolutional, comm=comm)
        self._rewards = compiled(self.reward, not convolutional)

    @abstractmethod
    def build(self, action_space: spaces.Space, encoding_size: int) -> bool:
        """Make the networks; whether they convolve images.

        Args:
            action_space: of one environment.
            encoding_size: units of layers.
        """

    @property
    @abstractmethod
    def learnt(self) -> list[keras.Variable]:
        """The variables that `loss` changes."""

    @abstractmethod
    def reward(self, batch: Batch) -> tf.Tensor:
        """Rewards [B] of a batch's obs, actions and next_obs [B, ...]."""

    @abstractmethod
    def loss(self, batch: Batch, coefficients: dict[str, tf.Tensor]) -> tuple[tf.Tensor, Statistics]:
        """What the networks descend on such a batch, and its statistics; there are no coefficients but 'lr'."""

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """Those that every rank holds alike."""
        return self.learnt

    def rewards(self, obs: Any, actions: np.ndarray, next_obs: Any, episode_start: Any = None) -> np.ndarray:
        """See RewardSignal; episode_start does not count."""
        lead = actions.shape[: actions.ndim - len(self._action_shape)]
        transitions = {"obs": obs, "actions": actions, "next_obs": next_obs}
        rows = tf.nest.map_structure(lambda array: array.reshape(-1, *array.shape[len(lead) :]), transitions)
        tensors = tf.nest.map_structure(tf.constant, self._taken(rows))
        return self._rewards(tensors).numpy().reshape(lead)

    def update(self, batch: dict[str, Any], indices: np.ndarray | None = None) -> dict[str, float]:
        """See RewardSignal."""
        if indices is None:
            indices = np.arange(len(batch["actions"]), dtype=np.int32)[None]
        return self._update(self._taken(batch), indices, lr=self._lr)

    def take_in(self, batch: dict[str, Any]) -> None:
        """See RewardSignal."""
        self.observations.take_in(batch["next_obs"])

    def ready(self) -> None:
        """Nothing follows the parameters."""

    def observed(self) -> None:
        """Nothing depends on the policy's statistics of observations."""

    def own_state(self) -> dict[str, Any]:
        """What it remembers: weights by number, statistics of observations, and the optimiser."""
        weights = {f"{number:02d}": variable.numpy() for number, variable in enumerate(self.trainable_variables)}
        return {"weights": weights, "observations": self.observations.state(), "optimizer": slots(self.optimizer)}

    def take_over(self, state: dict[str, Any]) -> None:
        """Take over what `own_state` gave."""
        for number, variable in enumerate(self.trainable_variables):
            variable.assign(state["weights"][f"{number:02d}"])
        self.observations.restore(state["observations"])
        restore_slots(self.optimizer, state["optimizer"])

    def state(self) -> dict[str, Any]:
        """What it remembers, under its name."""
        return {self.name: self.own_state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `state` gave; ValueError when the saved model lacks this signal."""
        if self.name not in state:
            raise UsageError(f"the saved model has no reward signal '{self.name}'")
        self.take_over(state[self.name])

    def _taken(self, batch: dict[str, Any]) -> dict[str, Any]:
        """A batch's transitions, with Box actions within their bounds, as the environment takes them."""
        actions = batch["actions"]
        if self._bounds is not None:
            actions = np.clip(actions, *self._bounds).astype(np.float32)
        return {"obs": batch["obs"], "actions": actions, "next_obs": batch["next_obs"]}
