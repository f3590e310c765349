"""Forms in which a function stands for a network: a builder, a function of a shape, or of a tensor as in baselines."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import keras

from tfbaselines.errors import bad_argument

NetworkFn = Callable[[tuple[int, ...]], keras.Model]

# What functions that build a network from its input's shape call that shape.
SHAPE_NAMES = ("input_shape", "shape")


def builder_of(function: Callable[..., Any]) -> Callable[..., NetworkFn]:
    """The builder that a function is, or of the network that it is."""

    if isinstance(function, keras.Layer):
        accepted = "a function that makes the layers: every network that is built from it has layers of its own"
        raise bad_argument("network", type(function).__name__, accepted)

    @functools.wraps(function)
    def builder(**kwargs: Any) -> NetworkFn:
        # What is given by name are a builder's arguments; the network's own comes later.
        is_network = set(_required(function)) - kwargs.keys()
        return network_function(function if is_network else function(**kwargs))

    return builder


def network_function(function: Callable[[Any], Any]) -> NetworkFn:
    """A network as a function of the input's shape that returns a Keras model.

    Args:
        function: that already, where its argument is called `input_shape` or `shape`; else baselines' form, a function
            of the observations' tensor that returns the latent.
    """
    required = _required(function) if callable(function) else []
    if len(required) != 1:
        accepted = "a function of one tensor, or a builder; recurrent networks have names, such as 'lstm'"
        raise bad_argument("network", getattr(function, "__name__", function), accepted)
    name = getattr(function, "__name__", function)
    if required[0] in SHAPE_NAMES:

        @functools.wraps(function)
        def checked(input_shape: tuple[int, ...]) -> keras.Model:
            made = function(input_shape)
            if not callable(made) or not hasattr(made, "output_shape"):
                raise bad_argument("network", name, f"it returns a Keras model, not {type(made).__name__}")
            return made

        return checked

    def network_fn(input_shape: tuple[int, ...]) -> keras.Model:
        inputs = keras.Input(input_shape)
        latent = function(inputs)
        if not isinstance(latent, keras.KerasTensor):
            raise bad_argument("network", name, f"it returns the latent as a tensor, not {type(latent).__name__}")
        return keras.Model(inputs, latent)

    return network_fn


def of_shape_or_tensor(network_fn: NetworkFn) -> Callable[[Any], Any]:
    """The same, which of a Keras tensor makes the latent, as baselines' networks do: for networks within networks."""

    @functools.wraps(network_fn)
    def applied(input_shape: Any) -> Any:
        if isinstance(input_shape, keras.KerasTensor):
            return network_fn(input_shape.shape[1:])(input_shape)
        return network_fn(input_shape)

    return applied


def _required(function: Callable[..., Any]) -> list[str]:
    """Names of the arguments that a function must be given."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return [one.name for one in parameters if one.default is one.empty and one.kind in kinds]
