"""Exploration with a Q-network: random actions, parameter noise, noisy layers."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfbaselines.algs.deepq.q_network import QNetwork
from tfbaselines.policy.actor import make_actor
from tfbaselines.policy.noise import AdaptiveParamNoiseSpec, PerturbedActor

# Initial standard deviation of parameter noise.
FIRST_STDDEV = 0.01


def make_exploration(make_network: Callable[[], QNetwork], run: Any, model: Any) -> "EpsilonGreedy | ParameterNoise":
    """Make the exploration that the arguments describe.

    Args:
        make_network: makes another Q-network of the same kind.
        run: the run.
        model: the model.
    """
    epsilon = run.config.epsilon
    if not run.config.param_noise:
        return EpsilonGreedy(model, epsilon, run.rng)
    return ParameterNoise(model.policy, make_network, epsilon, run.rng, run.comm)


def with_noise(block: dict[str, Any], noise_size: int, rng: np.random.Generator) -> dict[str, Any]:
    """Extend a block by noise for the noisy layers of the network and of the target network.

    Args:
        block: batches, arrays [K, B, ...].
        noise_size: numbers of noise in a batch; 0 returns the block itself.
        rng: numpy generator.
    """
    if not noise_size:
        return block
    shape = (len(block["rewards"]), noise_size)
    return block | {name: rng.standard_normal(shape, np.float32) for name in ("noise", "target_noise")}


class EpsilonGreedy:
    """Chooses the action of the largest value, or with probability epsilon any allowed action.

    Noisy layers draw new noise in every step.

    Attributes:
        steps: environment steps so far.

    Args:
        model: the model; its actor chooses the actions.
        epsilon: function of the step that returns the probability.
        rng: numpy generator.
    """

    def __init__(self, model: Any, epsilon: Callable[[int], float], rng: np.random.Generator) -> None:
        self._model = model
        self._epsilon = epsilon
        self._rng = rng
        self.steps = 0
        self._noisy = self._actor = None
        if model.policy.q_head.noise_size:
            self._noisy = model.policy.with_noise()
            self._actor = make_actor(self._noisy)

    def __call__(self, obs: Any, states: None, episode_start: np.ndarray) -> tuple[np.ndarray, None]:
        """Choose actions [N] for observations [N, ...]; return them and no states."""
        noise = self._model.policy.head.draw_noise(self._rng, (len(episode_start),), self._epsilon(self.steps))
        self.steps += len(episode_start)
        if self._noisy is None:
            return self._model.actor.choose(obs, None, None, noise)
        self._noisy.noise.assign(self._rng.standard_normal(self._noisy.noise.shape, np.float32))
        self._actor.refresh()
        return self._actor.choose(obs, None, None, noise)

    def state(self) -> dict[str, Any]:
        """Return the number of steps."""
        return {"steps": self.steps}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the result of `state`."""
        self.steps = state["steps"]


def policy_divergence(
    policy: QNetwork, perturbed: QNetwork, obs: Any, episode_start: tf.Tensor | None, states: tf.Tensor | None
) -> tf.Tensor:
    """Compute the mean KL divergence [] between softmax(Q) and softmax(Q with noise)."""
    log_p, log_q = (tf.nn.log_softmax(network.forward(obs).flat) for network in (policy, perturbed))
    return tf.reduce_mean(tf.reduce_sum(tf.exp(log_p) * (log_p - log_q), axis=-1))


class ParameterNoise:
    """Chooses greedy actions of a copy with noise in its parameters (arXiv:1706.01905, C.1).

    New noise is drawn whenever an episode begins; all environments act with the same noise.

    Every step adapts the size of the noise. The noise should move the policy, taken as the softmax of the values, as
    far as epsilon-greedy actions would: by a KL divergence of -log(1 - epsilon + epsilon / |A|).

    Args:
        policy: the Q-network.
        make_copy: makes another Q-network of the same kind.
        epsilon: function of the step that returns the probability of a random action.
        rng: numpy generator.
        comm: communicator of the ranks; they adapt the size together.
    """

    def __init__(
        self,
        policy: QNetwork,
        make_copy: Callable[[], QNetwork],
        epsilon: Callable[[int], float],
        rng: np.random.Generator,
        comm: Any = None,
    ) -> None:
        spec = AdaptiveParamNoiseSpec(FIRST_STDDEV)
        copies = (make_copy(), make_copy())
        self.perturbed = PerturbedActor(policy, copies, spec, rng, comm, policy_divergence)
        self._actions = int(policy.action_space.n)
        self._epsilon = epsilon
        self.steps = 0

    def __call__(self, obs: Any, states: None, episode_start: np.ndarray) -> tuple[np.ndarray, None]:
        """Choose actions [N] for observations [N, ...]; return them and no states."""
        if episode_start.any():
            self.perturbed.outdate()
        epsilon = self._epsilon(self.steps)
        self.steps += len(episode_start)
        actor = self.perturbed.present()
        self.perturbed.spec.desired_action_stddev = -math.log(1.0 - epsilon + epsilon / self._actions)
        self.perturbed.adapt({"obs": obs})
        return actor.choose(obs, None, None, None)

    def state(self) -> dict[str, Any]:
        """Return the number of steps, and the noise with its size."""
        stddev = self.perturbed.spec.current_stddev
        return {"steps": self.steps, "stddev": stddev, "perturbed": self.perturbed.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the result of `state`."""
        self.steps = state["steps"]
        self.perturbed.spec.current_stddev = float(state["stddev"])
        self.perturbed.restore(state["perturbed"])
