"""What reward signals with networks of their own share; see RewardSignal in experience/rewards.py."""

from abc import ABC, abstractmethod
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.compiling import compiled
from tfbaselines.experience.rollout import GO_ON
from tfbaselines.optim.optimizers import Adam, restore_slots, slots
from tfbaselines.optim.update import Batch, Statistics, Update
from tfbaselines.parallel import mpi
from tfbaselines.policy.signal_networks import Observations
from tfbaselines.settings.reward_signals import LearntSignal as Arguments


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
            raise ValueError(f"the saved model has no reward signal '{self.name}'")
        self.take_over(state[self.name])

    def _taken(self, batch: dict[str, Any]) -> dict[str, Any]:
        """A batch's transitions, with Box actions within their bounds, as the environment takes them."""
        actions = batch["actions"]
        if self._bounds is not None:
            actions = np.clip(actions, *self._bounds).astype(np.float32)
        return {"obs": batch["obs"], "actions": actions, "next_obs": batch["next_obs"]}
