"""Builders of networks from functions: a builder, a function of a shape, or a function of a tensor as in baselines."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import keras

from tfbaselines.errors import UsageError, bad_argument, nearest

NetworkFn = Callable[[tuple[int, ...]], keras.Model]
Builder = Callable[..., NetworkFn]

# The argument of functions that build a network from its input's shape has one of these names.
SHAPE_NAMES = ("input_shape", "shape")


def check_names(name: str, parameters: Iterable[inspect.Parameter], kwargs: dict[str, Any]) -> None:
    """Raise an error that names the nearest argument if a network lacks an argument."""
    parameters = list(parameters)
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    accepted = [parameter.name for parameter in parameters]
    for key in kwargs:
        if key not in accepted:
            guess = nearest(key, accepted)
            hint = f"did you mean '{guess}'?" if guess else f"it has {', '.join(accepted) or 'none'}"
            raise UsageError(f"unknown argument '{key}' of network '{name}': {hint}")


def builder_of(function: Callable[..., Any]) -> Builder:
    """Make a builder from a function that is a builder or a network."""
    if isinstance(function, keras.Layer):
        accepted = "a function that makes the layers: every network that is built from it has layers of its own"
        raise bad_argument("network", type(function).__name__, accepted)

    @functools.wraps(function)
    def builder(**kwargs: Any) -> NetworkFn:
        # Arguments given by name belong to a builder; a network still lacks its input.
        is_network = set(_required(function)) - kwargs.keys()
        return network_function(function if is_network else function(**kwargs))

    return builder


def network_function(function: Callable[[Any], Any]) -> NetworkFn:
    """Make a function of the input's shape from one, or from a function of a tensor, as in baselines."""
    required = _required(function) if callable(function) else []
    if len(required) != 1:
        accepted = "a function of one tensor, or a builder; recurrent networks have names, such as 'lstm'"
        raise bad_argument("network", getattr(function, "__name__", function), accepted)
    name = getattr(function, "__name__", function)
    if required[0] in SHAPE_NAMES:

        @functools.wraps(function)
        def checked(input_shape: tuple[int, ...]) -> keras.Model:
            made = function(input_shape)
            if not isinstance(made, keras.Layer):
                accepted = f"a function of the input's shape must return a Keras model, it returned {made!r:.100}"
                raise bad_argument("network", name, accepted)
            if hasattr(made, "output_shape"):
                return made
            # A subclass of keras.Model, or a single layer, has shapes once it is applied.
            inputs = keras.Input(input_shape)
            return keras.Model(inputs, made(inputs))

        return checked

    def network_fn(input_shape: tuple[int, ...]) -> keras.Model:
        inputs = keras.Input(input_shape)
        latent = function(inputs)
        if not isinstance(latent, keras.KerasTensor):
            raise bad_argument("network", name, f"it returns the latent as a tensor, not {type(latent).__name__}")
        return keras.Model(inputs, latent)

    return network_fn


def _required(function: Callable[..., Any]) -> list[str]:
    """List the arguments that have no default."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return [one.name for one in parameters if one.default is one.empty and one.kind in kinds]
