"""Acting: from a policy to the actions of one step, with as little time as possible around the arithmetic.

A tf.function call costs some 200 us however small the network, so policies made of dense layers act through a numpy
copy of their weights (`NumpyActor`), and those of an LSTM (`MemoryActor`); those that numpy cannot repeat act through
one compiled function (`GraphActor`). Convolutions of one or two images take a quarter to a half of TensorFlow's time in
numpy, those of many images take longer: `ImageActor` chooses. All compute the same numbers, and randomness is an
argument.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from tfbaselines.compiling import compiled, prompt
from tfbaselines.envs.vec.observations import MASK as ACTION_MASK
from tfbaselines.envs.vec.observations import parts_of_obs
from tfbaselines.envs.vec.packed import unpacked
from tfbaselines.policy.base import ActingPolicy, SamplingActor, Step
from tfbaselines.policy.encoding import FORBIDDEN, encode_numpy, observation_spec
from tfbaselines.policy.layers import has_convolutions
from tfbaselines.policy.mirror import NumpyCopies, takes_rows
from tfbaselines.policy.precision import RoundedKernels
from tfbaselines.policy.recurrent import cell_of

# Images in a batch up to which numpy's convolutions are faster than TensorFlow's.
FEW_IMAGES = 2


def make_actor(policy: ActingPolicy) -> SamplingActor:
    """The fastest actor of a policy: that which `make_actor` of a policy without networks gives, if it has one."""
    own = getattr(policy, "make_actor", None)
    if own is not None:
        return own()
    if not repeatable(policy):
        mirror = policy.mirror()
        return MemoryActor(policy) if mirror is not None and mirror.remembers else GraphActor(policy)
    return ImageActor(policy) if has_convolutions(*policy.modules) else NumpyActor(policy)


def acts_in_numpy(policy: ActingPolicy) -> bool:
    """Whether numpy can repeat the policy's networks, and is the faster one for every batch."""
    return repeatable(policy) and not has_convolutions(*policy.modules)


def repeatable(policy: ActingPolicy) -> bool:
    """Whether numpy can repeat the policy's networks."""
    mirror = policy.mirror()
    return mirror is not None and mirror.repeatable


