"""Arguments declared once: name, type, default, bounds and meaning are a field of a frozen dataclass.

Every algorithm's file has a ``Config`` built on the classes of settings/bases.py. From it come the signature and the
documentation of ``learn``, ``--help``, the errors for wrong values, and what config.json keeps.
"""

import dataclasses
import math
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from tfbaselines.errors import bad_argument, nearest, unknown
from tfbaselines.settings.schedules import FractionSchedule, parse_schedule

# A rate: a number, text such as linear_3e-4, or a function of the fraction of training left.
Schedule = Annotated[float | str | Callable[[float], float], "schedule"]
# A registered network's name, or a builder.
NetworkSpec = str | Callable[..., Any]

C = TypeVar("C", bound="Config")


class Bounds(NamedTuple):
    """What a number may be; None leaves a side open."""

    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None

    def hold(self, value: float) -> bool:
        """Whether a number is within; NaN never is."""
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


def arg(
    default: Any,
    meaning: str,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """A field of a Config.

    Args:
        default: its default; a mutable one is not accepted.
        meaning: one sentence for documentation and --help.
        at_least: smallest number accepted (of a schedule: of its value at the start).
        above: numbers must be larger than this.
        at_most: largest number accepted.
        choices: the accepted texts.
    """
    metadata = {"meaning": meaning, "bounds": Bounds(at_least, above, at_most), "choices": choices}
    return dataclasses.field(default=default, metadata=metadata)


class Argument(NamedTuple):
    """One argument as --help, the parser and the documentation see it.

    Attributes:
        name: its name.
        kinds: names of the types it takes: bool, int, float, str, list, None, function, schedule, object.
        default: its default.
        meaning: what it does.
        bounds: of numbers.
        choices: the accepted texts; empty for any.
    """

    name: str
    kinds: tuple[str, ...]
    default: Any
    meaning: str
    bounds: Bounds = Bounds()
    choices: tuple[str, ...] = ()

    @property
    def settable(self) -> bool:
        """Whether text can stand for it: not a function, an environment or a communicator."""
        return bool({"bool", "int", "float", "str", "list", "schedule"} & set(self.kinds))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The arguments of an algorithm. Values are checked, and whole numbers given as 1e6 become integers."""

    # Names in the order in which `learn` takes them by position, after network and env; the others follow.
    order: ClassVar[str] = ""
    # Defaults by type of environment, and 'all' for every type; 'network' among them.
    env_defaults: ClassVar[dict[str, dict[str, Any]]] = {}

    network_kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        for argument in self.arguments().values():
            value = _checked(argument, getattr(self, argument.name))
            object.__setattr__(self, argument.name, value)
        self.check()

    def check(self) -> None:
        """ValueError for arguments that do not go together."""

    @classmethod
    def of(cls: type[C], arguments: Mapping[str, Any]) -> C:
        """From learn's keyword arguments; those that are no fields are the network builder's own."""
        own = {name: value for name, value in arguments.items() if name in cls.arguments()}
        return cls(**own, network_kwargs={name: value for name, value in arguments.items() if name not in own})

    @classmethod
    def arguments(cls) -> dict[str, Argument]:
        """What `learn` takes by name, in its order."""
        if "_arguments" not in cls.__dict__:
            declared = {field.name: _argument(field) for field in dataclasses.fields(cls) if field.metadata}
            first = cls.order.split()
            cls._arguments = {name: declared[name] for name in (*first, *(n for n in declared if n not in first))}
        return cls._arguments

    @classmethod
    def defaults_for(cls, env_type: str) -> dict[str, Any]:
        """Defaults for one type of environment that differ from the fields'."""
        return cls.env_defaults.get("all", {}) | cls.env_defaults.get(env_type, {})

    def schedules(self) -> dict[str, FractionSchedule]:
        """Every rate as a function of the fraction of training left."""
        rates = (name for name, argument in self.arguments().items() if "schedule" in argument.kinds)
        return {name: parse_schedule(getattr(self, name), name) for name in rates}

    def check_network(self, network: str, accepted: Mapping[str, Any], open_ended: bool = False) -> None:
        """ValueError when an argument of the network is unknown, or has the name of one of the algorithm's.

        Args:
            network: its name, for the error.
            accepted: the network builder's arguments by name.
            open_ended: the builder takes any argument.
        """
        clash = sorted(set(accepted) & set(self.arguments()))
        if clash:
            raise ValueError(f"network '{network}' and the algorithm both have an argument '{clash[0]}': rename one")
        for name in self.network_kwargs:
            if name not in accepted and not open_ended:
                guess = nearest(name, [*self.arguments(), *accepted])
                hint = f"did you mean '{guess}'?" if guess else f"the network has {', '.join(accepted) or 'none'}"
                raise ValueError(f"unknown argument '{name}' (network '{network}'): {hint}")


def kinds_of(annotation: Any) -> tuple[str, ...]:
    """Names of the types that an annotation such as ``int | None`` admits; see Argument."""
    if typing.get_origin(annotation) is Annotated:
        return (annotation.__metadata__[0],)
    members = typing.get_args(annotation) if _is_union(annotation) else (annotation,)
    return tuple(dict.fromkeys(_kind(member) for member in members))


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (typing.Union, type(int | str))


def _kind(member: Any) -> str:
    if member in (bool, int, float, str):
        return member.__name__
    if member in (None, type(None)):
        return "None"
    origin = typing.get_origin(member) or member
    if origin in (list, tuple) or getattr(origin, "__name__", "") == "Sequence":
        return "list"
    return "function" if getattr(origin, "__name__", "") == "Callable" else "object"


def _argument(field: dataclasses.Field) -> Argument:
    of = field.metadata
    return Argument(field.name, kinds_of(field.type), field.default, of["meaning"], of["bounds"], of["choices"])


def _checked(argument: Argument, value: Any) -> Any:
    """The value in its field's type; ValueError naming the argument and what it accepts."""
    kinds = argument.kinds
    if "schedule" in kinds:
        start = parse_schedule(value, argument.name)(1.0)
        if not (math.isfinite(start) and argument.bounds.hold(start)):
            raise bad_argument(argument.name, value, f"{argument.bounds}, and finite")
        return value
    if value is None and "None" in kinds:
        return None
    if isinstance(value, bool | np.bool_) and "bool" in kinds:
        return bool(value)
    if isinstance(value, int | float | np.number) and not isinstance(value, bool):
        return _checked_number(argument, value)
    if isinstance(value, str) and "str" in kinds:
        if argument.choices and value not in argument.choices:
            raise unknown(argument.name, value, argument.choices)
        return value
    if isinstance(value, list | tuple) and "list" in kinds:
        return value
    if {"function", "object"} & set(kinds):
        return value
    raise bad_argument(argument.name, value, _accepted(argument))


def _checked_number(argument: Argument, value: float) -> int | float:
    whole = "int" in argument.kinds and math.isfinite(value) and value == int(value)
    if not whole and "float" not in argument.kinds and not {"function", "object"} & set(argument.kinds):
        raise bad_argument(argument.name, value, _accepted(argument))
    if not argument.bounds.hold(value):
        raise bad_argument(argument.name, value, str(argument.bounds))
    return int(value) if whole and "float" not in argument.kinds else value


def _accepted(argument: Argument) -> str:
    """What is accepted, in words."""
    words = {"bool": "True or False", "int": "a whole number", "float": "a number", "None": "None"}
    words |= {"list": "a list", "str": "text", "function": "a function"}
    return " or ".join(words[kind] for kind in argument.kinds if kind in words)
