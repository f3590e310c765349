"""GAIL's reward: a discriminator that learns beside the policy (Ho and Ermon 2016, arXiv:1606.03476)."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.compiling import compiled
from tfbaselines.experience.demonstrations import Demonstrations
from tfbaselines.experience.rollout import TIME_OUT, Rollout
from tfbaselines.logs.episodes import Episodes
from tfbaselines.losses.adversary import adversarial_loss, adversarial_reward
from tfbaselines.optim.optimizers import Adam, restore_slots, slots
from tfbaselines.optim.update import Batch, Statistics, Update
from tfbaselines.parallel import mpi
from tfbaselines.policy.discriminator import Discriminator

ADAM_EPSILON = 1e-8


class Adversary:
    """A reward signal (experience/rewards.py) that is a part of the model (see PolicyModel.parts).

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
            raise ValueError("the saved model has no reward signal 'gail'")
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
