"""Exploration with a Q-network (random actions, parameter noise, noisy layers), and the best policy of a run."""

import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfbaselines.algs.deepq.q_network import QNetwork
from tfbaselines.logs import logger
from tfbaselines.policy.actor import make_actor
from tfbaselines.policy.noise import AdaptiveParamNoiseSpec, PerturbedActor
from tfbaselines.training.model import Part

# Initial standard deviation of parameter noise.
FIRST_STDDEV = 0.01


def make_exploration(make_network: Callable[[], QNetwork], run: Any, model: Any) -> "EpsilonGreedy | ParameterNoise":
    """Make the exploration that the arguments describe; `make_network` makes another Q-network of the same kind."""
    epsilon = run.config.epsilon
    if not run.config.param_noise:
        return EpsilonGreedy(model, epsilon, run.rng)
    return ParameterNoise(model.policy, make_network, epsilon, run.rng, run.comm)


def with_noise(block: dict[str, Any], noise_size: int, rng: np.random.Generator) -> dict[str, Any]:
    """Extend a block of batches by noise for the noisy layers, if any, of the network and of the target network."""
    if not noise_size:
        return block
    shape = (len(block["rewards"]), noise_size)
    return block | {name: rng.standard_normal(shape, np.float32) for name in ("noise", "target_noise")}


class EpsilonGreedy:
    """Chooses the action of the largest value, or with probability epsilon, a function of the step, any allowed one.

    Noisy layers draw new noise in every step. The attribute `steps` counts environment steps.
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
        return {"steps": self.steps}

    def restore(self, state: dict[str, Any]) -> None:
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

    Epsilon is a function of the step. Ranks adapt the size together.
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
        stddev = self.perturbed.spec.current_stddev
        return {"steps": self.steps, "stddev": stddev, "perturbed": self.perturbed.state()}

    def restore(self, state: dict[str, Any]) -> None:
        self.steps = state["steps"]
        self.perturbed.spec.current_stddev = float(state["stddev"])
        self.perturbed.restore(state["perturbed"])


def with_callback(explore: Any, run: Any, callback: Callable[[dict, dict], Any] | None) -> Any:
    """Call baselines' callback, if any, before each choice of actions; training stops when it returns True.

    It takes two dictionaries, of the local names that callbacks of baselines read and of no global ones.
    """
    if callback is None:
        return explore

    def act(obs: Any, states: None, episode_start: np.ndarray) -> tuple[np.ndarray, None]:
        episodes = run.episodes
        local_names = {
            "run": run,
            "act": run.model,
            "env": run.env,
            "replay_buffer": run.replay,
            "t": explore.steps,
            "num_episodes": episodes.count + 1,
            # The unfinished episode counts as 0.
            "episode_rewards": [*episodes.rewards, 0.0],
            "mean_100ep_reward": episodes.mean_reward,
        }
        if callback(local_names, {}):
            run.stop()
        return explore(obs, states, episode_start)

    return act


# Episodes of a run before their mean return can be the best.
EPISODES_IN_BEST = 100

# Name of the model's file in a directory of baselines' checkpoint_path.
MODEL = "model"


def model_in(directory: str | None) -> str | None:
    """Return the path of the model that an earlier run left in a directory, or None."""
    path = None if directory is None else os.path.join(os.path.expanduser(directory), MODEL)
    return path if path and os.path.isfile(path) else None


class BestPolicy(Part):
    """Keeps the parameters with the largest mean return of the latest episodes, in a directory too if there is one."""

    def __init__(self, run: Any, directory: str | None = None) -> None:
        self._run = run
        self._directory = directory
        self._mean: float | None = None
        self._policy: dict[str, Any] | None = None

    def consider(self) -> None:
        """Keep the present parameters if the mean return is the largest so far; rank 0's episodes decide."""
        run = self._run
        count, mean = run.episodes.count, run.episodes.mean_reward
        if run.comm.size > 1:
            count, mean = run.comm.broadcast_object((count, mean))
        if count < EPISODES_IN_BEST or (self._mean is not None and mean <= self._mean):
            return
        logger.info(f"saving the model: its mean reward was {self._mean}, and is now {mean:.4g}")
        self._mean = mean
        self._policy = run.model.policy.state()
        if self._directory is not None and run.is_root:
            directory = os.path.expanduser(self._directory)
            os.makedirs(directory, exist_ok=True)
            run.model.save(os.path.join(directory, MODEL))

    def take(self) -> None:
        """Restore the best parameters, if any were kept."""
        if self._policy is not None:
            logger.info(f"the model is the one with a mean reward of {self._mean:.4g}")
            self._run.model.policy.restore(self._policy)
            self._run.model.ready()

    def state(self) -> dict[str, Any]:
        return {"best": {"mean": self._mean, "policy": self._policy}}

    def restore(self, state: dict[str, Any]) -> None:
        """Load the result of `state` in a resumed run; a run that starts from a saved model begins without a best."""
        if not self._run.options.resume:
            return
        self._mean = state["best"]["mean"]
        self._policy = state["best"]["policy"]
