"""Import paths of baselines and Spinning Up under the name of this package.

``from tfbaselines.common.schedules import LinearSchedule`` works as ``from baselines.common.schedules import
LinearSchedule`` did. names.csv lists the paths. Their modules are made on import, and their names are loaded on first
use. This finder is the last, so existing modules take precedence.
"""

import csv
import functools
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from tfbaselines.errors import UsageError
from tfbaselines.loading import load_tensorflow

PACKAGE = __name__.partition(".")[0]

# Modules that need TensorFlow, which loads without its notices, and one of them that does not.
OF_TENSORFLOW = (f"{PACKAGE}.algs.", f"{PACKAGE}.policy.")
LIGHT = f"{PACKAGE}.algs.deepq.buffers"

# Values of the column 'names': any other name of the module, the module as a whole, a call of the module, and
# python -m of the module, with the command that takes its place as the remark.
ANY, WHOLE, CALL, SCRIPT = "*", "=", "()", "__main__"


class Row(NamedTuple):
    """A row of names.csv.

    Attributes:
        paths: modules of the originals.
        names: names in these modules; 'old=new' if the name here is another.
        here: module of this package with these names, or for CALL a function; empty without a counterpart.
        remark: without a counterpart the alternative, otherwise a remark for docs/migration.
    """

    paths: list[str]
    names: list[str]
    here: str
    remark: str


@functools.cache
def rows() -> list[Row]:
    """Read names.csv on first use: most runs never need it."""
    with open(Path(__file__).with_name("names.csv"), encoding="utf-8", newline="") as file:
        return [Row(paths.split(), names.split(), *rest) for paths, names, *rest in list(csv.reader(file))[1:]]


@functools.cache
def table() -> dict[str, list[Row]]:
    """Return the rows by the originals' paths without the first part."""
    by_path: dict[str, list[Row]] = {}
    for row in rows():
        for path in row.paths:
            by_path.setdefault(path.partition(".")[2], []).append(row)
    return by_path


@functools.cache
def packages() -> frozenset[str]:
    """Return the paths of the table and every package above one."""
    parts = [path.split(".") for path in table() if path]
    return frozenset(".".join(names[:end]) for names in parts for end in range(1, len(names) + 1))


def entries(path: str) -> Iterator[tuple[str, str, Row]]:
    """Yield each name of a path, its name here, and its row."""
    for row in table().get(path, ()):
        for name in row.names:
            old, _, new = name.partition("=") if name != WHOLE else (WHOLE, "", "")
            yield old, new or old, row


def old_gym(env: Any) -> Any:
    """Make a Gymnasium environment of one of gym's old interface; see envs/wrappers.py."""
    from tfbaselines.envs.wrappers import OldGym

    return OldGym(env)


class Absent:
    """A name of the originals without a counterpart; the error on use names an alternative.

    Calling it, deriving a class from it, isinstance, issubclass, and its use as a value raise a UsageError; its
    attributes raise an AttributeError.

    Args:
        name: path of the name in the original.
        instead: alternative to use.
    """

    def __init__(self, name: str, instead: str) -> None:
        self._line = f"{name} has no counterpart: {instead}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise the UsageError."""
        raise UsageError(self._line)

    __mro_entries__ = __instancecheck__ = __subclasscheck__ = __call__
    __bool__ = __len__ = __iter__ = __getitem__ = __contains__ = __int__ = __float__ = __index__ = __fspath__ = __call__
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __neg__ = __call__
    __lt__ = __le__ = __gt__ = __ge__ = __call__

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name if name.startswith("_") else self._line)


class PortedModule(ModuleType):
    """A module of the originals, with names loaded from this package on first use."""

    def __getattr__(self, name: str) -> Any:
        path = _path(self)
        if name == "__all__":
            return _public_names(path)
        if name.startswith("__"):
            raise AttributeError(name)
        return find(path, name)

    def __dir__(self) -> list[str]:
        path = _path(self)
        children = {child.rpartition(".")[2] for child in packages() if child.rpartition(".")[0] == path}
        return sorted({*(old for old, _, _ in entries(path) if _is_name(old)), *children})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function of the same name: Spinning Up's algorithms are functions."""
        place = _place(_path(self), CALL)
        if place is None:
            raise UsageError(f"{self.__name__} is a module: call {self.__name__}.learn(network, env, ...)")
        module, _, function = place.rpartition(".")
        return getattr(_module(module), function)(*args, **kwargs)

    def __reduce__(self) -> tuple:
        return importlib.import_module, (self.__name__,)


