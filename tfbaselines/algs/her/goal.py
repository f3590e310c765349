"""HER's deterministic actor with its critic: networks of the observation and the desired goal."""

from collections import OrderedDict
from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.algs.her import Config
from tfbaselines.config.config import NetworkSpec
from tfbaselines.envs.wrappers import ACHIEVED, DESIRED, OBSERVATION, check_goals
from tfbaselines.errors import bad_argument
from tfbaselines.policy.actor import GraphActor, NumpyActor, acts_in_numpy
from tfbaselines.policy.actor_critic import ActorCritic
from tfbaselines.policy.base import Mirror, SamplingActor
from tfbaselines.policy.bounded import DeterministicHead
from tfbaselines.policy.encoding import DictNormalizer, encode, encode_numpy
from tfbaselines.policy.networks import NetworkFn, get_network_builder
from tfbaselines.policy.trunk import ENCODERS, Trunk
from tfbaselines.training.build import check_network

# Initial count of the statistics, as in the original.
FIRST_COUNT = 1.0


class GoalActorCritic(ActorCritic):
    """An actor with a critic for environments with goals.

    Observation and desired goal are clipped, each normalized by running statistics, and clipped again.

    Args:
        observation_space: a Dict with the keys of envs/wrappers.py; images in it pass through an encoder.
        action_space: a bounded Box.
        network_fn: builder of the hidden layers of actor and critic from the width of a row.
        clip_inputs: bound of numbers before normalization.
        clip_normalized: bound of normalized numbers.
        least_std: smallest standard deviation of the statistics.
        relative: replace the desired goal by its difference from the achieved goal.
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
        # The order of the inputs is the order of the original's networks.
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
        self._inputs = inputs
        self.clip_inputs = clip_inputs
        self.relative = relative
        self.normalizer = DictNormalizer(inputs, comm, epsilon=0.0, count=FIRST_COUNT, least_std=least_std)
        self.clip = clip_normalized

    def mirror(self) -> Mirror | None:
        return None if self.trunk.modules else Mirror([self.network, self.pi_layer])

    def make_actor(self) -> SamplingActor:
        """Make the fastest actor: in numpy, unless there are images or layers that numpy cannot repeat."""
        return GoalActor(self) if acts_in_numpy(self) else GraphActor(self)

    def preprocess(self, obs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        encoded = {name: encode(obs[name], part) for name, part in self._inputs.items()}
        if self.relative:
            encoded[DESIRED] -= encode(obs[ACHIEVED], self.observation_space[ACHIEVED])
        for name in filter(self._numeric, encoded):
            clipped = tf.clip_by_value(encoded[name], -self.clip_inputs, self.clip_inputs)
            encoded[name] = self._clipped(self.normalizer[name].apply(clipped))
        return encoded

    def inputs_numpy(self, obs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Compute in numpy the inputs [B, ...] before normalization; the running statistics take these in."""
        encoded = {name: encode_numpy(obs[name], part) for name, part in self._inputs.items()}
        if self.relative:
            encoded[DESIRED] = encoded[DESIRED] - encode_numpy(obs[ACHIEVED], self.observation_space[ACHIEVED])
        bound = self.clip_inputs
        return {name: np.clip(part, -bound, bound) if self._numeric(name) else part for name, part in encoded.items()}

    def rows_numpy(self, obs: dict[str, np.ndarray]) -> np.ndarray:
        """Compute in numpy the normalized inputs as rows [B, width]."""
        rows = []
        for name, part in self.inputs_numpy(obs).items():
            if self._numeric(name):
                statistics = self.normalizer[name]
                part = np.clip((part - statistics.mean) / statistics.std, -self.clip, self.clip)
            rows.append(part.reshape(len(part), -1))
        return np.concatenate(rows, axis=1)

    def _numeric(self, name: str) -> bool:
        """Return whether a part contains numbers: neither pixels nor choices."""
        return name in self.normalizer


class GoalActor(NumpyActor):
    """An actor in numpy for a GoalActorCritic."""

    def refresh(self) -> None:
        # The policy has the statistics itself.
        self._copies.refresh()

    def _encode(self, obs: dict[str, np.ndarray]) -> tuple[np.ndarray, None]:
        return self._policy.rows_numpy(obs), None


def make_policy(network: NetworkSpec, env: Any, config: Config, comm: Any = None) -> GoalActorCritic:
    """Make a deterministic actor with its critic."""
    check_goals(env)
    check_network(network, config)
    sizes = {
        "dense": {"hidden_sizes": [config.hidden] * config.layers},
        "mlp": {"num_layers": config.layers, "num_hidden": config.hidden, "activation": "relu"},
    }
    if network not in sizes and (config.layers, config.hidden) != (Config.layers, Config.hidden):
        raise bad_argument("network", network, "'dense' and 'mlp' have layers and hidden, others their own arguments")
    network_fn = get_network_builder(network)(**sizes.get(network, {}) | config.network_kwargs)
    if getattr(network_fn((1,)), "state_size", None):
        raise bad_argument("network", network, "her trains no recurrent policies, take a network without memory")
    return GoalActorCritic(
        env.observation_space,
        env.action_space,
        network_fn,
        clip_inputs=config.clip_obs,
        clip_normalized=config.norm_clip,
        least_std=config.norm_eps,
        relative=config.relative_goals,
        comm=comm,
    )
