"""Values and calls as words of a command line: parsed, never evaluated."""

import ast
import re
import sys
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

from tfbaselines.errors import UsageError

OPENING, CLOSING, QUOTES = "([{", ")]}", "'\""
NAMED = re.compile(r"\s*([A-Za-z_]\w*)\s*=(?!=)(.*)", re.DOTALL)


def literal(text: str) -> Any:
    """Parse a number, text in quotes, list, tuple, dict, True, False or None; None for anything else."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    # Refuse nan, infinity, and whole numbers that no float can hold.
    finite = not isinstance(value, int | float) or abs(value) <= sys.float_info.max
    return value if finite else None


def value_of(text: str) -> Any:
    """Parse a literal, or true or false in any case; other words are the text itself."""
    truth = {"true": True, "false": False}.get(text.lower())
    value = literal(text) if truth is None else truth
    return text if value is None and text != "None" else value


class Call(NamedTuple):
    """A name with arguments: `module:Name(1, low=2)`."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def call_of(text: str) -> Call:
    """Parse a name, or a name with arguments in parentheses; UsageError for other text."""
    name, parenthesis, rest = text.strip().partition("(")
    if not parenthesis:
        return Call(name, (), {})
    if not rest.endswith(")"):
        raise UsageError("its arguments end with ')'")
    args, kwargs = [], {}
    for part in pieces(rest[:-1]):
        match = NAMED.fullmatch(part)
        if match is not None and match[1] in kwargs:
            raise UsageError(f"'{match[1]}' is given twice")
        if match is not None:
            kwargs[match[1]] = value_of(match[2].strip())
        elif kwargs:
            raise UsageError(f"'{part:.80}' has no name, behind arguments with names")
        else:
            args.append(value_of(part))
    return Call(name.strip(), tuple(args), kwargs)


def pieces(text: str) -> list[str]:
    """Split text at its commas, but not inside of brackets and quotes; empty pieces are left out."""
    found, piece = [], ""
    for character, outside in _with_depth(text):
        if character == "," and outside:
            found.append(piece)
            piece = ""
        else:
            piece += character
    return [part.strip() for part in [*found, piece] if part.strip()]


def _with_depth(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each character, and whether it is outside of brackets and quotes; UsageError if one of them stays open."""
    expected: list[str] = []
    quote, escaped = "", False
    for character in text:
        yield character, not expected and not quote
        if quote:
            quote = "" if character == quote and not escaped else quote
            escaped = character == "\\" and not escaped
        elif character in QUOTES:
            quote = character
        elif character in OPENING:
            expected.append(CLOSING[OPENING.index(character)])
        elif character in CLOSING and (not expected or expected.pop() != character):
            raise UsageError(f"'{character}' closes nothing")
    if quote or expected:
        raise UsageError(f"{quote or expected[-1]} is missing")