def find(path: str, name: str) -> Any:
    """Return the counterpart of a name of the originals; raise an AttributeError if there is none.

    Args:
        path: path of the original's module without its first part.
        name: name in that module.
    """
    whole = f"{path}.{name}".lstrip(".")
    if whole in packages():
        return importlib.import_module(f"{PACKAGE}.{whole}")
    for old, new, row in entries(path):
        if old == name:
            return getattr(_module(row.here), new) if row.here else Absent(whole, row.remark)
    rest = _place(path, ANY)
    if rest is not None and hasattr(_module(rest), name):
        return getattr(_module(rest), name)
    for old, _, row in entries(path):
        if old == ANY and not row.here:
            return Absent(whole, row.remark)
    raise AttributeError(f"module '{PACKAGE}.{path}'".rstrip(".'") + f"' has no attribute '{name}'")


def public() -> list[str]:
    """List the names at the top of the package that come from the table."""
    return [path for path in packages() if "." not in path]


def names_of(path: str) -> Callable[[str], Any]:
    """Make the ``__getattr__`` of an existing module, for the originals' names in it."""
    return lambda name: find(path, name)


def _is_name(name: str) -> bool:
    return name not in (ANY, WHOLE, CALL, SCRIPT)


def _path(module: ModuleType) -> str:
    return module.__name__.partition(".")[2]


def _place(path: str, kind: str) -> str | None:
    """Return the place here of a path's names of a kind: ANY, WHOLE or CALL."""
    return next((row.here for old, _, row in entries(path) if old == kind and row.here), None)


def _command_of(path: str) -> str | None:
    """Return the command in place of a script, by the path of the script's __main__."""
    module = path.removesuffix(f".{SCRIPT}")
    return next((row.remark for old, _, row in entries(module) if old == SCRIPT), None) if module != path else None


def _public_names(path: str) -> list[str]:
    own = [old for old, _, row in entries(path) if row.here and _is_name(old)]
    place = _place(path, ANY)
    rest = _module(place) if place else ModuleType(path)
    return [*own, *getattr(rest, "__all__", [name for name in vars(rest) if not name.startswith("_")])]


def _module(name: str) -> ModuleType:
    if name.startswith(OF_TENSORFLOW) and name != LIGHT:
        load_tensorflow()
    return importlib.import_module(name)


class _Finder(MetaPathFinder, Loader):
    """Finder and loader of the table's modules."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        """Return a spec for the paths of the table, None for others."""
        package, _, rest = fullname.partition(".")
        if package != PACKAGE:
            return None
        if _command_of(rest):
            return ModuleSpec(fullname, self)
        return ModuleSpec(fullname, self, is_package=True) if rest in packages() else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Create an empty module; names are loaded on first use."""
        return PortedModule(spec.name, f"Names of the originals; see docs/migration, {spec.name}.")

    def get_code(self, fullname: str) -> Any:
        """Return the code of python -m for a script of the originals."""
        command = _command_of(fullname.partition(".")[2])
        call = f"run_in_place({fullname.removesuffix(f'.{SCRIPT}')!r}, {command!r})"
        return compile(f"from {PACKAGE}.compat.baselines import run_in_place\n{call}", fullname, "exec")

    def exec_module(self, module: ModuleType) -> None:
        """Replace the module by this package's own if the table maps the whole module."""
        same = _place(_path(module), WHOLE)
        if same is not None:
            sys.modules[module.__name__] = _module(same)


if not any(type(finder).__qualname__ == _Finder.__qualname__ for finder in sys.meta_path):
    sys.meta_path.append(_Finder())
