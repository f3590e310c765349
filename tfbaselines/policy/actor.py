"""Acting: compute the actions of one step with little time around the arithmetic.

A tf.function call costs some 200 us however small the network. Policies of dense layers therefore act through numpy
copies of their weights (`NumpyActor`), and so do policies of an LSTM and dense layers (`MemoryActor`). All others act
through one compiled function (`GraphActor`). All compute the same numbers, and randomness is an argument.
"""

import abc
from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.compiling import compiled, prompt
from tfbaselines.envs.vec.observations import MASK as ACTION_MASK
from tfbaselines.envs.vec.observations import ONLY, is_image, parts_of, parts_of_obs
from tfbaselines.envs.vec.packed import opened, unpacked
from tfbaselines.policy.base import BasePolicy, SamplingActor, Step
from tfbaselines.policy.copies import NumpyCopies, remembers, repeatable, takes_rows
from tfbaselines.policy.encoding import FORBIDDEN, encode_numpy, numeric_parts, observation_spec
from tfbaselines.policy.layers import RoundedKernels
from tfbaselines.policy.recurrent import cell_of


def make_actor(policy: BasePolicy) -> SamplingActor:
    """Make the fastest actor of a policy; a policy without networks may define its own `make_actor`."""
    own = getattr(policy, "make_actor", None)
    if own is not None:
        return own()
    mirror = policy.mirror()
    if mirror is not None and repeatable(mirror):
        return NumpyActor(policy)
    return MemoryActor(policy) if mirror is not None and remembers(mirror) else GraphActor(policy)


def acts_in_numpy(policy: BasePolicy) -> bool:
    """Check whether numpy can compute the policy's networks."""
    mirror = policy.mirror()
    return mirror is not None and repeatable(mirror)


