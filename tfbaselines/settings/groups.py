"""Arguments in groups: a dict of them, or that as JSON text, becomes an object of a class that declares them."""

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from tfbaselines.errors import bad_argument, nearest
from tfbaselines.settings.config import Declared

D = TypeVar("D", bound=Declared)


def mapping_of(name: str, given: Any, example: str) -> Any:
    """What is given, JSON text parsed; ValueError in one line when it is no dict with entries.

    Args:
        name: of the argument.
        given: its value.
        example: JSON that is accepted, for the error.
    """
    mapping = given
    if isinstance(given, str):
        try:
            mapping = json.loads(given)
        except (ValueError, RecursionError) as error:
            reason = " ".join(str(error).split())[:100]
            raise bad_argument(name, given, f"not JSON ({reason}): write {example}") from None
    if not isinstance(mapping, Mapping) or not mapping:
        raise bad_argument(name, given, f"a dict such as {example}")
    return mapping


def declared_of(kind: type[D], owner: str, arguments: Mapping[str, Any], prefix: str) -> D:
    """The declared arguments; ValueError in one line for one that is unknown or not valid.

    Args:
        kind: declares them.
        owner: what has them, for the error.
        arguments: by name.
        prefix: of the error's line.
    """
    known = kind.arguments()
    for key in arguments:
        if key not in known:
            guess = nearest(str(key), known)
            hint = f"did you mean '{guess}'?" if guess else f"it has {', '.join(known)}"
            raise ValueError(f"{prefix}{owner} has no argument '{key}': {hint}")
    try:
        return kind(**arguments)
    except ValueError as error:
        raise ValueError(f"{prefix}{owner}: {error}") from None
