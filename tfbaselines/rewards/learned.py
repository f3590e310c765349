"""Base class of reward signals that learn their own networks, and GAIL's reward (Ho and Ermon 2016, arXiv:1606.03476).

GAIL's discriminator D separates the policy's observations and actions from a demonstrator's. It descends

    E_policy[-log(1 - D)] + E_demonstrations[-log D] - entcoeff H[D],

and the reward is -log(1 - D). The functions of D's logits [B] are pure.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.compiling import compiled
from tfbaselines.demos import Demonstrations
from tfbaselines.demos.parts import as_policy_takes
from tfbaselines.envs.vec.packed import opened, unpacked
from tfbaselines.errors import UsageError
from tfbaselines.learn.engine import Batch, Engine, Phase, Statistics
from tfbaselines.learn.optimizers import Adam, restore_slots, slots
from tfbaselines.parallel import mpi
from tfbaselines.policy.encoding import encode, encoded_shape, is_image, make_normalizer, networks_part, without_mask
from tfbaselines.policy.networks import get_network_builder
from tfbaselines.policy.trunk import Trunk
from tfbaselines.rollout.rollout import TIME_OUT
from tfbaselines.training.model import Part

IMAGE_ENCODER = "cnn_simple"


# A layer's units and its activation.
Units = tuple[int, str | None]


def dense_layers(inputs: int, units: Sequence[Units], orthogonal: bool = False) -> keras.Sequential:
    """Make dense layers over rows of numbers, with orthogonal or Keras's default weights."""
    layers = []
    for width, activation in units:
        gain = np.sqrt(2.0) if activation else 1.0
        initializer = keras.initializers.Orthogonal(gain) if orthogonal else "glorot_uniform"
        layers.append(keras.layers.Dense(width, activation=activation, kernel_initializer=initializer))
    return keras.Sequential([keras.Input((inputs,)), *layers])


class Encoder:
    """Dense layers over observations; images pass through convolutions first, other numbers may join behind them."""

    def __init__(self, space: spaces.Space, units: Sequence[Units], joined: int = 0, orthogonal: bool = False) -> None:
        self._trunk = Trunk(space, get_network_builder(IMAGE_ENCODER)())
        self._dense = dense_layers(self._trunk.width + joined, units, orthogonal)

    @property
    def convolutional(self) -> bool:
        """True if it convolves images."""
        return bool(self._trunk.modules)

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """Variables of the convolutions, then of the dense layers."""
        return [*self._trunk.trainable_variables, *self._dense.trainable_variables]

    def __call__(self, encoded: Any, *joined: tf.Tensor) -> tf.Tensor:
        features, _ = self._trunk(encoded, None, None)
        return self._dense(tf.concat([features, *joined], axis=-1) if joined else features)


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
        """Compile rewards and gradient steps, once the networks exist; `adam` are the optimizer's arguments."""
        # XLA slows convolutions down on a CPU.
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

    def take_in(self, batch: dict[str, Any]) -> None:
        """Merge obs, actions and next_obs [B, ...] into running statistics, if any; every rank calls it.

        This comes before the rewards of these steps are computed.
        """

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """Variables that are equal on every rank."""
        return self.learned_variables

    def rewards(
        self,
        obs: Any,
        actions: np.ndarray,
        next_obs: Any = None,
        episode_start: Any = None,
        terminated: np.ndarray | None = None,
    ) -> np.ndarray:
        """Compute rewards [..] of transitions, without the factor `strength`.

        Args:
            obs: [.., *observation shape] before the steps.
            actions: [.., *action shape].
            next_obs: observations after the steps, in the shape of obs; at an episode's end its real last one.
            episode_start: ignored here; [..] whether obs is the first of an episode, None for steps of a replay.
            terminated: [..] whether the steps ended their episodes by themselves; for signals with this input.
        """
        dimensions = actions.ndim - len(self._action_space.shape)
        given = {"obs": obs, "actions": actions, "next_obs": next_obs, "terminated": terminated}
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


# Keeps the reward finite where the discriminator is certain.
EPSILON = 1e-8
ADAM_EPSILON = 1e-8
# Inside the square root of the gradient penalty, as in ML-Agents.
PENALTY_EPSILON = 1e-7