class ActsInNumpy:
    """What acting through numpy copies of weights has in common: what networks take, and what their outputs become.

    Args:
        policy: has a mirror.
        copies: copies the weights.
    """

    def __init__(self, policy: ActingPolicy, copies: NumpyCopies) -> None:
        self._policy, self._head, self._copies = policy, policy.head, copies
        mirror = policy.mirror()
        self._logstd = None
        if mirror.logstd is not None:
            # One row, or one for each member of a population.
            self._logstd = copies.of(mirror.logstd).reshape(-1, mirror.logstd.shape[-1])
        self._value_per_action = mirror.value_per_action
        self._takes_rows, self._seen = takes_rows(mirror.actor[0]), mirror.seen

    def refresh(self) -> None:
        """Copy the policy's weights; called after every update."""
        self._copies.refresh()
        normalizer = self._policy.normalizer
        if normalizer:
            self._mean, self._std = normalizer.mean, normalizer.std

    def _chosen(self, flat: np.ndarray, noise: np.ndarray | None) -> np.ndarray:
        """Actions [B, ...] from the head's parameters [B, P]."""
        return self._head.mode_numpy(flat) if noise is None else self._head.sample_numpy(flat, noise)

    def _encode(self, obs: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """What the chains take, and what an action mask adds to the head's parameters [B, P]."""
        space, forbidden = self._policy.observation_space, None
        if self._seen is not None:
            parts = dict(unpacked(obs, space))
            forbidden = np.float32(FORBIDDEN) * (1.0 - np.asarray(parts.pop(ACTION_MASK), np.float32))
            (obs,), space = parts.values(), self._seen
        x = encode_numpy(obs, space)
        if self._policy.normalizer:
            x = (x - self._mean) / self._std
        clip = self._policy.clip
        x = x if clip is None else np.clip(x, -clip, clip)
        return x.reshape(len(x), -1) if self._takes_rows else x, forbidden

    def _flat(self, pi: np.ndarray, forbidden: np.ndarray | None) -> np.ndarray:
        """The head's parameters [B, P] from the actor's outputs."""
        if forbidden is not None:
            return pi + forbidden
        if self._logstd is None:
            return pi
        flat = np.empty((len(pi), 2 * pi.shape[1]), np.float32)
        flat[:, : pi.shape[1]] = pi
        flat[:, pi.shape[1] :] = self._logstd
        return flat

    def _values(self, value: np.ndarray) -> np.ndarray:
        """Values from the value layer's outputs."""
        return value if self._value_per_action else value[:, 0]


class NumpyActor(ActsInNumpy):
    """Acts through numpy copies of the weights of a policy that has a mirror.

    Choosing an action needs only the actor's chain, so a rollout calls `act` at each step and `evaluate` once for
    all of its values and probabilities: one large matrix product instead of many tiny ones.

    Attributes:
        judges: whether numpy computes the values, too; otherwise the graph does.

    Args:
        policy: its mirror() is not None, and repeatable.
        copies: copies the weights; None for those that the policy has.
    """

    def __init__(self, policy: ActingPolicy, copies: NumpyCopies | None = None) -> None:
        super().__init__(policy, NumpyCopies() if copies is None else copies)
        mirror = policy.mirror()
        self._shared, self._actor_rest, self._value_rest = map(self._copies.function, mirror.split())
        self.judges = mirror.value is not None
        self._graph: GraphActor | None = None
        self.refresh()

    def refresh(self) -> None:
        """See ActsInNumpy."""
        super().refresh()
        if self._graph is not None:
            self._graph.refresh()

    def act(self, obs: np.ndarray, noise: np.ndarray | None) -> np.ndarray:
        """Actions [N, ...] for observations [N, ...]; noise from the head's draw_noise, or None for the mode."""
        return self._chosen(self._parameters(obs), noise)

    def evaluate(self, obs: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values [B] and negative log probabilities [B] of a whole block of observations and the actions taken."""
        x, forbidden = self._encode(obs)
        latent = self._shared(x)
        values = self._values(self._value_rest(latent)) if self.judges else self.value(obs)
        return values, self._head.neglogp_numpy(self._flat(self._actor_rest(latent), forbidden), actions)

    def value(self, obs: np.ndarray, states: Any = None, episode_start: Any = None) -> np.ndarray:
        """Values [B]; states and episode_start are ignored."""
        if not self.judges:
            self._graph = self._graph or GraphActor(self._policy)
            return self._graph.value(obs)
        return self._values(self._value_rest(self._shared(self._encode(obs)[0])))

    def choose(
        self, obs: np.ndarray, states: Any, episode_start: Any, noise: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Actions [N, ...] and no states; states and episode_start are ignored."""
        return self.act(obs, noise), None

    def step(self, obs: np.ndarray, states: Any, episode_start: Any, noise: np.ndarray | None) -> Step:
        """Actions, values and negative log probabilities of one step; states and episode_start are ignored."""
        x, forbidden = self._encode(obs)
        latent = self._shared(x)
        flat = self._flat(self._actor_rest(latent), forbidden)
        actions = self._chosen(flat, noise)
        values = self._values(self._value_rest(latent)) if self.judges else self.value(obs)
        return Step(actions, values, None, self._head.neglogp_numpy(flat, actions))

    def behave(
        self, obs: np.ndarray, states: Any, episode_start: Any, noise: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Actions [N, ...], the parameters [N, P] of the distributions they were drawn from, and no states."""
        flat = self._parameters(obs)
        return self._head.sample_numpy(flat, noise), flat, None

    def _parameters(self, obs: Any) -> np.ndarray:
        """The head's parameters [B, P] for observations."""
        x, forbidden = self._encode(obs)
        return self._flat(self._actor_rest(self._shared(x)), forbidden)


class MemoryActor(ActsInNumpy):
    """Acts through numpy copies of the weights of a policy whose networks are LSTMs.

    Args:
        policy: its mirror() remembers.
    """

    def __init__(self, policy: ActingPolicy) -> None:
        super().__init__(policy, NumpyCopies())
        mirror = policy.mirror()
        (network, *actor_rest), (value_network, *value_rest) = mirror.actor, mirror.value
        self._actor_rest, self._value_rest = self._copies.function(actor_rest), self._copies.function(value_rest)
        self._cell, self._value_cell = cell_of(network).step_in_numpy(self._copies.of), None
        if value_network is not network:
            self._value_cell = cell_of(value_network).step_in_numpy(self._copies.of)
        # Numbers in the state of the actor's network, which come first.
        self._width, self._takes_rows = network.state_size, True
        self.refresh()

    def step(self, obs: np.ndarray, states: np.ndarray, episode_start: np.ndarray, noise: np.ndarray | None) -> Step:
        """Actions, values, new states and negative log probabilities of one step; see Actor for the arguments."""
        flat, latent, states = self._remember(obs, states, episode_start)
        actions = self._chosen(flat, noise)
        return Step(actions, self._values(self._value_rest(latent)), states, self._head.neglogp_numpy(flat, actions))

    def choose(
        self, obs: np.ndarray, states: np.ndarray, episode_start: np.ndarray, noise: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Actions [N, ...] and new states alone."""
        flat, _, states = self._remember(obs, states, episode_start)
        return self._chosen(flat, noise), states

    def behave(
        self, obs: np.ndarray, states: np.ndarray, episode_start: np.ndarray, noise: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Actions [N, ...], the parameters [N, P] of the distributions they were drawn from, and new states."""
        flat, _, states = self._remember(obs, states, episode_start)
        return self._head.sample_numpy(flat, noise), flat, states

    def value(self, obs: np.ndarray, states: np.ndarray, episode_start: np.ndarray) -> np.ndarray:
        """Values [N]."""
        _, latent, _ = self._remember(obs, states, episode_start)
        return self._values(self._value_rest(latent))

    def _remember(
        self, obs: np.ndarray, states: np.ndarray, episode_start: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The head's parameters [N, P], what the value layer takes [N, n], and new states [N, S]."""
        x, forbidden = self._encode(obs)
        keep = 1.0 - np.asarray(episode_start, np.float32)[:, None]
        own = states[:, : self._width]
        latent, new = self._cell(x, keep, own)
        flat = self._flat(self._actor_rest(latent), forbidden)
        if self._value_cell is None:
            return flat, latent, new
        value_latent, value_new = self._value_cell(x, keep, states[:, self._width :])
        return flat, value_latent, np.concatenate([new, value_new], axis=1)


class GraphActor:
    """Acts through one compiled function with a fixed signature: for convolutional, recurrent and unusual networks.

    Args:
        policy: whose variables the compiled function reads.
    """

    def __init__(self, policy: ActingPolicy) -> None:
        head = self._head = policy.head
        self._recurrent = policy.recurrent
        kernels = self._kernels = RoundedKernels(policy.modules)
        signature = [
            observation_spec(policy.observation_space),
            tf.TensorSpec((None, *head.noise_shape), tf.float32),
        ]
        if self._recurrent:
            signature += [tf.TensorSpec((None,), tf.float32), tf.TensorSpec((None, policy.state_size), tf.float32)]

        def step(obs: tf.Tensor, noise: tf.Tensor, episode_start: Any = None, states: Any = None) -> tuple:
            with kernels.in_use():
                outputs = policy.forward(obs, episode_start, states)
            distribution = head.distribution(outputs.flat)
            actions = distribution.sample(noise)
            neglogps = distribution.neglogp(actions)
            results = (tf.cast(actions, head.action_dtype), outputs.value, neglogps, outputs.flat)
            return (*results, outputs.states) if self._recurrent else results

        def value(obs: tf.Tensor, episode_start: Any = None, states: Any = None) -> tf.Tensor:
            with kernels.in_use():
                return policy.forward(obs, episode_start, states).value

        self._step = kernels.up_to_date(prompt(compiled(step, signature=signature)))
        self._value = kernels.up_to_date(prompt(compiled(value, signature=[signature[0], *signature[2:]])))

    def refresh(self) -> None:
        """Take what is copied of the policy's variables; the compiled function reads all others."""
        self._kernels.refresh()

    def step(self, obs: Any, states: Any, episode_start: Any, noise: np.ndarray | None) -> Step:
        """Actions, values, new states and negative log probabilities of one step; see Actor for the arguments."""
        if noise is None:
            noise = np.full((_count(obs), *self._head.noise_shape), self._head.mode_noise, np.float32)
        actions, values, neglogps, _, *new_states = self._step(obs, noise, *self._memory(episode_start, states))
        states = new_states[0].numpy() if new_states else None
        return Step(actions.numpy(), values.numpy(), states, neglogps.numpy())

    def choose(
        self, obs: Any, states: Any, episode_start: Any, noise: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Actions [N, ...] and new states alone."""
        step = self.step(obs, states, episode_start, noise)
        return step.actions, step.states

    def behave(
        self, obs: Any, states: Any, episode_start: Any, noise: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Actions [N, ...], the parameters [N, P] of the distributions they were drawn from, and new states."""
        actions, _, _, flat, *new_states = self._step(obs, noise, *self._memory(episode_start, states))
        return actions.numpy(), flat.numpy(), new_states[0].numpy() if new_states else None

    def value(self, obs: Any, states: Any = None, episode_start: Any = None) -> np.ndarray:
        """Values [B]."""
        return self._value(obs, *self._memory(episode_start, states)).numpy()

    def _memory(self, episode_start: Any, states: Any) -> tuple:
        return (np.asarray(episode_start, np.float32), states) if self._recurrent else ()


class ImageActor(GraphActor):
    """Acts on a few images through numpy copies of the weights, on many through the compiled function.

    Args:
        policy: feed-forward, with convolutions that numpy can repeat.
    """

    def __init__(self, policy: ActingPolicy) -> None:
        super().__init__(policy)
        self._few, self._outdated = NumpyActor(policy), False

    def refresh(self) -> None:
        """Let the weights be copied before they are needed, by numpy or by TensorFlow."""
        super().refresh()
        self._outdated = True

    def step(self, obs: Any, states: Any, episode_start: Any, noise: np.ndarray | None) -> Step:
        """See GraphActor."""
        in_numpy = _count(obs) <= FEW_IMAGES and self._few.judges
        step = self._few_images().step if in_numpy else super().step
        return step(obs, states, episode_start, noise)

    def choose(
        self, obs: Any, states: Any, episode_start: Any, noise: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """See GraphActor."""
        choose = self._few_images().choose if _count(obs) <= FEW_IMAGES else super().choose
        return choose(obs, states, episode_start, noise)

    def behave(
        self, obs: Any, states: Any, episode_start: Any, noise: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """See GraphActor."""
        behave = self._few_images().behave if _count(obs) <= FEW_IMAGES else super().behave
        return behave(obs, states, episode_start, noise)

    def _few_images(self) -> NumpyActor:
        """The numpy copies, with the present weights."""
        if self._outdated:
            self._few.refresh()
            self._outdated = False
        return self._few


def _count(obs: Any) -> int:
    """Observations in a batch, which may be a dictionary of its parts."""
    return len(next(iter(parts_of_obs(obs).values())))
