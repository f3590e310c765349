"""Exploration around a deterministic actor: noise on its actions, noise in its parameters, or both."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tfbaselines.policy.noise import PerturbedActor, parse_noise


class Exploration:
    """Choose actions with noise.

    Attributes:
        perturbed: the actor with noise in its parameters, or None.

    Args:
        model: model of the actor.
        noise_type: description of the noise, as in policy/noise.py.
        num_envs: number of environments.
        make_copy: function that makes another policy of the same kind, for noise in its parameters.
        rng: numpy generator.
        comm: the ranks that train together.
    """

    def __init__(
        self,
        model: Any,
        noise_type: str | None,
        num_envs: int,
        make_copy: Callable[[], Any],
        rng: np.random.Generator,
        comm: Any = None,
    ) -> None:
        self._model = model
        self._noise = parse_noise(noise_type, (num_envs, model.policy.head.width), rng)
        self.perturbed: PerturbedActor | None = None
        if self._noise.parameters is not None:
            copies = (make_copy(), make_copy())
            self.perturbed = PerturbedActor(model.policy, copies, self._noise.parameters, rng, comm)

    def __call__(
        self, obs: Any, states: np.ndarray | None, episode_start: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return actions [N, ...] with noise, and new recurrent states."""
        actor = self._model.actor if self.perturbed is None else self.perturbed.present()
        actions, states = actor.choose(obs, states, episode_start, None)
        if self._noise.actions is None:
            return actions, states
        head = self._model.policy.head
        return head.noisy(actions, head.limit * self._noise.actions().astype(np.float32)), states

    def reset(self, which: Any = slice(None)) -> None:
        """Begin a new episode in some environments; all of them share the noise of parameters."""
        if self._noise.actions is not None:
            self._noise.actions.reset(which)
        if self.perturbed is not None:
            self.perturbed.reset()

    def adapt(self, draw: Callable[[], dict[str, Any]]) -> dict[str, float]:
        """Change the size of the parameter noise; return the distance by which it moved actions, as a statistic.

        Args:
            draw: function that draws a batch of the replay; not called without parameter noise.
        """
        return {} if self.perturbed is None else {"distance": self.perturbed.adapt(draw())}

    def ready(self) -> None:
        """Draw noise around the present parameters before the next action."""
        if self.perturbed is not None:
            self.perturbed.outdate()

    def observed(self) -> None:
        """Use the policy's present statistics of observations."""
        if self.perturbed is not None:
            self.perturbed.actor.refresh()

    def state(self) -> dict[str, Any]:
        """Return sizes and positions of the noise."""
        spec, actions = self._noise
        return {
            "param_noise_stddev": None if spec is None else spec.current_stddev,
            "action_noise": {} if actions is None else actions.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        spec, actions = self._noise
        if spec is not None and state["param_noise_stddev"] is not None:
            spec.current_stddev = float(state["param_noise_stddev"])
        if actions is not None and state["action_noise"]:
            actions.restore(state["action_noise"])
