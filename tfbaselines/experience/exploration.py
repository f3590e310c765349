"""Exploration around a deterministic actor: noise on its actions, noise in its parameters, or both."""

from typing import Any

import numpy as np

from tfbaselines.experience.noise import Noise
from tfbaselines.experience.perturbed import PerturbedActor


class Exploration:
    """Chooses actions with noise.

    Attributes:
        perturbed: the actor with noise in its parameters, or None.

    Args:
        model: whose actor it is; see running/model.py.
        noise: of parameters and of actions.
        perturbed: acts where there is noise of parameters; None otherwise.
    """

    def __init__(self, model: Any, noise: Noise, perturbed: PerturbedActor | None) -> None:
        self._model, self._noise, self.perturbed = model, noise, perturbed

    def __call__(
        self, obs: Any, states: np.ndarray | None, episode_start: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Actions [N, ...] with noise, and new states; arguments as an actor's choose."""
        actor = self._model.actor if self.perturbed is None else self.perturbed.actor
        actions, states = actor.choose(obs, states, episode_start, None)
        if self._noise.actions is None:
            return actions, states
        head = self._model.policy.head
        return head.noisy(actions, head.limit * self._noise.actions().astype(np.float32)), states

    def reset(self, which: Any = slice(None)) -> None:
        """Begin anew, for some environments; noise of parameters is one for all of them."""
        if self._noise.actions is not None:
            self._noise.actions.reset(which)
        if self.perturbed is not None:
            self.perturbed.reset()

    def ready(self) -> None:
        """Perturb the parameters as they are now."""
        if self.perturbed is not None:
            self.perturbed.reset()

    def state(self) -> dict[str, Any]:
        """Sizes and positions of the noise."""
        spec, actions = self._noise
        return {
            "param_noise_stddev": None if spec is None else spec.current_stddev,
            "action_noise": {} if actions is None else actions.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `state` gave."""
        spec, actions = self._noise
        if spec is not None and state["param_noise_stddev"] is not None:
            spec.current_stddev = float(state["param_noise_stddev"])
        if actions is not None and state["action_noise"]:
            actions.restore(state["action_noise"])
