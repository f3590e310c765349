"""GAIL's reward: a discriminator that learns beside the policy (Ho and Ermon 2016, arXiv:1606.03476).

A network that distinguishes a policy's observations and actions from a demonstrator's.

The discriminator of generative adversarial imitation learning: pure functions of its logits [B].
"""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.compiling import compiled
from tfbaselines.demos.demonstrations import Demonstrations
from tfbaselines.errors import UsageError
from tfbaselines.learn.optimizers import Adam, restore_slots, slots
from tfbaselines.learn.update import Batch, Statistics, Update
from tfbaselines.logs.rows import Episodes
from tfbaselines.parallel import mpi
from tfbaselines.policy.encoding import encode, encoded_shape, is_image
from tfbaselines.policy.networks import get_network_builder
from tfbaselines.policy.normalizer import Normalizer
from tfbaselines.policy.trunk import ENCODERS, Trunk
from tfbaselines.rollout.rollout import TIME_OUT, Rollout

IMAGE_ENCODER = "simple"


class Discriminator:
    """Two layers of tanh units on observation and action, and a linear logit.

    Box observations are scaled by a running mean and deviation of its own; images pass through an encoder; discrete
    actions are one-hot.

    Attributes:
        normalizer: of observations; None where they are no numbers.

    Args:
        observation_space: of one environment.
        action_space: of one environment.
        hidden_size: units of each layer.
        use_actions: actions count, not observations alone.
        comm: the ranks over which the running mean is merged.
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        hidden_size: int,
        comm: mpi.Communicator | None = None,
        use_actions: bool = True,
    ) -> None:
        self._observation_space, self._action_space = observation_space, action_space
        image = is_image(observation_space)
        numbers = isinstance(observation_space, spaces.Box) and not image
        self.normalizer = Normalizer(encoded_shape(observation_space), comm) if numbers else None
        self._trunk = Trunk(observation_space, get_network_builder(ENCODERS[IMAGE_ENCODER])() if image else None)
        self._action_width = int(np.prod(encoded_shape(action_space))) if use_actions else 0
        units = ((hidden_size, "tanh"), (hidden_size, "tanh"), (1, None))
        self._layers = [keras.layers.Dense(width, activation=activation) for width, activation in units]
        width = self._trunk.width + self._action_width
        for layer in self._layers:
            layer.build((None, width))
            width = layer.units

    @property
    def convolutional(self) -> bool:
        """Whether it convolves images."""
        return bool(self._trunk.modules)

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """The encoder's, then the layers'."""
        layers = [variable for layer in self._layers for variable in layer.trainable_variables]
        return [*self._trunk.trainable_variables, *layers]

    def logits(self, obs: Any, actions: tf.Tensor) -> tf.Tensor:
        """[B], above 0 for what seems to be the demonstrator's.

        Args:
            obs: [B, ...].
            actions: [B, ...], as the environment takes them.
        """
        encoded = encode(obs, self._observation_space)
        if self.normalizer is not None:
            encoded = self.normalizer.apply(encoded)
        features, _ = self._trunk(encoded, None, None)
        x = features
        if self._action_width:
            done = tf.reshape(encode(actions, self._action_space), (-1, self._action_width))
            x = tf.concat([features, tf.cast(done, tf.float32)], axis=-1)
        for layer in self._layers:
            x = layer(x)
        return x[:, 0]

    def state(self) -> dict[str, Any]:
        """Weights by number, and the statistics of observations."""
        weights = {f"{number:02d}": variable.numpy() for number, variable in enumerate(self.trainable_variables)}
        return {"weights": weights, "normalizer": None if self.normalizer is None else self.normalizer.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `state` gave."""
        for number, variable in enumerate(self.trainable_variables):
            variable.assign(state["weights"][f"{number:02d}"])
        if self.normalizer is not None:
            self.normalizer.restore(state["normalizer"])


# Keeps the reward finite where the discriminator is certain.
EPSILON = 1e-8


