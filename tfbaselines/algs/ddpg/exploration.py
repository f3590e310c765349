"""Exploration around a deterministic actor: noise on its actions, noise in its parameters, or both."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tfbaselines.policy.noise import PerturbedActor, parse_noise


class Exploration:
    """Chooses actions with noise.

    Attributes:
        perturbed: the actor with noise in its parameters, or None.

    Args:
        model: whose actor it is; see training/model.py.
        noise_type: see policy/noise.py.
        num_envs: environments that act at once.
        make_copy: makes a further policy of the model's kind, for noise in its parameters.
        rng: numpy generator.
        comm: the ranks that explore alike.
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
        self._model, self._noise = model, parse_noise(noise_type, (num_envs, model.policy.head.width), rng)
        self.perturbed: PerturbedActor | None = None
        if self._noise.parameters is not None:
            copies = (make_copy(), make_copy())
            self.perturbed = PerturbedActor(model.policy, copies, self._noise.parameters, rng, comm)

    def __call__(
        self, obs: Any, states: np.ndarray | None, episode_start: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Actions [N, ...] with noise, and new states; arguments as an actor's choose."""
        actor = self._model.actor if self.perturbed is None else self.perturbed.present()
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
        """Act with noise around the parameters as they are now."""
        if self.perturbed is not None:
            self.perturbed.outdate()

    def observed(self) -> None:
        """Use the policy's present statistics of observations."""
        if self.perturbed is not None:
            self.perturbed.actor.refresh()

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
