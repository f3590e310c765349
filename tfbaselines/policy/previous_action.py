"""A recurrent policy with the previous action as a further input, as ML-Agents' recurrent policies have it.

The end of a state has the previous action: one-hot for each part of discrete actions, the numbers of continuous ones,
and zeros where an episode starts. In sequences each step takes the action of the step before it.
"""

from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.envs.vec.observations import ONLY, parts_of
from tfbaselines.errors import bad_argument
from tfbaselines.policy.base import Mirror, Outputs
from tfbaselines.policy.encoding import encode, encoded_shape, networks_part
from tfbaselines.policy.layers import run_with_memory
from tfbaselines.policy.policy import Policy

# Name of the networks' further input.
PREVIOUS = "previous_action"


class PreviousActionPolicy(Policy):
    """Policy and value function that remember the previous action; Policy explains the arguments."""

    def __init__(
        self, observation_space: spaces.Space, action_space: spaces.Space, *networks: Any, **kind: Any
    ) -> None:
        self.action_width = int(np.prod(encoded_shape(action_space)))
        super().__init__(observation_space, action_space, *networks, **kind)
        if not self.state_size:
            raise bad_argument("prev_action", True, "needs a network with memory, such as --network=lstm")
        self.state_size += self.action_width

    def network_space(self) -> spaces.Space:
        numbers = spaces.Box(-np.inf, np.inf, (self.action_width,), np.float32)
        return spaces.Dict({**parts_of(self._seen), PREVIOUS: numbers})

    def mirror(self) -> Mirror | None:
        return None

    def sequence_inputs(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"actions": batch["actions"]}

    def after_action(self, states: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        return tf.concat([states[:, : -self.action_width], self._encoded(actions)], axis=-1)

    def forward(
        self,
        obs: Any,
        episode_start: tf.Tensor | None = None,
        states: tf.Tensor | None = None,
        actions: tf.Tensor | None = None,
    ) -> Outputs:
        """Compute distribution parameters, values and new states; `actions` [B, ...] are of a sequence."""
        encoded = self.preprocess(obs)
        starts, states = tf.cast(episode_start, tf.float32), tf.cast(states, tf.float32)
        memory, previous = states[:, : -self.action_width], states[:, -self.action_width :]
        count = tf.shape(starts)[0]
        if actions is not None:
            taken = tf.reshape(self._encoded(actions), (tf.shape(states)[0], -1, self.action_width))
            before = tf.concat([previous[:, None], taken[:, :-1]], axis=1)
            previous, last = tf.reshape(before, (count, self.action_width)), taken[:, -1]
        else:
            last = previous
        x = networks_part(encoded, self._seen)
        x = (x if isinstance(x, dict) else {ONLY: x}) | {PREVIOUS: previous * (1.0 - starts[:, None])}
        latent, new_states = run_with_memory(self.network, x, starts, memory[:, : self._pi_states])
        vf_latent = latent
        if self.value_network is not None:
            vf_latent, vf_states = run_with_memory(self.value_network, x, starts, memory[:, self._pi_states :])
            new_states = tf.concat([new_states, vf_states], axis=-1)
        flat, value = self._heads(latent, vf_latent, encoded)
        return Outputs(flat, value, tf.concat([new_states, last], axis=-1), vf_latent)

    def _encoded(self, actions: tf.Tensor) -> tf.Tensor:
        return tf.reshape(tf.cast(encode(actions, self.action_space), tf.float32), (-1, self.action_width))