class Discriminator:
    """Two layers of tanh units on observation and action, and a linear logit.

    Box observations are standardized by its own running statistics; images pass through an encoder; discrete actions
    are one-hot. Without use_actions and use_done the logit depends on observations alone.

    Attributes:
        observation_space: space of the observations, packed or not.
        normalizer: running statistics of observations, merged over comm; None for images and discrete observations.
        use_done: the logit depends on the end of the episode too.
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        hidden_size: int,
        comm: mpi.Communicator | None = None,
        use_actions: bool = True,
        use_done: bool = False,
    ) -> None:
        self.observation_space = observation_space
        self._action_space = action_space
        parts = opened(observation_space)
        numeric = isinstance(parts, spaces.Dict | spaces.Box) and not is_image(parts)
        self.normalizer = make_normalizer(parts, comm) if numeric else None
        self._seen = without_mask(parts)
        self._action_width = int(np.prod(encoded_shape(action_space))) if use_actions else 0
        self.use_done = use_done
        units = ((hidden_size, "tanh"), (hidden_size, "tanh"), (1, None))
        self.encoder = Encoder(self._seen, units, self._action_width + use_done)

    def logits(self, obs: Any, actions: tf.Tensor, terminated: tf.Tensor | None = None) -> tf.Tensor:
        """Compute logits [B], above 0 where the demonstrator is more likely than the policy."""
        return self.encoder(*self.encoded(obs, actions, terminated))[:, 0]

    def encoded(self, obs: Any, actions: tf.Tensor, terminated: tf.Tensor | None = None) -> list[tf.Tensor]:
        """Return the networks' inputs: normalized observations, and actions and ends [B] if they are used."""
        encoded = encode(obs, self.observation_space)
        if self.normalizer is not None:
            encoded = self.normalizer.apply(encoded)
        encoded = networks_part(encoded, self._seen)
        inputs = [encoded]
        if self._action_width:
            encoded_actions = tf.reshape(encode(actions, self._action_space), (-1, self._action_width))
            inputs.append(tf.cast(encoded_actions, tf.float32))
        if self.use_done:
            inputs.append(tf.cast(terminated, tf.float32)[:, None])
        return inputs

    def take_in(self, *observations: Any) -> None:
        """Merge batches [B, ...] of observations into the statistics, if there are any."""
        if self.normalizer is not None:
            batches = [unpacked(obs, self.observation_space) for obs in observations]
            merged = tf.nest.map_structure(lambda *arrays: np.concatenate(arrays), *batches)
            self.normalizer.update(merged)

    def gradient_penalty(self, generator: list[tf.Tensor], expert: list[tf.Tensor], mix: tf.Tensor) -> tf.Tensor:
        """Compute E[(|gradient of D| - 1)^2] between the policy's and demonstrated steps (Gulrajani et al. 2017).

        Args:
            generator: encoded steps of the policy, [B, ...] each.
            expert: encoded demonstrated steps.
            mix: [B] shares of the policy's step in each point between both.
        """

        def between(one: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
            share = tf.reshape(mix, (-1, *[1] * (len(one.shape) - 1)))
            return share * tf.cast(one, tf.float32) + (1.0 - share) * tf.cast(other, tf.float32)

        points = tf.nest.map_structure(between, generator, expert)
        with tf.GradientTape() as tape:
            tape.watch(points)
            d = tf.reduce_sum(tf.sigmoid(self.encoder(*points)))
        gradients = tf.nest.flatten(tape.gradient(d, points))
        rows = [tf.reshape(gradient, (mix.shape[0], -1)) for gradient in gradients]
        norms = tf.sqrt(tf.reduce_sum(tf.square(tf.concat(rows, axis=-1)), axis=-1) + PENALTY_EPSILON)
        return tf.reduce_mean(tf.square(norms - 1.0))


def adversarial_loss(
    generator: tf.Tensor, expert: tf.Tensor, entcoeff: float
) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Compute E_g[-log(1 - D)] + E_e[-log D] - entcoeff H[D], where D = sigmoid(logit).

    Args:
        generator: logits [B] of the policy's steps.
        expert: logits [B] of demonstrated steps.
        entcoeff: weight of the mean entropy H of D as a Bernoulli distribution over both.
    """
    generator_loss = tf.reduce_mean(tf.nn.softplus(generator))
    expert_loss = tf.reduce_mean(tf.nn.softplus(-expert))
    logits = tf.concat([generator, expert], 0)
    entropy = tf.reduce_mean((1.0 - tf.sigmoid(logits)) * logits + tf.nn.softplus(-logits))
    entropy_loss = -entcoeff * entropy
    return generator_loss + expert_loss + entropy_loss, {
        "generator_loss": generator_loss,
        "expert_loss": expert_loss,
        "entropy": entropy,
        "entropy_loss": entropy_loss,
        "generator_acc": tf.reduce_mean(tf.cast(tf.sigmoid(generator) < 0.5, tf.float32)),
        "expert_acc": tf.reduce_mean(tf.cast(tf.sigmoid(expert) > 0.5, tf.float32)),
    }


def adversarial_reward(logits: tf.Tensor) -> tf.Tensor:
    """Compute -log(1 - D) [B] from logits [B]: large where the discriminator takes the policy for the expert."""
    return -tf.math.log(1.0 - tf.sigmoid(logits) + EPSILON)


class Adversary(LearnedSignal):
    """The reward signal of a discriminator, which learns from every n-th step (subsample) of a demonstrated episode.

    Args:
        action_space: Box actions are clipped to its bounds, like demonstrated actions.
        entcoeff: see `adversarial_loss`.
        gradient_penalty: weight of the discriminator's gradient penalty in the loss.
        rng: draws demonstrated steps, and points of the gradient penalty.
        normalize: gives demonstrated observations the form of the environments' present ones.
    """

    name = "gail"
    statistics = ("generator_loss", "expert_loss", "entropy", "entropy_loss", "generator_acc", "expert_acc")
    # The demonstrator's own reward for staying alive, or for ending the episode, is unknown.
    ends = TIME_OUT
    inputs = ("obs", "actions")

    def __init__(
        self,
        discriminator: Discriminator,
        demonstrations: Demonstrations,
        action_space: spaces.Space,
        *,
        entcoeff: float,
        lr: float,
        rng: np.random.Generator,
        comm: mpi.Communicator | None = None,
        subsample: int = 1,
        strength: float = 1.0,
        gamma: float = 0.99,
        normalize: Callable[[np.ndarray], np.ndarray] = lambda obs: obs,
        gradient_penalty: float = 0.0,
    ) -> None:
        super().__init__(action_space, strength, gamma, lr)
        self.discriminator = discriminator
        self._entcoeff = entcoeff
        self._gradient_penalty = gradient_penalty
        if gradient_penalty:
            self.statistics = (*self.statistics, "gradient_penalty")
        self._rng = rng
        self._normalize = normalize
        rows = demonstrations.rows(subsample)
        self._expert = demonstrations.obs[rows], demonstrations.actions[rows]
        if discriminator.use_done:
            self.inputs = (*self.inputs, "terminated")
            terminated = np.zeros(len(demonstrations), np.float32)
            terminated[demonstrations.ends - 1] = demonstrations.terminated
            self._expert = (*self._expert, terminated[rows])
        self.compile(discriminator.encoder.convolutional, comm, epsilon=ADAM_EPSILON)

    @property
    def learned_variables(self) -> list[keras.Variable]:
        return self.discriminator.encoder.trainable_variables

    def reward(self, batch: Batch) -> tf.Tensor:
        return adversarial_reward(self.discriminator.logits(*(batch[name] for name in self.inputs)))

    def loss(self, batch: Batch) -> tuple[tf.Tensor, Statistics]:
        discriminator = self.discriminator
        generator = discriminator.encoded(*(batch[name] for name in self.inputs))
        expert = discriminator.encoded(*(batch[f"expert_{name}"] for name in self.inputs))
        logits = [discriminator.encoder(*inputs)[:, 0] for inputs in (generator, expert)]
        loss, statistics = adversarial_loss(*logits, self._entcoeff)
        if not self._gradient_penalty:
            return loss, statistics
        penalty = discriminator.gradient_penalty(generator, expert, batch["mix"])
        return loss + self._gradient_penalty * penalty, statistics | {"gradient_penalty": penalty}

    def update(self, batch: dict[str, Any], indices: np.ndarray | None = None) -> dict[str, float]:
        count = len(batch["actions"])
        available = len(self._expert[0])
        drawn = self._rng.choice(available, count, replace=available < count)
        expert_obs, *others = (array[drawn] for array in self._expert)
        expert_obs = np.asarray(self._normalize(expert_obs), expert_obs.dtype)
        expert_obs = as_policy_takes(expert_obs, self.discriminator.observation_space)
        # Demonstrated observations count as well.
        self.discriminator.take_in(batch["obs"], expert_obs)
        expert = dict(zip(self.inputs, (expert_obs, *others), strict=True))
        data = self._within_bounds(batch) | {f"expert_{name}": array for name, array in expert.items()}
        if self._gradient_penalty:
            data["mix"] = self._rng.random(count, np.float32)
        return self._engine.minibatches(data, indices, lr=self._learning_rate)

    def own_state(self) -> dict[str, Any]:
        normalizer = self.discriminator.normalizer
        return super().own_state() | {"normalizer": None if normalizer is None else normalizer.state()}

    def restore_own(self, state: dict[str, Any]) -> None:
        super().restore_own(state)
        if self.discriminator.normalizer is not None:
            self.discriminator.normalizer.restore(state["normalizer"])
