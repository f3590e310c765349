"""Exploration by noise in an actor's parameters (Plappert et al. 2018, arXiv:1706.01905)."""

from typing import Any

import numpy as np
import tensorflow as tf

from tfbaselines.experience.noise import AdaptiveParamNoiseSpec
from tfbaselines.parallel import mpi
from tfbaselines.policy.actor import make_actor
from tfbaselines.policy.actor_critic import ActorCritic
from tfbaselines.policy.protocol import SamplingActor


class PerturbedActor:
    """A copy of an actor with noise in its parameters; those of layer normalisation are left alone.

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
    """

    def __init__(
        self,
        policy: ActorCritic,
        copies: tuple[ActorCritic, ActorCritic],
        spec: AdaptiveParamNoiseSpec,
        rng: np.random.Generator,
        comm: Any = None,
    ) -> None:
        self._policy, self._rng, self.spec, self._comm = policy, rng, spec, mpi.wrap(comm)
        self.policy, self._measuring = copies
        for copy in copies:
            copy.normalizer = policy.normalizer
        self.actor = make_actor(self.policy)

        def distance(obs: Any, episode_start: tf.Tensor | None, states: tf.Tensor | None) -> tf.Tensor:
            view = policy.view(obs, episode_start, states)
            perturbed, own = (one.head.mode(one.act(view)) for one in (self._measuring, policy))
            difference = policy.head.unit(perturbed) - policy.head.unit(own)
            return tf.sqrt(tf.reduce_mean(tf.square(difference)))

        self._distance = tf.function(distance)
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
        """Adapt the size of the noise to the distance by which it moves actions.

        Args:
            batch: obs [B, ...]; of recurrent policies also episode_start [B] and states.

        Returns:
            The root mean square distance, in units of the actions' bounds.
        """
        self._perturb(self._measuring)
        here = self._distance(batch["obs"], batch.get("episode_start"), batch.get("states"))
        distance = float(self._comm.average(np.array([here.numpy()], np.float32))[0])
        self.spec.adapt(distance)
        return distance

    def _perturb(self, copy: ActorCritic) -> None:
        # The acting copy also computes the critics' recurrent states that the replay stores: they have no noise.
        critics = (one.critic_trunk.trainable_variables for one in (copy, self._policy))
        for target, variable in zip(*critics, strict=True):
            target.assign(variable.value)
        for target, variable in zip(copy.acting_variables, self._policy.acting_variables, strict=True):
            value = variable.numpy()
            if "normalization" not in variable.path:
                value = value + self._rng.normal(0.0, self.spec.current_stddev, value.shape).astype(np.float32)
            target.assign(value)
