"""Wrappers that a user names in text: 'module:Wrapper', or 'module:Wrapper(NAME=VALUE, ...)'."""

import inspect
from collections.abc import Callable
from typing import Any

import gymnasium

from tfbaselines.errors import UsageError, bad_argument
from tfbaselines.loading import import_named
from tfbaselines.words import call_of, pieces

# A wrapper of an environment, or its name.
Wrapper = str | Callable[[gymnasium.Env], gymnasium.Env]


def wrapped(env: gymnasium.Env, wrapper: Wrapper | None) -> gymnasium.Env:
    """Wrap an environment as if it was registered so, the first wrapper innermost."""
    for one in [wrapper] if callable(wrapper) else _pieces(wrapper):
        made = one(env) if callable(one) else _called(one, env)
        if not isinstance(made, gymnasium.Env):
            raise bad_argument("wrapper", one, f"it returns a Gymnasium environment, not {type(made).__name__}")
        env = made
    return env


def _pieces(wrapper: str | None) -> list[str]:
    try:
        return pieces(wrapper or "")
    except UsageError as error:
        raise bad_argument("wrapper", wrapper, f"'module:Wrapper(NAME=VALUE, ...)' ({error})") from None


def _called(text: str, env: gymnasium.Env) -> Any:
    """Wrap an environment by 'module:Wrapper', with arguments in parentheses behind it or without."""
    try:
        name, args, kwargs = call_of(text)
        module, _, attribute = name.partition(":")
        wrapper = getattr(import_named(module), attribute)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise bad_argument("wrapper", text, f"'module:Wrapper', with a module that has it ({error!s:.200})") from None
    try:
        inspect.signature(wrapper).bind(env, *args, **kwargs)
    except TypeError as error:
        raise bad_argument(
            "wrapper", text, f"arguments of {attribute}, as (NAME=VALUE, ...) ({error!s:.200})"
        ) from None
    return wrapper(env, *args, **kwargs)
