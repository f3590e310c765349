"""An environment with parameters that samplers and lessons of a curriculum set, at the beginnings of its episodes.

A parameter reaches the environment in the first of these ways that it offers:

1. its method `set_parameters(values)`, called with all values as a dict before a reset;
2. an argument of its constructor of this name: the environment is made anew;
3. an attribute of this name with a number, which is set before a reset.

A parameter `options.NAME` is given to reset(options={NAME: value}) instead.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np

from tfbaselines.envs import layers_of
from tfbaselines.envs.parameters import EnvParameters, Sampler, Value, decoded, encoded
from tfbaselines.errors import UsageError, nearest

# Begins the name of a parameter that is an option of reset.
OPTIONS = "options."


class ParameterizedEnv(gymnasium.Wrapper):
    """Set an environment's parameters at a reset.

    Args:
        make: makes the environment with further arguments of its constructor, by name.
        makes: function or class whose arguments these are; None for the class of the environment.
        values: number or sampler of each parameter.
        interval: steps between two draws of the samplers; None draws at every reset.
        seed: seed of the draws.
    """

    def __init__(
        self,
        make: Callable[[dict[str, float]], gymnasium.Env],
        makes: Callable[..., Any] | None,
        values: Mapping[str, Value],
        interval: int | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(make({}))
        self._make = make
        self._values = dict(values)
        self._interval = interval
        self._rng = np.random.default_rng(seed)
        # Present numbers by name, and steps since the latest draw.
        self._numbers: dict[str, float] = {}
        self._steps = 0
        # The next reset draws anew, whatever the interval.
        self._due = True
        # Arguments of the constructor with which the present environment was made.
        self._made_with: dict[str, float] = {}
        ways = {name: _way(name, self.env.unwrapped, makes) for name in self._values}
        self._arguments = [name for name, way in ways.items() if way == "argument"]
        self._attributes = [name for name, way in ways.items() if way == "attribute"]
        self._options = [name for name, way in ways.items() if way == "option"]

    def assign(self, values: Mapping[str, Value]) -> None:
        """Take over other numbers or samplers of the same parameters, from the next reset on."""
        if values != self._values:
            self._values = dict(values)
            self._due = True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if self._due or self._interval is None or self._steps >= self._interval:
            self._draw()
        self._remake({name: self._numbers[name] for name in self._arguments})
        inner = self.env.unwrapped
        for name in self._attributes:
            inner.set_wrapper_attr(name, self._numbers[name])
        if hasattr(inner, "set_parameters"):
            inner.set_parameters(dict(self._numbers))
        own = {name.removeprefix(OPTIONS): self._numbers[name] for name in self._options}
        return self.env.reset(seed=seed, options=(options or {}) | own if own else options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self._steps += 1
        return self.env.step(action)

    def get_state(self) -> dict[str, Any]:
        """Return the present numbers, the generator and the steps since the latest draw."""
        return {
            "values": encoded(self._values),
            "numbers": self._numbers,
            "steps": self._steps,
            "due": self._due,
            "rng": self._rng.bit_generator.state,
            "made_with": self._made_with,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `get_state`; make the environment with the arguments that it had."""
        self._values = decoded(state["values"])
        self._numbers = dict(state["numbers"])
        self._steps = state["steps"]
        self._due = state["due"]
        self._rng.bit_generator.state = state["rng"]
        self._remake(dict(state["made_with"]))
        for name in self._attributes:
            if name in self._numbers:
                self.env.unwrapped.set_wrapper_attr(name, self._numbers[name])

    def _draw(self) -> None:
        drawn = self._values.items()
        self._numbers = {name: value.draw(self._rng) if isinstance(value, Sampler) else value for name, value in drawn}
        self._steps = 0
        self._due = False

    def _remake(self, arguments: dict[str, float]) -> None:
        """Make the environment anew unless it has these arguments; its random generators go on."""
        if arguments == self._made_with:
            return
        old, new = self.env, self._make(arguments)
        for name in ("observation_space", "action_space"):
            if getattr(old, name) != getattr(new, name):
                new.close()
                shown = ", ".join(f"{key}={value:g}" for key, value in arguments.items())
                raise UsageError(f"env_parameters: with {shown} the {name} is another one, {getattr(new, name)!s:.100}")
        if old.unwrapped._np_random is not None:
            new.unwrapped.np_random = old.unwrapped.np_random
        # Wrappers outside of this one keep the spaces that they were made with.
        self.observation_space, self.action_space = old.observation_space, old.action_space
        self.env = new
        self._made_with = arguments
        old.close()


def parameterized(
    make: Callable[[dict[str, float]], gymnasium.Env],
    makes: Callable[..., Any] | None,
    parameters: EnvParameters | None,
    seed: int | None,
) -> gymnasium.Env:
    """Make an environment with parameters in their first lessons, or without any; see ParameterizedEnv."""
    if parameters is None:
        return make({})
    values = parameters.values([0] * len(parameters.curricula))
    return ParameterizedEnv(make, makes, values, parameters.interval, seed)


def _way(name: str, inner: gymnasium.Env, makes: Callable[..., Any] | None) -> str:
    """Return how a parameter reaches an environment; UsageError with the nearest name if it does not."""
    if name.startswith(OPTIONS):
        return "option"
    if hasattr(inner, "set_parameters"):
        return "method"
    parameters = inspect.signature(makes or type(inner)).parameters.values()
    arguments = [one.name for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    if name in arguments:
        return "argument"
    present = vars(inner)
    numbers = [key for key, value in present.items() if _is_number(value) and not key.startswith("_")]
    if name in numbers:
        return "attribute"
    guess = nearest(name, [*arguments, *numbers])
    hint = f"did you mean '{guess}'?" if guess else f"it has {', '.join([*arguments, *numbers][:20]) or 'none'}"
    raise UsageError(f"env_parameters: {type(inner).__name__} has no parameter '{name:.80}': {hint}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def assign_parameters(env: gymnasium.Env, values: Mapping[str, Value]) -> None:
    """Give parameters to an environment inside of its wrappers, from its next reset on."""
    for layer in layers_of(env):
        if isinstance(layer, ParameterizedEnv):
            layer.assign(values)
            return
    raise UsageError("env_parameters: the environment was made without them")
