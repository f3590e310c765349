"""Declaration of arguments: a field of a dataclass has the name, type, default, bounds and meaning of one.

Every algorithm has a ``Config``, built on the classes of config/bases.py. The signature and the documentation of
``learn`` (config/algorithm.py), ``--help``, the errors for wrong values and config.json follow from it.

A group of arguments is a dict, or the same as JSON text; a class of its own declares them.
"""

import copy
import dataclasses
import functools
import inspect
import math
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, TypeVar

from tfbaselines.config.argument import Argument, Bounds, kinds_of
from tfbaselines.config.options import RunOptions
from tfbaselines.config.schedules import FractionSchedule, is_schedule, parse_schedule
from tfbaselines.config.stable_baselines3 import name_here
from tfbaselines.errors import UsageError, bad_argument, nearest
from tfbaselines.limits import SEED, TIMESTEPS, WHOLE

# A number, text such as linear_3e-4, or a function of the fraction of training left.
Schedule = Annotated[float | str | Callable[[float], float], "schedule"]
# The same for a number that compiled updates use as a constant unless it changes.
Coefficient = Annotated[float | str | Callable[[float], float], "schedule", "coefficient"]
# The name of a registered network, or a builder.
NetworkSpec = str | Callable[..., Any]
# Arguments of the command line and of `make_vec_env` that `learn` does not have.
OF_ENVIRONMENTS = (
    *("num_env", "env_type", "env_kwargs", "reward_scale", "worker", "env_threads", "step_timeout", "restart_workers"),
    *("wrapper", "in_series"),
)

DEFAULT_TIMESTEPS = 1e6

C = TypeVar("C", bound="Config")


def arg(
    default: Any,
    meaning: str,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    choices: tuple[str, ...] = (),
    limit: float | None = None,
    after: str | None = None,
) -> Any:
    """Declare a field of a Config.

    Args:
        default: default value, which must be immutable.
        meaning: one sentence for documentation and --help.
        at_least: smallest number accepted; for a schedule, smallest value at the start.
        above: exclusive lower bound.
        at_most: largest number accepted.
        choices: accepted texts.
        limit: largest number accepted for practical reasons; --help does not show it (limits.py).
        after: position: the name of the argument before this one, '' for none; see Declared.
    """
    declared = {"meaning": meaning, "bounds": Bounds(at_least, above, at_most), "choices": choices, "limit": limit}
    return dataclasses.field(default=default, metadata={"declared": declared, "after": after})


@dataclasses.dataclass(kw_only=True)
class Declared:
    """Arguments declared as fields. Values are checked, and whole numbers given as 1e6 become integers.

    A subclass declares its own arguments, and new defaults of inherited ones without `arg`: ``nsteps: int = 5``.

    The base classes' positions come first. A new argument stands behind the one declared before it in its
    class, the first one at the end; ``arg(..., after=name)`` places it elsewhere.
    """

    # Inherited arguments that change their positions: names, separated by spaces, by the argument before them.
    moved: ClassVar[Mapping[str, str]] = {}

    def __post_init__(self) -> None:
        for argument in self.arguments().values():
            setattr(self, argument.name, argument.checked(getattr(self, argument.name)))
        self.check()

    def check(self) -> None:
        """Raise a UsageError for arguments that contradict each other."""

    @classmethod
    def arguments(cls) -> dict[str, Argument]:
        """Return the declared arguments by name, in the order of positions."""
        return _arguments(cls)


@functools.cache
def _arguments(cls: type[Declared]) -> dict[str, Argument]:
    declared: dict[str, Mapping[str, Any]] = {}
    order: list[str] = []
    for base in reversed(cls.__mro__):
        before = None
        for name in inspect.get_annotations(base):
            metadata = base.__dict__["__dataclass_fields__"][name].metadata
            if metadata:
                declared[name] = metadata["declared"]
            if name not in declared:
                continue
            if name not in order:
                after = metadata["after"]
                _place(order, name, before if after is None else after)
            before = name
        for before, names in base.__dict__.get("moved", {}).items():
            for name in names.split():
                _place(order, name, before)
                before = name
    fields = cls.__dataclass_fields__
    return {name: _argument(fields[name], declared[name]) for name in order}


def _place(order: list[str], name: str, before: str | None) -> None:
    """Put a name behind another one in the order: '' is the start, None the end."""
    if name in order:
        order.remove(name)
    if before is None:
        order.append(name)
    else:
        order.insert(order.index(before) + 1 if before else 0, name)


