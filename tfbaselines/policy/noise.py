"""Noise for exploration: on actions, or in an actor's parameters (Plappert et al. 2018, arXiv:1706.01905)."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfbaselines.compiling import compiled
from tfbaselines.errors import bad_argument
from tfbaselines.parallel import mpi
from tfbaselines.policy.actor import make_actor
from tfbaselines.policy.actor_critic import ActorCritic
from tfbaselines.policy.base import BasePolicy, SamplingActor

KINDS = "'adaptive-param_X', 'ou_X', 'normal_X' or 'none', several with commas between them, X a standard deviation"


class NormalActionNoise:
    """Independent Gaussian noise."""

    def __init__(self, mu: np.ndarray, sigma: np.ndarray, rng: Any = None) -> None:
        self._mu = np.asarray(mu, np.float64)
        self._sigma = sigma
        self._rng = rng if rng is not None else np.random.default_rng()

    def __call__(self) -> np.ndarray:
        """Draw noise."""
        return self._rng.normal(self._mu, self._sigma)

    def reset(self, which: Any = slice(None)) -> None:
        """Begin a new episode in all rows, or in the rows of an index."""

    def state(self) -> dict[str, Any]:
        """Return what the noise remembers."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Load what `state` returned, unless the shapes differ."""


class OrnsteinUhlenbeckActionNoise(NormalActionNoise):
    """Correlated noise: x <- x + theta (mu - x) dt + sigma sqrt(dt) N(0, 1).

    Args:
        theta: rate of return to the mean.
        x0: values at the start of an episode; None for 0.
    """

    def __init__(
        self,
        mu: np.ndarray,
        sigma: np.ndarray,
        theta: float = 0.15,
        dt: float = 1e-2,
        x0: np.ndarray | None = None,
        rng: Any = None,
    ) -> None:
        super().__init__(mu, sigma, rng)
        self._theta = theta
        self._dt = dt
        self._x0 = np.zeros_like(self._mu) if x0 is None else np.asarray(x0, np.float64)
        self._x = self._x0.copy()

    def __call__(self) -> np.ndarray:
        drift = self._theta * (self._mu - self._x) * self._dt
        self._x = self._x + drift + self._sigma * np.sqrt(self._dt) * self._rng.normal(size=self._mu.shape)
        return self._x

    def reset(self, which: Any = slice(None)) -> None:
        self._x = self._x.copy()
        self._x[which] = self._x0[which]

    def state(self) -> dict[str, Any]:
        return {"x": self._x}

    def restore(self, state: dict[str, Any]) -> None:
        if state["x"].shape == self._x.shape:
            self._x = np.array(state["x"])


class CorrelatedNoise:
    """Gaussian noise of a head whose draws are correlated from one step to the next; a part of the model that explores.

        noise[0] = N(0, 1),   noise[t] = c noise[t - 1] + sqrt(1 - c^2) N(0, 1)

    Every draw alone is standard normal, so that the distribution of single actions stays the policy's, while their sum
    over many steps grows: it reaches states that independent noise does not (Eberhard et al. 2023).

    Args:
        head: the policy's head.
        correlation: c; 0 for independent draws, also of heads whose noise is not Gaussian.
        rng: random generator.
    """

    def __init__(self, head: Any, correlation: float, rng: np.random.Generator) -> None:
        self._head = head
        self._correlation = correlation
        self._rng = rng
        self._last: np.ndarray | None = None

    def __call__(self, episode_start: np.ndarray) -> np.ndarray:
        """Draw noise [N, ...]; episode_start [N] is True where an episode begins."""
        drawn = self._head.draw_noise(self._rng, (len(episode_start),))
        if self._correlation:
            # A model may be loaded for another number of environments.
            if self._last is not None and self._last.shape == drawn.shape:
                kept, new = self._correlation, np.sqrt(1 - self._correlation**2, dtype=np.float32)
                drawn = np.where(episode_start[:, None], drawn, kept * self._last + new * drawn)
            self._last = drawn
        return drawn

    def state(self) -> dict[str, Any]:
        return {"exploration_noise": self._last}

    def restore(self, state: dict[str, Any]) -> None:
        # Models that were saved before this class have none.
        last = state.get("exploration_noise")
        self._last = None if last is None else np.array(last, np.float32)

    def ready(self) -> None: ...

    def observed(self) -> None: ...


class AdaptiveParamNoiseSpec:
    """The standard deviation of parameter noise, adapted until actions move by a desired distance.

    Args:
        desired_action_stddev: desired distance between actions with and without noise.
    """

    def __init__(
        self, initial_stddev: float = 0.1, desired_action_stddev: float = 0.1, adoption_coefficient: float = 1.01
    ) -> None:
        self.initial_stddev = initial_stddev
        self.desired_action_stddev = desired_action_stddev
        self.adoption_coefficient = adoption_coefficient
        self.current_stddev = initial_stddev

    def adapt(self, distance: float) -> None:
        """Change the standard deviation by a measured distance between actions."""
        if distance > self.desired_action_stddev:
            self.current_stddev /= self.adoption_coefficient
        else:
            self.current_stddev *= self.adoption_coefficient

    def get_stats(self) -> dict[str, float]:
        """Return statistics for the logs."""
        return {"param_noise_stddev": self.current_stddev}


