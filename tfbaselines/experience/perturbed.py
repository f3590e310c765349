"""Exploration by noise in an actor's parameters (Plappert et al. 2018, arXiv:1706.01905)."""

from typing import Any

import numpy as np
import tensorflow as tf

from tfbaselines.experience.noise import AdaptiveParamNoiseSpec
from tfbaselines.losses.off_policy import view_of
from tfbaselines.optim.blocks import Batch
from tfbaselines.parallel import mpi
from tfbaselines.policy.actor import make_actor
from tfbaselines.policy.actor_critic import ActorCritic


class PerturbedActor:
    """A copy of an actor with noise in its parameters; those of layer normalisation are left alone.

    Attributes:
        policy: with noise.
        actor: acts for it.
        spec: the size of the noise.

    Args:
        policy: the actor.
        copies: two more of its kind: one acts, one is used to measure.
        spec: the size of the noise.
        rng: numpy generator.
        comm: the ranks whose distances are averaged.
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

        def distance(batch: Batch) -> tf.Tensor:
            view = view_of(policy, batch)
            moved, meant = (one.head.mode(one.act(view)) for one in (self._measuring, policy))
            apart = policy.head.unit(moved) - policy.head.unit(meant)
            return tf.sqrt(tf.reduce_mean(tf.square(apart)))

        self._distance = tf.function(distance)
        self.reset()

    def reset(self) -> None:
        """Draw new noise around the actor's present parameters."""
        self._perturb(self.policy)
        self.actor.refresh()

    def adapt(self, batch: Batch) -> float:
        """Correct the size of the noise by how far it moves actions, in units of their bounds.

        Args:
            batch: of the replay, to measure on.

        Returns:
            The distance.
        """
        self._perturb(self._measuring)
        own = np.array([self._distance(batch).numpy()], np.float32)
        distance = float(self._comm.average(own)[0])
        self.spec.adapt(distance)
        return distance

    def _perturb(self, copy: ActorCritic) -> None:
        # What critics remember is stored with what happens, so it must be theirs.
        judging = (one.critic_trunk.trainable_variables for one in (copy, self._policy))
        for same, variable in zip(*judging, strict=True):
            same.assign(variable.value)
        pairs = zip(copy.acting_variables, self._policy.acting_variables, strict=True)
        for moved, variable in pairs:
            value = variable.numpy()
            if "normalization" not in variable.path:
                value = value + self._rng.normal(0.0, self.spec.current_stddev, value.shape).astype(np.float32)
            moved.assign(value)
