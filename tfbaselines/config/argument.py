"""One argument of an algorithm, a network or the command: its types, bounds and meaning, and the check of a value."""

import math
import os
import re
import sys
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from tfbaselines.config.schedules import is_schedule, parse_schedule
from tfbaselines.errors import bad_argument, unknown
from tfbaselines.limits import LONGEST_LIST

# Types of arguments in words; 'object' stands for any other type.
KINDS = {
    "bool": "True or False",
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "list": "a list",
    "schedule": "a schedule",
    "function": "a function",
    "None": "None",
}


class Bounds(NamedTuple):
    """Bounds of a number; None leaves a side open."""

    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None

    def hold(self, value: float) -> bool:
        """Return True if a number is within the bounds; NaN never is."""
        if math.isnan(value):
            return False
        low = self.at_least is None or value >= self.at_least
        return low and (self.above is None or value > self.above) and (self.at_most is None or value <= self.at_most)

    def __str__(self) -> str:
        if self.at_least is not None and self.at_most is not None:
            return f"between {self.at_least} and {self.at_most}"
        names = {"at_least": "at least", "above": "above", "at_most": "at most"}
        parts = [f"{names[name]} {bound}" for name, bound in self._asdict().items() if bound is not None]
        return " and ".join(parts) or "a number"


class Argument(NamedTuple):
    """One argument, for the parser, --help and the documentation of `learn`.

    Attributes:
        name: name of the argument.
        kinds: names of the accepted types, from KINDS, or 'object'.
        default: default value.
        meaning: one line for --help and the documentation.
        bounds: bounds of a number, or of a schedule's value at the start.
        choices: accepted texts; empty for any text.
        coefficient: compiled updates use the value as a constant unless it follows a schedule.
        limit: largest number accepted, also in a list; see limits.py. --help does not show it.
    """

    name: str
    kinds: tuple[str, ...]
    default: Any
    meaning: str
    bounds: Bounds = Bounds()
    choices: tuple[str, ...] = ()
    coefficient: bool = False
    limit: float = math.inf

    @property
    def settable(self) -> bool:
        """True if text can express a value: not a function, an environment or a communicator."""
        return bool({"bool", "int", "float", "str", "list", "schedule"} & set(self.kinds))

    def checked(self, value: Any) -> Any:
        """Return the value in the argument's type; the UsageError for another value names what is accepted."""
        if getattr(value, "shape", None) == () and hasattr(value, "item"):
            # Convert a NumPy scalar.
            value = value.item()
        if isinstance(value, os.PathLike) and "str" in self.kinds:
            value = os.fspath(value)
        if value is None and "None" in self.kinds:
            return None
        if isinstance(value, bool) and "bool" in self.kinds:
            return value
        own_text = isinstance(value, str) and "str" in self.kinds and not is_schedule(value)
        if "schedule" in self.kinds and not own_text:
            return self._checked_schedule(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and {"int", "float"} & set(self.kinds):
            return self._checked_number(value)
        if isinstance(value, str) and "str" in self.kinds:
            if self.choices and value not in self.choices:
                raise unknown(self.name, value, self.choices)
            return value
        if isinstance(value, list | tuple) and "list" in self.kinds:
            self._check_list(value)
            return value
        if (callable(value) and "function" in self.kinds) or "object" in self.kinds:
            return value
        raise bad_argument(self.name, value, accepted(self.kinds))

    def _checked_number(self, value: float) -> int | float:
        if isinstance(value, int) and abs(value) > sys.float_info.max:
            raise bad_argument(self.name, "a number of many digits", f"at most {shown(self.limit)}")
        whole = "int" in self.kinds and math.isfinite(value) and value == int(value)
        if not whole and "float" not in self.kinds:
            raise bad_argument(self.name, value, accepted(self.kinds))
        if not self.bounds.hold(value):
            raise bad_argument(self.name, value, str(self.bounds))
        if value > self.limit:
            raise bad_argument(self.name, value, f"at most {shown(self.limit)}")
        return int(value) if "float" not in self.kinds else value

    def _check_list(self, values: Sequence[Any]) -> None:
        if len(values) > LONGEST_LIST:
            raise bad_argument(self.name, values, f"a list of at most {LONGEST_LIST}")
        for value in values:
            if isinstance(value, list | tuple):
                self._check_list(value)
            elif isinstance(value, int | float) and not value <= self.limit:
                raise bad_argument(self.name, values, f"numbers of at most {shown(self.limit)}")

    def _checked_schedule(self, value: Any) -> Any:
        start = parse_schedule(value, self.name)(1.0)
        try:
            finite = math.isfinite(start)
        except TypeError:
            finite = False
        if not finite:
            raise bad_argument(self.name, value, "a finite number")
        if not self.bounds.hold(start):
            raise bad_argument(self.name, value, str(self.bounds))
        return value

    def notes(self, by_env_type: Mapping[str, Any] | None = None, from_python: bool = True) -> str:
        """Describe types, bounds and defaults in one line, such as 'int, at least 1; default 128; atari: 256'.

        Args:
            by_env_type: defaults by type of environment.
            from_python: include functions among the types.
        """
        parts = [self._types(from_python)]
        if self.bounds != Bounds():
            parts[0] += f", {self.bounds}"
        if self.default is not None or not parts[0]:
            parts.append(f"default {shown(self.default)}")
        parts += [f"{kind}: {shown(value)}" for kind, value in (by_env_type or {}).items()]
        return "; ".join(part for part in parts if part)

    def _types(self, from_python: bool) -> str:
        hidden = {"object"} | (set() if from_python else {"function"}) | ({"bool"} if "True" in self.choices else set())
        kinds = [kind for kind in self.kinds if kind not in hidden]
        if kinds in ([], ["None"]):
            return ""
        *first, last = [
            f"one of {', '.join(self.choices)}" if kind == "str" and self.choices else kind for kind in kinds
        ]
        return f"{', '.join(first)} or {last}" if first else last


def accepted(kinds: Iterable[str]) -> str:
    """Describe the accepted types in words."""
    return " or ".join(KINDS[kind] for kind in kinds if kind in KINDS)


def shown(value: Any) -> str:
    """Format a value as a user would type it: 1e6 and 1e-5, not 1000000.0 and 1e-05."""
    return re.sub(r"e\+?(-?)0*", r"e\1", f"{value:g}") if isinstance(value, float) else str(value)


def kinds_of(annotation: Any) -> tuple[str, ...]:
    """Return the names of the types that an annotation such as ``int | None`` admits; see Argument."""
    union = typing.get_origin(annotation) in (typing.Union, type(int | str))
    members = typing.get_args(annotation) if union else (annotation,)
    return tuple(dict.fromkeys(_kind(member) for member in members))


def _kind(member: Any) -> str:
    if typing.get_origin(member) is Annotated:
        return member.__metadata__[0]
    if member in (bool, int, float, str):
        return member.__name__
    if member in (None, type(None)):
        return "None"
    origin = getattr(typing.get_origin(member) or member, "__name__", "")
    return {"list": "list", "tuple": "list", "Sequence": "list", "Callable": "function"}.get(origin, "object")
