"""Random network distillation (Burda et al. 2018, arXiv:1810.12894): what was seldom seen is worth a reward.

A predictor learns the outputs of a random network. Its error on the observation that follows a step,

    e(s') = mean((predictor(s') - target(s'))^2),

is large where it has learnt little, and the reward is e divided by a running deviation of e.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.config.signals import Rnd as Arguments
from tfbaselines.learn.update import Batch, Statistics
from tfbaselines.parallel import mpi
from tfbaselines.parallel.moments import RunningMeanStd
from tfbaselines.rewards.learned import Encoder, LearntSignal

EPSILON = 1e-8


class Rnd(LearntSignal):
    """See the module; arguments as for LearntSignal."""

    name = "rnd"
    statistics = ("loss",)

    def __init__(self, env: Any, arguments: Arguments, comm: mpi.Communicator | None = None) -> None:
        self._comm, self._moments = mpi.wrap(comm), RunningMeanStd(epsilon=0.0)
        super().__init__(env, arguments, comm)

    def build(self, action_space: spaces.Space, encoding_size: int) -> bool:
        """See LearntSignal; the predictor has a layer more than the random network."""
        hidden, output = (encoding_size, "relu"), (encoding_size, None)
        self.target = Encoder(self.observations, [hidden, output])
        self.predictor = Encoder(self.observations, [hidden, hidden, output])
        return self.target.convolutional

    @property
    def learnt(self) -> list[keras.Variable]:
        """The predictor's."""
        return self.predictor.trainable_variables

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """The predictor's and the random network's, which must be alike on every rank too."""
        return [*self.learnt, *self.target.trainable_variables]

    def reward(self, batch: Batch) -> tf.Tensor:
        """The error [B], before its division by the deviation."""
        seen = self.observations(batch["next_obs"])
        target = tf.stop_gradient(self.target(seen))
        return tf.reduce_mean(tf.square(self.predictor(seen) - target), axis=-1)

    def loss(self, batch: Batch, _: dict[str, tf.Tensor]) -> tuple[tf.Tensor, Statistics]:
        """The mean error."""
        loss = tf.reduce_mean(self.reward(batch))
        return loss, {"loss": loss}

    def rewards(self, obs: Any, actions: np.ndarray, next_obs: Any, episode_start: Any = None) -> np.ndarray:
        """See RewardSignal."""
        return super().rewards(obs, actions, next_obs) / np.float32(np.sqrt(self._moments.var) + EPSILON)

    def take_in(self, batch: dict[str, Any]) -> None:
        """See RewardSignal; the deviation is that of errors since the beginning."""
        super().take_in(batch)
        errors = super().rewards(batch["obs"], batch["actions"], batch["next_obs"])
        self._moments.update(errors)
        self._moments.merge(self._comm)

    def own_state(self) -> dict[str, Any]:
        """See LearntSignal; also the moments of errors."""
        return super().own_state() | {"errors": self._moments.state()}

    def take_over(self, state: dict[str, Any]) -> None:
        """See LearntSignal."""
        super().take_over(state)
        self._moments.restore(state["errors"])