class Noise(NamedTuple):
    """The noise that a noise_type describes."""

    parameters: AdaptiveParamNoiseSpec | None
    actions: NormalActionNoise | None


def parse_noise(noise_type: str | None, shape: tuple[int, ...], rng: np.random.Generator) -> Noise:
    """Make noise from its description.

    Args:
        noise_type: description such as 'adaptive-param_0.2', 'ou_0.1', 'normal_0.1', 'none', or several with commas.
    """
    parameters = actions = None
    for part in (noise_type or "none").split(","):
        if part.strip() == "none":
            continue
        kind, _, size = part.strip().rpartition("_")
        try:
            stddev = float(size)
        except ValueError:
            stddev = -1.0
        if kind not in ("adaptive-param", "normal", "ou") or not stddev >= 0:
            raise bad_argument("noise_type", noise_type, KINDS)
        zeros, sigma = np.zeros(shape), np.full(shape, stddev)
        if kind == "adaptive-param":
            parameters = AdaptiveParamNoiseSpec(stddev, stddev)
        elif kind == "normal":
            actions = NormalActionNoise(zeros, sigma, rng)
        else:
            actions = OrnsteinUhlenbeckActionNoise(zeros, sigma, rng=rng)
    return Noise(parameters, actions)


# Function of a policy, the policy with noise, obs, episode_start and states that returns how far noise moves behavior.
Distance = Callable[[Any, Any, Any, tf.Tensor | None, tf.Tensor | None], tf.Tensor]


def action_distance(
    policy: ActorCritic, perturbed: ActorCritic, obs: Any, episode_start: tf.Tensor | None, states: tf.Tensor | None
) -> tf.Tensor:
    """Compute the root mean square distance [] of deterministic actions, in units of their bounds."""
    view = policy.view(obs, episode_start, states)
    moved, plain = (actor.head.unit(actor.head.mode(actor.act(view))) for actor in (perturbed, policy))
    return tf.sqrt(tf.reduce_mean(tf.square(moved - plain)))


class PerturbedActor:
    """A copy of an actor with noise in the policy's `perturbed_variables`.

    Every rank draws its own noise, so `state` is saved for each rank.

    Args:
        copies: two policies with the same actor: one acts, the other measures distances.
        distance: measure of how far noise moves behavior.
    """

    def __init__(
        self,
        policy: BasePolicy,
        copies: tuple[BasePolicy, BasePolicy],
        spec: AdaptiveParamNoiseSpec,
        rng: np.random.Generator,
        comm: Any = None,
        distance: Distance = action_distance,
    ) -> None:
        self._policy = policy
        self._rng = rng
        self.spec = spec
        self._comm = mpi.wrap(comm)
        self.policy, self._measuring = copies
        for copy in copies:
            copy.normalizer = policy.normalizer
        self.actor = make_actor(self.policy)
        self._distance = compiled(partial(distance, policy, self._measuring))
        self.reset()

    def reset(self) -> None:
        """Draw new noise around the actor's current parameters."""
        self._perturb(self.policy)
        self.actor.refresh()
        self._outdated = False

    def outdate(self) -> None:
        """Draw new noise before the next action, unless parameters with noise are restored first."""
        self._outdated = True

    def present(self) -> SamplingActor:
        """Return the actor, with new noise if the parameters are outdated."""
        if self._outdated:
            self.reset()
        return self.actor

    def state(self) -> dict[str, Any]:
        return self.policy.state()

    def restore(self, state: dict[str, Any]) -> None:
        self.policy.restore(state)
        self.actor.refresh()
        self._outdated = False

    def adapt(self, batch: dict[str, Any]) -> float:
        """Draw noise, measure how far it moves behavior, and adapt the size of the noise.

        Args:
            batch: obs [B, ...]; for recurrent policies also episode_start [B] and states.

        Returns:
            The distance.
        """
        self._perturb(self._measuring)
        here = self._distance(batch["obs"], batch.get("episode_start"), batch.get("states"))
        distance = float(self._comm.average(np.array([here.numpy()], np.float32))[0])
        self.spec.adapt(distance)
        return distance

    def _perturb(self, copy: BasePolicy) -> None:
        noisy = {id(variable) for variable in self._policy.perturbed_variables}
        # The copies of an ActorCritic have critics too: they compute the recurrent states that the replay stores.
        for target, variable in zip(copy.trainable_variables, self._policy.trainable_variables, strict=False):
            value = variable.numpy()
            if id(variable) in noisy:
                value = value + self._rng.normal(0.0, self.spec.current_stddev, value.shape).astype(np.float32)
            target.assign(value)
