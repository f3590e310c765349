"""A deterministic actor with a critic that see the observation and the goal that is desired, not the one achieved."""

from collections import OrderedDict
from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.envs.wrappers import ACHIEVED, DESIRED, OBSERVATION
from tfbaselines.policy.actor import GraphActor, NumpyActor, acts_in_numpy
from tfbaselines.policy.actor_critic import ActorCritic
from tfbaselines.policy.base import SamplingActor
from tfbaselines.policy.bounded import DeterministicHead
from tfbaselines.policy.encoding import encode, encode_numpy
from tfbaselines.policy.mirror import Mirror
from tfbaselines.policy.networks import NetworkFn, get_network_builder
from tfbaselines.policy.normalizer import DictNormalizer
from tfbaselines.policy.trunk import ENCODERS, Trunk

# Count that the statistics start from, as the original's do.
FIRST_COUNT = 1.0


class GoalActorCritic(ActorCritic):
    """Observation and desired goal are clipped, normalised by running statistics of their own, and clipped again.

    Args:
        observation_space: a Dict with the keys of envs/wrappers.py; images in it pass through an encoder.
        action_space: a bounded Box.
        network_fn: builds the hidden layers of the actor and of the critic from the width of a row.
        clip_inputs: bound of every number before it is normalised.
        clip_normalized: bound afterwards.
        least_std: smallest standard deviation of the statistics.
        relative: the networks see the desired goal minus the one achieved.
        comm: communicator over which the statistics are merged.
    """

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Space,
        network_fn: NetworkFn,
        *,
        clip_inputs: float = 200.0,
        clip_normalized: float = 5.0,
        least_std: float = 0.01,
        relative: bool = False,
        comm: Any = None,
    ) -> None:
        # Ordered, as the networks of the original take them.
        inputs = spaces.Dict(OrderedDict((name, observation_space[name]) for name in (OBSERVATION, DESIRED)))
        encoder = get_network_builder(ENCODERS["simple"])()
        super().__init__(
            observation_space,
            action_space,
            network_fn,
            head=DeterministicHead,
            critics=1,
            make_trunk=lambda _: Trunk(inputs, encoder),
            unit_actions=True,
            comm=comm,
        )
        self._inputs, self._clip_inputs, self._relative = inputs, clip_inputs, relative
        self.normalizer = DictNormalizer(inputs, comm, epsilon=0.0, count=FIRST_COUNT, least_std=least_std)
        self.clip = clip_normalized

    def mirror(self) -> Mirror | None:
        """See BasePolicy; the actor that it is for is `make_actor`'s."""
        return None if self.trunk.modules else Mirror([self.network, self.pi_layer])

    def make_actor(self) -> SamplingActor:
        """The fastest actor: numpy's, unless there are images or layers that numpy cannot repeat."""
        return GoalActor(self) if acts_in_numpy(self) else GraphActor(self)

    def preprocess(self, obs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """See BasePolicy; of a Dict [B, ...] the parts that the networks take."""
        encoded = {name: encode(obs[name], part) for name, part in self._inputs.items()}
        if self._relative:
            encoded[DESIRED] -= encode(obs[ACHIEVED], self.observation_space[ACHIEVED])
        for name in filter(self._numeric, encoded):
            clipped = tf.clip_by_value(encoded[name], -self._clip_inputs, self._clip_inputs)
            encoded[name] = self._clipped(self.normalizer[name].apply(clipped))
        return encoded

    def inputs_numpy(self, obs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What the statistics are of: `preprocess` without them, in numpy."""
        encoded = {name: encode_numpy(obs[name], part) for name, part in self._inputs.items()}
        if self._relative:
            encoded[DESIRED] = encoded[DESIRED] - encode_numpy(obs[ACHIEVED], self.observation_space[ACHIEVED])
        bound = self._clip_inputs
        return {name: np.clip(part, -bound, bound) if self._numeric(name) else part for name, part in encoded.items()}

    def rows_numpy(self, obs: dict[str, np.ndarray]) -> np.ndarray:
        """`preprocess` in numpy, the parts side by side: [B, width]."""
        rows = []
        for name, part in self.inputs_numpy(obs).items():
            if self._numeric(name):
                statistics = self.normalizer[name]
                part = np.clip((part - statistics.mean) / statistics.std, -self.clip, self.clip)
            rows.append(part.reshape(len(part), -1))
        return np.concatenate(rows, axis=1)

    def _numeric(self, name: str) -> bool:
        """Whether a part is numbers: neither pixels nor choices."""
        return name in self.normalizer


class GoalActor(NumpyActor):
    """NumpyActor of a GoalActorCritic."""

    def refresh(self) -> None:
        """See NumpyActor; the policy itself has the statistics."""
        self._copies.refresh()

    def _encode(self, obs: dict[str, np.ndarray]) -> tuple[np.ndarray, None]:
        return self._policy.rows_numpy(obs), None