@dataclasses.dataclass(kw_only=True)
class Config(Declared):
    """Arguments of every algorithm, and the network's own arguments."""

    # Defaults by type of environment, and 'all' for every type; 'network' may be one.
    env_defaults: ClassVar[dict[str, dict[str, Any]]] = {}
    # Arguments that some networks have too: the algorithm takes them, and the network keeps its default.
    own_names: ClassVar[tuple[str, ...]] = ()
    # Arguments of the algorithm set the sizes of networks, in place of the networks' own defaults.
    sizes_networks: ClassVar[bool] = False
    # Arguments that set the environment steps of an update.
    update_arguments: ClassVar[tuple[str, ...]] = ()
    # Arguments that set the length of training in place of total_timesteps.
    length_arguments: ClassVar[tuple[str, ...]] = ()
    # Hints for arguments of the original that have another form here, for the error.
    instead: ClassVar[Mapping[str, str]] = {}

    total_timesteps: float = arg(
        DEFAULT_TIMESTEPS, "environment steps of this rank, in whole updates", at_least=0, limit=TIMESTEPS
    )
    seed: int | None = arg(
        None, "seed of everything random; None for a different run each time", at_least=0, limit=SEED
    )
    load_path: str | None = arg(None, "saved model to start from")
    comm: Any = arg(None, "MPI communicator of the ranks that train together; None for all of mpirun's")
    run: RunOptions | None = arg(None, "options of the run: resume, checkpoints, callback, progress, precision")
    network_kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def options(self) -> RunOptions:
        """The run's options."""
        if self.run is not None and not isinstance(self.run, RunOptions):
            raise bad_argument("run", self.run, "a RunOptions, of tfbaselines.config.options")
        return self.run or RunOptions()

    @classmethod
    def of(cls: type[C], arguments: Mapping[str, Any]) -> C:
        """Make a Config of learn's keyword arguments; the network builder gets the unknown ones."""
        own = {name: value for name, value in arguments.items() if name in cls.arguments()}
        return cls(**own, network_kwargs={name: value for name, value in arguments.items() if name not in own})

    @classmethod
    def defaults_for(cls, env_type: str) -> dict[str, Any]:
        """Return the defaults for a type of environment that differ from the fields' defaults."""
        return cls.env_defaults.get("all", {}) | cls.env_defaults.get(env_type, {})

    @classmethod
    def schedulable(cls) -> dict[str, Argument]:
        """Return the arguments that may change in a run, by name."""
        return {name: argument for name, argument in cls.arguments().items() if "schedule" in argument.kinds}

    def schedules(self) -> dict[str, FractionSchedule]:
        """Return the schedules by name: of every rate, and of coefficients that change.

        `lrschedule` is the shape of a plain `lr`.
        """
        shapes = {"lr": getattr(self, "lrschedule", "constant")}
        return {
            name: parse_schedule(getattr(self, name), name, shapes.get(name, "constant"))
            for name, argument in self.schedulable().items()
            if _is_given_to_updates(argument, getattr(self, name))
        }

    def at(self: C, values: Mapping[str, Any]) -> C:
        """Return a copy with the present values of arguments that change.

        Args:
            values: numbers, or tensors in compiled code, by name; other names are ignored.
        """
        present = copy.copy(self)
        for name in self.schedulable().keys() & values.keys():
            setattr(present, name, values[name])
        return present

    def check_network(self, network: str, accepted: Mapping[str, Any], open_ended: bool = False) -> None:
        """Raise a UsageError when an argument of the network is unknown, or the algorithm has one of the same name.

        Args:
            network: name of the network, for the error.
            accepted: arguments of the network builder by name.
            open_ended: the builder takes any argument.
        """
        clash = sorted(set(accepted) & {"network", "env", *self.arguments()} - set(self.own_names))
        if clash:
            raise UsageError(f"network '{network}' and the algorithm both have an argument '{clash[0]}': rename one")
        for name in self.network_kwargs:
            if name not in accepted and not open_ended:
                hint = self.instead.get(name) or _place_of(name) or name_here(name, self.arguments(), "{}=")
                hint = hint or self._nearest(name, accepted)
                raise UsageError(f"unknown argument '{name}' (network '{network}'): {hint}")

    def _nearest(self, name: str, accepted: Mapping[str, Any]) -> str:
        guess = nearest(name, [*self.arguments(), *accepted])
        return f"did you mean '{guess}'?" if guess else f"the network has {', '.join(accepted) or 'none'}"


def _place_of(name: str) -> str | None:
    """Return a hint for arguments of the command line that `learn` takes in another place."""
    if name in {field.name for field in dataclasses.fields(RunOptions)}:
        return f"give run=RunOptions({name}=...), of tfbaselines.config.options"
    if name in OF_ENVIRONMENTS:
        return f"give env=make_vec_env(id, {name}=...), of tfbaselines.envs.make"
    return None


def _is_given_to_updates(argument: Argument, value: Any) -> bool:
    """Return True if updates get the present value of a schedulable argument."""
    if value is None or isinstance(value, bool):
        return False
    if isinstance(value, str) and "str" in argument.kinds:
        # The algorithm gives other text a meaning.
        return is_schedule(value)
    return not argument.coefficient or isinstance(value, str) or callable(value)


def _argument(field: dataclasses.Field, declared: Mapping[str, Any]) -> Argument:
    coefficient = Coefficient in (field.type, *typing.get_args(field.type))
    kinds = kinds_of(field.type)
    limit = declared["limit"] or (WHOLE if "int" in kinds else math.inf)
    return Argument(field.name, kinds, field.default, **declared | {"coefficient": coefficient, "limit": limit})
