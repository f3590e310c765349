"""Policies with memory that also see their previous action, as ML-Agents' recurrent policies do.

The end of a state has the previous action: one-hot for each part of discrete actions, the numbers of continuous ones,
and zeros where an episode starts. In sequences each step takes the action of the step before it.
"""

from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.envs.vec.observations import ONLY, parts_of
from tfbaselines.errors import bad_argument
from tfbaselines.policy.actor_critic import ActorCritic, View
from tfbaselines.policy.base import BasePolicy, Mirror, Outputs, memory_tensors
from tfbaselines.policy.encoding import encode, encode_numpy, encoded_shape, networks_part
from tfbaselines.policy.layers import run_with_memory
from tfbaselines.policy.policy import Policy

# Name of the networks' further input.
PREVIOUS = "previous_action"
NEEDS_MEMORY = "needs a network with memory: --network=lstm, or memory_size of sac and td3"


class SeesPreviousAction(BasePolicy):
    """Keep the previous action in the state; a subclass gives it to the networks of a policy with memory."""

    def __init__(
        self, observation_space: spaces.Space, action_space: spaces.Space, *networks: Any, **kind: Any
    ) -> None:
        self.action_width = int(np.prod(encoded_shape(action_space)))
        super().__init__(observation_space, action_space, *networks, **kind)
        if not self.state_size:
            raise bad_argument("prev_action", True, NEEDS_MEMORY)
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

    def after_other_action(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        encoded = encode_numpy(actions, self.action_space).reshape(len(states), self.action_width)
        return np.concatenate([states[:, : -self.action_width], encoded], axis=-1, dtype=np.float32)

    def _previous(self, starts: tf.Tensor, states: tf.Tensor, actions: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the previous action [B, w] of each row, zeros where an episode starts, and the last one [n, w].

        Args:
            starts: [B] 1 where the observation is the first of an episode.
            states: [n, S] before the first step of each sequence.
            actions: [B, ...] of sequences; None for single steps, where the last action is not known yet.
        """
        before = last = states[:, -self.action_width :]
        if actions is not None:
            taken = tf.reshape(self._encoded(actions), (tf.shape(states)[0], -1, self.action_width))
            before, last = tf.concat([before[:, None], taken[:, :-1]], axis=1), taken[:, -1]
        return tf.reshape(before, (-1, self.action_width)) * (1.0 - starts[:, None]), last

    def _encoded(self, actions: tf.Tensor) -> tf.Tensor:
        return tf.reshape(tf.cast(encode(actions, self.action_space), tf.float32), (-1, self.action_width))


class PreviousActionPolicy(SeesPreviousAction, Policy):
    """Policy and value function that see the previous action; Policy explains the arguments."""

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
        previous, last = self._previous(starts, states, actions)
        x = _joined(networks_part(encoded, self._seen), previous)
        latent, new_states = run_with_memory(self.network, x, starts, states[:, : self._pi_states])
        vf_latent = latent
        if self.value_network is not None:
            memory = states[:, self._pi_states : -self.action_width]
            vf_latent, vf_states = run_with_memory(self.value_network, x, starts, memory)
            new_states = tf.concat([new_states, vf_states], axis=-1)
        flat, value = self._heads(latent, vf_latent, encoded)
        return Outputs(flat, value, tf.concat([new_states, last], axis=-1), vf_latent)


class PreviousActionCritics(SeesPreviousAction, ActorCritic):
    """An actor and critics that see the previous action; ActorCritic explains the arguments."""

    def view(
        self,
        obs: Any,
        episode_start: tf.Tensor | None = None,
        states: tf.Tensor | None = None,
        actions: tf.Tensor | None = None,
    ) -> View:
        starts, states = memory_tensors(episode_start, states)
        previous, _ = self._previous(starts, states, actions)
        return View(_joined(self.preprocess(obs), previous), starts, states)

    def forward(
        self,
        obs: Any,
        episode_start: tf.Tensor | None = None,
        states: tf.Tensor | None = None,
        actions: tf.Tensor | None = None,
    ) -> Outputs:
        """Compute parameters, values and new states; `actions` [B, ...] are of a sequence."""
        outputs = super().forward(obs, episode_start, states, actions=actions)
        _, last = self._previous(*memory_tensors(episode_start, states), actions)
        return outputs._replace(states=tf.concat([outputs.states, last], axis=-1))


def _joined(encoded: Any, previous: tf.Tensor) -> dict[str, tf.Tensor]:
    return (encoded if isinstance(encoded, dict) else {ONLY: encoded}) | {PREVIOUS: previous}
