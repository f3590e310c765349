"""Rewards for novelty: curiosity, and random network distillation.

Curiosity (Pathak et al. 2017, arXiv:1705.05363) rewards consequences that the agent cannot predict. An inverse model
finds the action between two encoded observations, so that the encoder phi drops what actions do not influence. A
forward model predicts the next encoding. The reward is its error,

    r(s, a, s') = 1/2 |forward(phi(s), a) - phi(s')|^2,

and encoder and models descend 0.2 E[r] + 0.8 E[inverse error].

Random network distillation (Burda et al. 2018, arXiv:1810.12894) rewards rare observations. A predictor learns the
outputs of a random network. Its error on the observation after a step,

    e(s') = mean((predictor(s') - target(s'))^2),

is large where it was trained little, and the reward is e divided by a running standard deviation of e.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.config.groups import LearntSignal as Arguments
from tfbaselines.envs.vec.packed import opened, unpacked
from tfbaselines.learn.engine import Batch, Statistics
from tfbaselines.parallel import mpi
from tfbaselines.parallel.moments import RunningMeanStd
from tfbaselines.policy.base import CLIP_NORMALIZED, Head
from tfbaselines.policy.distributions import make_pdtype
from tfbaselines.policy.encoding import (
    DictNormalizer,
    Normalizer,
    encode,
    encoded_shape,
    is_image,
    numeric_parts,
    without_mask,
)
from tfbaselines.rewards.learned import Encoder, LearnedSignal, Units, dense_layers
from tfbaselines.rollout.rollout import GO_ON

FORWARD_SHARE = 0.2
EPSILON = 1e-8


def forward_error(predicted: tf.Tensor, encoding: tf.Tensor) -> tf.Tensor:
    """Compute half the squared distance [B] between predicted and actual encodings [B, E]."""
    return 0.5 * tf.reduce_sum(tf.square(predicted - encoding), axis=-1)


def inverse_error(output: tf.Tensor, actions: tf.Tensor, action_space: spaces.Space, head: Head) -> tf.Tensor:
    """Compute the error [B] of the inverse model.

    Box actions have half the squared distance, other actions the negative log probability under the model's output.
    """
    if isinstance(action_space, spaces.Box):
        taken = tf.reshape(tf.cast(actions, tf.float32), tf.shape(output))
        return 0.5 * tf.reduce_sum(tf.square(output - taken), axis=-1)
    return head.distribution(output).neglogp(actions)


class Observations:
    """Encoded observations for encoders: numbers are standardized by running statistics, and clipped.

    Images, which encoders scale, and one-hots pass unchanged. Statistics are merged over comm.
    """

    def __init__(self, space: spaces.Space, comm: mpi.Communicator | None) -> None:
        self._space = space
        self._opened = opened(space)
        self.parts = without_mask(self._opened)
        self._normalizer: Normalizer | DictNormalizer | None = None
        if isinstance(self._opened, spaces.Dict):
            self._normalizer = DictNormalizer(self._opened, comm)
        elif isinstance(self._opened, spaces.Box) and not is_image(self._opened):
            self._normalizer = Normalizer(encoded_shape(self._opened), comm)

    def __call__(self, obs: tf.Tensor) -> Any:
        encoded = encode(obs, self._space)
        if self._normalizer is None:
            return encoded
        encoded = self._normalizer.apply(encoded)
        if isinstance(encoded, dict):
            return encoded | {name: _clipped(encoded[name]) for name in numeric_parts(self._opened)}
        return _clipped(encoded)

    def take_in(self, obs: Any) -> None:
        """Merge a batch [B, ...], or a dictionary of batches, into the statistics; every rank must call it."""
        if self._normalizer is not None:
            self._normalizer.update(unpacked(obs, self._space))

    def state(self) -> dict[str, Any] | None:
        return None if self._normalizer is None else self._normalizer.state()

    def restore(self, state: dict[str, Any] | None) -> None:
        if self._normalizer is not None:
            self._normalizer.restore(state)


class NoveltySignal(LearnedSignal):
    """A signal with encoders of observations. A subclass makes its networks in `build`."""

    # Novelty is novelty in any episode.
    ends = GO_ON

    def __init__(self, env: Any, arguments: Arguments, comm: mpi.Communicator | None = None) -> None:
        super().__init__(env.action_space, arguments.strength, arguments.gamma, arguments.learning_rate)
        self.observations = Observations(env.observation_space, comm)
        self.compile(self.build(env.action_space, arguments.encoding_size), comm)

    @abstractmethod
    def build(self, action_space: spaces.Space, encoding_size: int) -> bool:
        """Make the networks, with layers of encoding_size units; return whether they convolve images."""

    def _encoder(self, units: Sequence[Units]) -> Encoder:
        return Encoder(self.observations.parts, units, orthogonal=True)

    def take_in(self, batch: dict[str, Any]) -> None:
        self.observations.take_in(batch["next_obs"])

    def own_state(self) -> dict[str, Any]:
        return super().own_state() | {"observations": self.observations.state()}

    def restore_own(self, state: dict[str, Any]) -> None:
        super().restore_own(state)
        self.observations.restore(state["observations"])


class Curiosity(NoveltySignal):
    """The intrinsic curiosity module."""

    name = "curiosity"
    statistics = ("forward_loss", "inverse_loss")

    def build(self, action_space: spaces.Space, encoding_size: int) -> bool:
        self._head = make_pdtype(action_space)
        self._action_width = int(np.prod(encoded_shape(action_space)))
        hidden = (encoding_size, "relu")
        self.encoder = self._encoder([hidden, (encoding_size, None)])
        self.forward_model = dense_layers(encoding_size + self._action_width, [hidden, (encoding_size, None)], True)
        outputs = self._action_width if isinstance(action_space, spaces.Box) else self._head.param_size
        self.inverse_model = dense_layers(2 * encoding_size, [hidden, (outputs, None)], True)
        return self.encoder.convolutional

    @property
    def learned_variables(self) -> list[keras.Variable]:
        models = self.encoder, self.forward_model, self.inverse_model
        return [variable for model in models for variable in model.trainable_variables]

    def reward(self, batch: Batch) -> tf.Tensor:
        return self._forward_error(*self._encodings(batch), batch["actions"])

    def loss(self, batch: Batch) -> tuple[tf.Tensor, Statistics]:
        encoding, following = self._encodings(batch)
        forward = tf.reduce_mean(self._forward_error(encoding, following, batch["actions"]))
        output = self.inverse_model(tf.concat([encoding, following], axis=-1))
        inverse = tf.reduce_mean(inverse_error(output, batch["actions"], self._action_space, self._head))
        loss = FORWARD_SHARE * forward + (1.0 - FORWARD_SHARE) * inverse
        return loss, {"forward_loss": forward, "inverse_loss": inverse}

    def take_in(self, batch: dict[str, Any]) -> None:
        self.observations.take_in(batch["obs"])

    def _encodings(self, batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
        obs, next_obs = (self.encoder(self.observations(batch[name])) for name in ("obs", "next_obs"))
        return obs, next_obs

    def _forward_error(self, encoding: tf.Tensor, following: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        rows = tf.reshape(encode(actions, self._action_space), (-1, self._action_width))
        inputs = tf.concat([encoding, tf.cast(rows, tf.float32)], axis=-1)
        return forward_error(self.forward_model(inputs), following)


class Rnd(NoveltySignal):
    """Random network distillation."""

    name = "rnd"
    statistics = ("loss",)

    def __init__(self, env: Any, arguments: Arguments, comm: mpi.Communicator | None = None) -> None:
        self._comm = mpi.wrap(comm)
        self._moments = RunningMeanStd(epsilon=0.0)
        super().__init__(env, arguments, comm)

    def build(self, action_space: spaces.Space, encoding_size: int) -> bool:
        hidden, output = (encoding_size, "relu"), (encoding_size, None)
        self.target = self._encoder([hidden, output])
        # The predictor has one layer more than the random network.
        self.predictor = self._encoder([hidden, hidden, output])
        return self.target.convolutional

    @property
    def learned_variables(self) -> list[keras.Variable]:
        return self.predictor.trainable_variables

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        return [*self.learned_variables, *self.target.trainable_variables]

    def reward(self, batch: Batch) -> tf.Tensor:
        """Compute the error [B], not yet divided by its standard deviation."""
        observations = self.observations(batch["next_obs"])
        target = tf.stop_gradient(self.target(observations))
        return tf.reduce_mean(tf.square(self.predictor(observations) - target), axis=-1)

    def loss(self, batch: Batch) -> tuple[tf.Tensor, Statistics]:
        loss = tf.reduce_mean(self.reward(batch))
        return loss, {"loss": loss}

    def rewards(self, *steps: Any, **named: Any) -> np.ndarray:
        errors = super().rewards(*steps, **named)
        return errors / np.float32(np.sqrt(self._moments.var) + EPSILON)

    def take_in(self, batch: dict[str, Any]) -> None:
        super().take_in(batch)
        # The standard deviation covers the errors of the whole run.
        self._moments.update(super().rewards(batch["obs"], batch["actions"], batch["next_obs"]))
        self._moments.merge(self._comm)

    def own_state(self) -> dict[str, Any]:
        return super().own_state() | {"errors": self._moments.state()}

    def restore_own(self, state: dict[str, Any]) -> None:
        super().restore_own(state)
        self._moments.restore(state["errors"])


def _clipped(x: tf.Tensor) -> tf.Tensor:
    return tf.clip_by_value(x, -CLIP_NORMALIZED, CLIP_NORMALIZED)
