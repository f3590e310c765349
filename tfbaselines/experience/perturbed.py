"""Exploration by noise in an actor's parameters (Plappert et al. 2018, arXiv:1706.01905)."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from tfbaselines.compiling import compiled
from tfbaselines.experience.noise import AdaptiveParamNoiseSpec
from tfbaselines.parallel import mpi
from tfbaselines.policy.actor import make_actor
from tfbaselines.policy.actor_critic import ActorCritic
from tfbaselines.policy.protocol import SamplingActor
from tfbaselines.policy.q_network import QNetwork

# Of a policy, one with noise, and observations with episode_start and states: how far noise moves what is done.
Distance = Callable[[Any, Any, Any, tf.Tensor | None, tf.Tensor | None], tf.Tensor]


def action_distance(
    policy: ActorCritic, perturbed: ActorCritic, obs: Any, episode_start: tf.Tensor | None, states: tf.Tensor | None
) -> tf.Tensor:
    """Root mean square distance [] of deterministic actions, in units of the actions' bounds."""
    view = policy.view(obs, episode_start, states)
    moved, own = (one.head.unit(one.head.mode(one.act(view))) for one in (perturbed, policy))
    return tf.sqrt(tf.reduce_mean(tf.square(moved - own)))


def policy_divergence(
    policy: QNetwork, perturbed: QNetwork, obs: Any, episode_start: tf.Tensor | None, states: tf.Tensor | None
) -> tf.Tensor:
    """Mean KL divergence [] between softmax(Q) and softmax(Q with noise)."""
    own, moved = (tf.nn.log_softmax(one.forward(obs).flat) for one in (policy, perturbed))
    return tf.reduce_mean(tf.reduce_sum(tf.exp(own) * (own - moved), axis=-1))


class PerturbedActor:
    """A copy of an actor with noise in some parameters, those that the policy's `perturbed_variables` lists.

    Every rank draws its own noise: `state` is saved for each of them.

    Attributes:
        policy: with noise.
        actor: acts for it.
        spec: the size of the noise.

    Args:
        policy: the actor.
        copies: two policies with the same actor: one acts, the other measures.
        spec: the size of the noise.
        rng: numpy generator of the noise.
        comm: ranks over which distances are averaged.
        distance: how far noise moves what is done.
    """

    def __init__(
        self,
        policy: ActorCritic | QNetwork,
        copies: tuple[ActorCritic, ActorCritic] | tuple[QNetwork, QNetwork],
        spec: AdaptiveParamNoiseSpec,
        rng: np.random.Generator,
        comm: Any = None,
        distance: Distance = action_distance,
    ) -> None:
        self._policy, self._rng, self.spec, self._comm = policy, rng, spec, mpi.wrap(comm)
        self.policy, self._measuring = copies
        for copy in copies:
            copy.normalizer = policy.normalizer
        self.actor = make_actor(self.policy)
        self._distance = compiled(partial(distance, policy, self._measuring))
        self.reset()

    def reset(self) -> None:
        """Draw new noise around the actor's current parameters."""
        self._perturb(self.policy)
        self.actor.refresh()
        self._outdated = False

    def outdate(self) -> None:
        """Draw new noise before acting again, unless parameters with noise are restored before."""
        self._outdated = True

    def present(self) -> SamplingActor:
        """What acts with noise around parameters that are not outdated."""
        if self._outdated:
            self.reset()
        return self.actor

    def state(self) -> dict[str, Any]:
        """The parameters with noise."""
        return self.policy.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `state` gave."""
        self.policy.restore(state)
        self.actor.refresh()
        self._outdated = False

    def adapt(self, batch: dict[str, Any]) -> float:
        """Adapt the size of the noise to the distance by which noise drawn anew moves what is done.

        Args:
            batch: obs [B, ...]; of recurrent policies also episode_start [B] and states.

        Returns:
            The distance.
        """
        self._perturb(self._measuring)
        here = self._distance(batch["obs"], batch.get("episode_start"), batch.get("states"))
        distance = float(self._comm.average(np.array([here.numpy()], np.float32))[0])
        self.spec.adapt(distance)
        return distance

    def _perturb(self, copy: ActorCritic | QNetwork) -> None:
        noisy = {id(variable) for variable in self._policy.perturbed_variables}
        # The acting copy of an actor also computes the critics' recurrent states that the replay stores.
        for target, variable in zip(copy.trainable_variables, self._policy.trainable_variables, strict=False):
            value = variable.numpy()
            if id(variable) in noisy:
                value = value + self._rng.normal(0.0, self.spec.current_stddev, value.shape).astype(np.float32)
            target.assign(value)