class ActsInNumpy(abc.ABC):
    """Base of actors with numpy copies of weights; see SamplingActor in policy/base.py.

    A subclass defines `_run`, and sets `_value_rest`, the function from its second result to values.
    """

    def __init__(self, policy: BasePolicy, copies: NumpyCopies) -> None:
        self._policy = policy
        self._head = policy.head
        self._copies = copies
        mirror = policy.mirror()
        self._logstd = None
        if mirror.logstd is not None:
            # One row, or one for each member of a population.
            self._logstd = copies.of(mirror.logstd).reshape(-1, mirror.logstd.shape[-1])
        self._value_per_action = mirror.value_per_action
        self._takes_rows = takes_rows(mirror.actor[0])
        space = policy.observation_space
        self._numbers = isinstance(space, spaces.Box | spaces.MultiBinary) and not is_image(space)
        self._parts = {} if mirror.seen is None else parts_of(mirror.seen)
        self._numeric = numeric_parts(opened(space)) if self._parts else {}

    def refresh(self) -> None:
        self._copies.refresh()
        if self._logstd is not None:
            self._action_std = np.exp(self._logstd)
        normalizer = self._policy.normalizer
        self._moments = normalizer.moments if normalizer else {}

    def step(self, obs: Any, states: Any, episode_start: Any, noise: np.ndarray | None) -> Step:
        flat, latent, states = self._run(obs, states, episode_start)
        actions = self._chosen(flat, noise)
        return Step(actions, self._value_of(latent, obs), states, self._head.neglogp_numpy(flat, actions))

    def choose(
        self, obs: Any, states: Any, episode_start: Any, noise: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        flat, _, states = self._run(obs, states, episode_start)
        return self._chosen(flat, noise), states

    def behave(
        self, obs: Any, states: Any, episode_start: Any, noise: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        flat, _, states = self._run(obs, states, episode_start)
        return self._head.sample_numpy(flat, noise), flat, states

    @abc.abstractmethod
    def _run(self, obs: Any, states: Any, episode_start: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Compute the head's parameters [N, P], the values' input [N, n], and new states [N, S]."""

    def _value_of(self, latent: np.ndarray, obs: Any) -> np.ndarray:
        value = self._value_rest(latent)
        return value if self._value_per_action else value[:, 0]

    def _chosen(self, flat: np.ndarray, noise: np.ndarray | None) -> np.ndarray:
        return self._head.mode_numpy(flat) if noise is None else self._head.sample_numpy(flat, noise)

    def _encode(self, obs: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """Encode observations, and compute the addition to the head's parameters [B, P] for forbidden actions."""
        space, forbidden = self._policy.observation_space, None
        if not self._parts:
            x = np.asarray(obs, np.float32) if self._numbers else encode_numpy(obs, space)
            x = self._scaled(x, ONLY)
            return x.reshape(len(x), -1) if self._takes_rows else x, forbidden
        obs = unpacked(obs, space)
        if self._policy.masked:
            forbidden = np.float32(FORBIDDEN) * (1.0 - np.asarray(obs[ACTION_MASK], np.float32))
        parts = []
        for name, part in self._parts.items():
            x = encode_numpy(obs[name], part)
            x = self._scaled(x, name) if name in self._numeric else x
            parts.append(x.reshape(len(x), -1) if self._takes_rows else x)
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1, dtype=np.float32), forbidden

    def _scaled(self, x: np.ndarray, name: str) -> np.ndarray:
        """Normalize and clip the encoded part [B, ...] of observations if the policy does so."""
        if self._moments:
            mean, std = self._moments[name]
            x = (x - mean) / std
        clip = self._policy.clip
        return x if clip is None else np.clip(x, -clip, clip)

    def _flat(self, pi: np.ndarray, forbidden: np.ndarray | None) -> np.ndarray:
        if forbidden is not None:
            return pi + forbidden
        if self._logstd is None:
            return pi
        flat = np.empty((len(pi), 2 * pi.shape[1]), np.float32)
        flat[:, : pi.shape[1]] = pi
        flat[:, pi.shape[1] :] = self._logstd
        return flat


class NumpyActor(ActsInNumpy):
    """Acts through numpy copies of the weights of a policy that has a mirror.

    Choosing an action needs only the actor's chain, so a rollout calls `act` at each step and `evaluate` once for
    all of its values and probabilities: one large matrix product instead of many tiny ones.

    Args:
        copies: numpy copies of other weights; None for the policy's own weights.
    """

    def __init__(self, policy: BasePolicy, copies: NumpyCopies | None = None) -> None:
        super().__init__(policy, NumpyCopies() if copies is None else copies)
        mirror = policy.mirror()
        self._shared, self._actor_rest, self._value_rest = map(self._copies.function, mirror.split())
        self._has_values = mirror.value is not None
        self._graph: GraphActor | None = None
        self.refresh()

    def refresh(self) -> None:
        super().refresh()
        if self._graph is not None:
            self._graph.refresh()

    def act(self, obs: np.ndarray, noise: np.ndarray | None) -> np.ndarray:
        if noise is None or self._logstd is None:
            return self._chosen(self._run(obs)[0], noise)
        mean = self._actor_rest(self._shared(self._encode(obs)[0]))
        return self._head.draw_numpy(mean, self._action_std, noise)

    def evaluate(self, obs: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        flat, latent, _ = self._run(obs)
        return self._value_of(latent, obs), self._head.neglogp_numpy(flat, actions)

    def value(self, obs: np.ndarray, states: Any = None, episode_start: Any = None) -> np.ndarray:
        return self._value_of(self._shared(self._encode(obs)[0]) if self._has_values else None, obs)

    def _run(self, obs: Any, states: Any = None, episode_start: Any = None) -> tuple[np.ndarray, np.ndarray, None]:
        x, forbidden = self._encode(obs)
        latent = self._shared(x)
        return self._flat(self._actor_rest(latent), forbidden), latent, None

    def _value_of(self, latent: np.ndarray | None, obs: Any) -> np.ndarray:
        if self._has_values:
            return super()._value_of(latent, obs)
        self._graph = self._graph or GraphActor(self._policy)
        return self._graph.value(obs)


class MemoryActor(ActsInNumpy):
    """Acts through numpy copies of the weights of a policy with LSTMs."""

    def __init__(self, policy: BasePolicy) -> None:
        super().__init__(policy, NumpyCopies())
        mirror = policy.mirror()
        (network, *actor_rest), (value_network, *value_rest) = mirror.actor, mirror.value
        self._actor_rest = self._copies.function(actor_rest)
        self._value_rest = self._copies.function(value_rest)
        self._cell = cell_of(network).step_in_numpy(self._copies.of)
        self._value_cell = None
        if value_network is not network:
            self._value_cell = cell_of(value_network).step_in_numpy(self._copies.of)
        # Numbers in the state of the actor's network, which come first.
        self._width = network.state_size
        self._takes_rows = True
        self.refresh()

    def value(self, obs: np.ndarray, states: np.ndarray, episode_start: np.ndarray) -> np.ndarray:
        return self._value_of(self._run(obs, states, episode_start)[1], obs)

    def _run(
        self, obs: np.ndarray, states: np.ndarray, episode_start: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        x, forbidden = self._encode(obs)
        keep = 1.0 - np.asarray(episode_start, np.float32)[:, None]
        latent, new = self._cell(x, keep, states[:, : self._width])
        flat = self._flat(self._actor_rest(latent), forbidden)
        if self._value_cell is None:
            return flat, latent, new
        value_latent, value_new = self._value_cell(x, keep, states[:, self._width :])
        return flat, value_latent, np.concatenate([new, value_new], axis=1)


class GraphActor:
    """Acts through one compiled function with a fixed signature: for convolutional, recurrent and unusual networks."""

    def __init__(self, policy: BasePolicy) -> None:
        head = self._head = policy.head
        self._recurrent = policy.recurrent
        kernels = self._kernels = RoundedKernels(policy.modules)
        obs_spec = observation_spec(policy.observation_space)
        noise_spec = tf.TensorSpec((None, *head.noise_shape))
        memory_specs = [tf.TensorSpec((None,)), tf.TensorSpec((None, policy.state_size))] if self._recurrent else []

        def step(obs: tf.Tensor, noise: tf.Tensor, episode_start: Any = None, states: Any = None) -> tuple:
            with kernels.in_use():
                outputs = policy.forward(obs, episode_start, states)
            distribution = head.distribution(outputs.flat)
            actions = distribution.sample(noise)
            neglogps = distribution.neglogp(actions)
            results = (tf.cast(actions, head.action_dtype), outputs.value, neglogps, outputs.flat)
            return (*results, policy.after_action(outputs.states, actions)) if self._recurrent else results

        def value(obs: tf.Tensor, episode_start: Any = None, states: Any = None) -> tf.Tensor:
            with kernels.in_use():
                return policy.forward(obs, episode_start, states).value

        self._step = kernels.up_to_date(prompt(compiled(step, signature=[obs_spec, noise_spec, *memory_specs])))
        self._value = kernels.up_to_date(prompt(compiled(value, signature=[obs_spec, *memory_specs])))

    def refresh(self) -> None:
        # The compiled function itself reads all variables that are not rounded.
        self._kernels.refresh()

    def step(self, obs: Any, states: Any, episode_start: Any, noise: np.ndarray | None) -> Step:
        if noise is None:
            count = len(next(iter(parts_of_obs(obs).values())))
            noise = np.full((count, *self._head.noise_shape), self._head.mode_noise, np.float32)
        actions, values, neglogps, _, *new_states = self._step(obs, noise, *self._memory(episode_start, states))
        states = new_states[0].numpy() if new_states else None
        return Step(actions.numpy(), values.numpy(), states, neglogps.numpy())

    def choose(
        self, obs: Any, states: Any, episode_start: Any, noise: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        step = self.step(obs, states, episode_start, noise)
        return step.actions, step.states

    def behave(
        self, obs: Any, states: Any, episode_start: Any, noise: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        actions, _, _, flat, *new_states = self._step(obs, noise, *self._memory(episode_start, states))
        return actions.numpy(), flat.numpy(), new_states[0].numpy() if new_states else None

    def value(self, obs: Any, states: Any = None, episode_start: Any = None) -> np.ndarray:
        return self._value(obs, *self._memory(episode_start, states)).numpy()

    def _memory(self, episode_start: Any, states: Any) -> tuple:
        return (np.asarray(episode_start, np.float32), states) if self._recurrent else ()