def adversarial_loss(
    generator: tf.Tensor, expert: tf.Tensor, entcoeff: float
) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """E_g[-log(1 - D)] + E_e[-log D] - entcoeff H[D], D = sigmoid(logit): the probability of being the expert's.

    Args:
        generator: logits [B] of what the policy did.
        expert: logits [B] of demonstrations.
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
    """-log(1 - D) [B]: large where the policy is taken for the expert.

    Args:
        logits: [B].
    """
    return -tf.math.log(1.0 - tf.sigmoid(logits) + EPSILON)


ADAM_EPSILON = 1e-8


class Adversary:
    """A reward signal (rewards/signals.py) that is a part of the model (see PolicyModel.parts).

    Attributes:
        discriminator: the network.

    Args:
        discriminator: the network.
        demonstrations: of the expert.
        action_space: Box actions of the policy are brought into its bounds, as those of demonstrations are.
        entcoeff: see `adversarial_loss`.
        lr: learning rate.
        rng: draws demonstrated steps.
        comm: the ranks that train together.
        subsample: every how many steps of a demonstrated episode one is used.
        strength: factor of the rewards.
        gamma: discount of their returns.
        shown: makes demonstrated observations those that the environments would show now.
    """

    name = "gail"
    statistics = ("generator_loss", "expert_loss", "entropy", "entropy_loss", "generator_acc", "expert_acc")
    # A demonstrator's reward for being alive, or for ending, is not to be had.
    ends = TIME_OUT

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
        shown: Callable[[np.ndarray], np.ndarray] = lambda obs: obs,
    ) -> None:
        self.discriminator, self.strength, self.gamma = discriminator, strength, gamma
        self._entcoeff, self._lr, self._rng, self._shown = entcoeff, lr, rng, shown
        rows = demonstrations.rows(subsample)
        self._expert = demonstrations.obs[rows], demonstrations.actions[rows]
        box = isinstance(action_space, spaces.Box)
        self._bounds = (action_space.low, action_space.high) if box else None
        self.optimizer, jit = Adam(epsilon=ADAM_EPSILON), not discriminator.convolutional
        variables = discriminator.trainable_variables
        self._update = Update(self.loss, variables, self.optimizer, jit=jit, comm=comm)
        self._rewards = compiled(lambda obs, actions: adversarial_reward(discriminator.logits(obs, actions)), jit)

    @property
    def trainable_variables(self) -> list[Any]:
        """The discriminator's."""
        return self.discriminator.trainable_variables

    def loss(self, batch: Batch, _: dict[str, tf.Tensor]) -> tuple[tf.Tensor, Statistics]:
        """See `adversarial_loss`.

        Args:
            batch: obs and actions of the policy, expert_obs and expert_actions [B, ...].
        """
        generator = self.discriminator.logits(batch["obs"], batch["actions"])
        expert = self.discriminator.logits(batch["expert_obs"], batch["expert_actions"])
        return adversarial_loss(generator, expert, self._entcoeff)

    def rewards(
        self, obs: np.ndarray, actions: np.ndarray, next_obs: Any = None, episode_start: np.ndarray | None = None
    ) -> np.ndarray:
        """See RewardSignal; next_obs and episode_start do not count."""
        lead = actions.shape[: actions.ndim - len(self._expert[1].shape) + 1]
        rows = [x.reshape(-1, *x.shape[len(lead) :]) for x in (obs, self._bounded(actions))]
        return self._rewards(*map(tf.constant, rows)).numpy().reshape(lead)

    def take_in(self, batch: dict[str, Any]) -> None:
        """Nothing: `update` merges observations, those of demonstrations too."""

    def update(self, batch: dict[str, Any], indices: np.ndarray | None = None) -> dict[str, float]:
        """Take steps on what the policy did, and on as many demonstrated steps; statistics.

        Args:
            batch: obs and actions [B, ...].
            indices: see RewardSignal.
        """
        count, every = len(batch["obs"]), len(self._expert[0])
        if indices is None:
            indices = np.arange(count, dtype=np.int32)[None]
        drawn = self._rng.choice(every, count, replace=every < count)
        expert_obs, expert_actions = (array[drawn] for array in self._expert)
        expert_obs = np.asarray(self._shown(expert_obs), batch["obs"].dtype)
        if self.discriminator.normalizer is not None:
            self.discriminator.normalizer.update(np.concatenate([batch["obs"], expert_obs]))
        data = {
            "obs": batch["obs"],
            "actions": self._bounded(batch["actions"]),
            "expert_obs": expert_obs,
            "expert_actions": expert_actions,
        }
        return self._update(data, indices, lr=self._lr)

    def _bounded(self, actions: np.ndarray) -> np.ndarray:
        return actions if self._bounds is None else np.clip(actions, *self._bounds).astype(np.float32)

    def ready(self) -> None:
        """Nothing follows the parameters."""

    def observed(self) -> None:
        """Nothing depends on the policy's statistics of observations."""

    def state(self) -> dict[str, Any]:
        """The discriminator and its optimiser."""
        return {"gail": self.discriminator.state() | {"optimizer": slots(self.optimizer)}}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `state` gave; ValueError when the saved model lacks a discriminator."""
        if self.name not in state:
            raise UsageError("the saved model has no reward signal 'gail'")
        self.discriminator.restore(state["gail"])
        restore_slots(self.optimizer, state["gail"]["optimizer"])


class LearntReturns:
    """Returns of episodes in rewards that are learnt, which no monitor sees; see Run.acts.

    Args:
        env: the environments.
        in_mean: the latest episodes, over which the mean goes.
        comm: the ranks, whose episodes count whichever rank they ended on.
    """

    def __init__(self, env: Any, in_mean: int, comm: mpi.Communicator) -> None:
        self._env, self._comm, self._latest = env, comm, Episodes(in_mean)
        self._sums, self._steps = np.zeros(env.num_envs), np.zeros(env.num_envs, np.int64)

    @property
    def mean(self) -> float:
        """Of the latest episodes; nan before the first one ends."""
        return self._latest.mean_reward

    def add(self, rollout: Rollout) -> None:
        """Take in a rollout whose rewards are the learnt ones."""
        ended, episodes = rollout.ended, []
        for rewards, over in zip(rollout.rewards, ended, strict=True):
            self._sums += rewards
            self._steps += 1
            episodes += [{"r": self._sums[i], "l": self._steps[i]} for i in np.flatnonzero(over)]
            self._sums[over], self._steps[over] = 0.0, 0
        self._latest.extend([episode for own in self._comm.gather(episodes) for episode in own])

    def state(self) -> dict[str, Any]:
        """Sums of the episodes under way, and the latest episodes."""
        return {"sums": self._sums.copy(), "steps": self._steps.copy(), "latest": self._latest.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `state` gave; the sums where the environments' episodes go on."""
        self._latest.restore(state["latest"])
        if self._env.restored:
            self._sums, self._steps = np.array(state["sums"]), np.array(state["steps"])
