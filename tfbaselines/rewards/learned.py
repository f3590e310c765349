"""Base class of reward signals that learn their own networks."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.compiling import compiled
from tfbaselines.errors import UsageError
from tfbaselines.learn.engine import Batch, Engine, Phase, Statistics
from tfbaselines.learn.optimizers import Adam, restore_slots, slots
from tfbaselines.parallel import mpi
from tfbaselines.training.model import Part

IMAGE_ENCODER = "simple"


class DenseLayers:
    """Dense layers over rows.

    Args:
        layers: not yet built, in their order.
        inputs: numbers in a row.
    """

    def __init__(self, layers: Sequence[keras.layers.Dense], inputs: int) -> None:
        self._layers = list(layers)
        for layer in self._layers:
            layer.build((None, inputs))
            inputs = layer.units

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """Variables of all layers, in their order."""
        return [variable for layer in self._layers for variable in layer.trainable_variables]

    def __call__(self, rows: tf.Tensor) -> tf.Tensor:
        for layer in self._layers:
            rows = layer(rows)
        return rows


class LearnedSignal(Part, ABC):
    """A reward that is computed from transitions and learned beside the policy; a part of the model.

    A subclass makes its networks, calls `compile`, and defines the abstract members.

    Attributes:
        name: prefix of its statistics and key of its state; unique in a run.
        statistics: names of the statistics that `update` returns.
        ends: effect of an episode's end on its returns, one of rollout.ENDS.
        inputs: names of the arrays that it takes from a batch.
        strength: factor of its rewards.
        gamma: discount of its returns.

    Args:
        action_space: of one environment.
        strength: factor of its rewards.
        gamma: discount of its returns.
        learning_rate: of its networks.
    """

    name: str
    statistics: tuple[str, ...]
    ends: str
    inputs: tuple[str, ...] = ("obs", "actions", "next_obs")

    def __init__(self, action_space: spaces.Space, strength: float, gamma: float, learning_rate: float) -> None:
        self.strength = strength
        self.gamma = gamma
        self._learning_rate = learning_rate
        self._action_space = action_space

    def compile(self, convolutional: bool, comm: mpi.Communicator | None, **adam: float) -> None:
        """Compile rewards and gradient steps, once the networks exist.

        Args:
            convolutional: the networks convolve images, which XLA slows down on a CPU.
            comm: communicator of the ranks that train together.
            adam: arguments of the optimizer.
        """
        jit = not convolutional
        self.optimizer = Adam(**adam)
        phase = Phase(self.name, self.loss, self.learned_variables, self.optimizer)
        self._engine = Engine([phase], jit=jit, comm=comm)
        self._compiled_reward = compiled(self.reward, jit)

    @property
    @abstractmethod
    def learned_variables(self) -> list[keras.Variable]:
        """Variables that `loss` changes."""

    @abstractmethod
    def reward(self, batch: Batch) -> tf.Tensor:
        """Compute rewards [B] of a batch that has the arrays `inputs` [B, ...]."""

    @abstractmethod
    def loss(self, batch: Batch) -> tuple[tf.Tensor, Statistics]:
        """Compute the networks' loss on a batch, and its statistics."""

    @abstractmethod
    def take_in(self, batch: dict[str, Any]) -> None:
        """Merge new experience into running statistics before its rewards are computed; every rank calls it.

        Args:
            batch: obs, actions and next_obs [B, ...].
        """

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """Variables that are equal on every rank."""
        return self.learned_variables

    def rewards(self, obs: Any, actions: np.ndarray, next_obs: Any = None, episode_start: Any = None) -> np.ndarray:
        """Compute rewards [..] of transitions, without the factor `strength`.

        Args:
            obs: [.., *observation shape] before the steps.
            actions: [.., *action shape].
            next_obs: observations after the steps, in the shape of obs; at an episode's end its real last one.
            episode_start: ignored here; [..] whether obs is the first of an episode, None for steps of a replay.
        """
        dimensions = actions.ndim - len(self._action_space.shape)
        given = {"obs": obs, "actions": actions, "next_obs": next_obs}
        transitions = {name: given[name] for name in self.inputs}
        rows = tf.nest.map_structure(lambda array: array.reshape(-1, *array.shape[dimensions:]), transitions)
        tensors = tf.nest.map_structure(tf.constant, self._within_bounds(rows))
        return self._compiled_reward(tensors).numpy().reshape(actions.shape[:dimensions])

    def update(self, batch: dict[str, Any], indices: np.ndarray | None = None) -> dict[str, float]:
        """Learn from a batch and return statistics.

        Args:
            batch: arrays [B, ...].
            indices: [M, b], the rows of each of M gradient steps; None for one step on all rows.
        """
        return self._engine.minibatches(self._within_bounds(batch), indices, lr=self._learning_rate)

    def own_state(self) -> dict[str, Any]:
        """Save weights by number, and the optimizer."""
        weights = {f"{number:02d}": variable.numpy() for number, variable in enumerate(self.trainable_variables)}
        return {"weights": weights, "optimizer": slots(self.optimizer)}

    def restore_own(self, state: dict[str, Any]) -> None:
        """Load a state that `own_state` returned."""
        for number, variable in enumerate(self.trainable_variables):
            variable.assign(state["weights"][f"{number:02d}"])
        restore_slots(self.optimizer, state["optimizer"])

    def state(self) -> dict[str, Any]:
        return {self.name: self.own_state()}

    def restore(self, state: dict[str, Any]) -> None:
        if self.name not in state:
            raise UsageError(f"the saved model has no reward signal '{self.name}'")
        self.restore_own(state[self.name])

    def _within_bounds(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Select the arrays `inputs`, with Box actions clipped to their bounds as environments clip them."""
        batch = {name: batch[name] for name in self.inputs}
        space = self._action_space
        if isinstance(space, spaces.Box):
            batch["actions"] = np.clip(batch["actions"], space.low, space.high).astype(np.float32)
        return batch
