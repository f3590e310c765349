"""Import paths of baselines and Spinning Up under the name of this package.

``from tfbaselines.common.schedules import LinearSchedule`` works because ``from baselines.common.schedules import
LinearSchedule`` did. table.py lists the paths; modules are made from it when they are imported, and what they name is
loaded when it is used. Modules that exist keep their places: Python asks this finder last.
"""

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from tfbaselines.compat.port import Port
from tfbaselines.compat.table import PACKAGES, TABLE
from tfbaselines.errors import UsageError
from tfbaselines.loading import load_tensorflow

PACKAGE = __name__.partition(".")[0]

# Modules that need TensorFlow, which is to load without its notices, and one among them that does not.
OF_TENSORFLOW = ("algs.", "policy.", "compat.distributions")
LIGHT = "algs.deepq.buffers"


class Absent:
    """A name of the originals without a counterpart; using it is one line that names what to use instead.

    That is a ValueError where it is called, derived from, or asked whether something is an instance or a subclass of
    it, and an AttributeError where something is asked of it.

    Args:
        name: the original's path.
        instead: what to use.
    """

    def __init__(self, name: str, instead: str) -> None:
        self._line = f"{name} has no counterpart: {instead}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise the ValueError."""
        raise UsageError(self._line)

    __mro_entries__ = __instancecheck__ = __subclasscheck__ = __call__

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name if name.startswith("_") else self._line)


class PortedModule(ModuleType):
    """A module of the originals: its names are loaded from where they are here, on first use."""

    def __getattr__(self, name: str) -> Any:
        path = self.__name__.partition(".")[2]
        if name == "__all__":
            port = TABLE.get(path, Port())
            return [*port.places(), *(_public_names(port.rest) if port.rest else ())]
        if name.startswith("__"):
            raise AttributeError(name)
        return find(path, name)

    def __dir__(self) -> list[str]:
        path = self.__name__.partition(".")[2]
        children = {child.rpartition(".")[2] for child in PACKAGES if child.rpartition(".")[0] == path}
        return sorted({*TABLE.get(path, Port()).everything(), *children})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Spinning Up's algorithms are functions."""
        function = TABLE.get(self.__name__.partition(".")[2], Port()).call
        if function is None:
            raise UsageError(f"{self.__name__} is a module: call {self.__name__}.learn(network, env, ...)")
        return _load(function)(*args, **kwargs)

    def __reduce__(self) -> tuple:
        return importlib.import_module, (self.__name__,)


def find(path: str, name: str) -> Any:
    """What a name of the originals is here; AttributeError when there is none.

    Args:
        path: of the original's module, without its first part.
        name: in that module.
    """
    whole = f"{path}.{name}".lstrip(".")
    port = TABLE.get(path, Port())
    if whole in PACKAGES:
        return importlib.import_module(f"{PACKAGE}.{whole}")
    if name in port.places():
        return _load(port.places()[name])
    if name in port.instead:
        return Absent(whole, port.instead[name])
    if port.rest is not None:
        module = _module(port.rest)
        if hasattr(module, name):
            return getattr(module, name)
    if port.nothing is not None:
        return Absent(whole, port.nothing)
    raise AttributeError(f"module '{PACKAGE}.{path}'".rstrip(".'") + f"' has no attribute '{name}'")


def public() -> list[str]:
    """Names at the top of the package that come from the table."""
    return [path for path in PACKAGES if "." not in path]


def names_of(path: str) -> Callable[[str], Any]:
    """``__getattr__`` of a module that exists, for the originals' names in it."""
    return lambda name: find(path, name)


def _public_names(module: str) -> list[str]:
    loaded = _module(module)
    return getattr(loaded, "__all__", [name for name in vars(loaded) if not name.startswith("_")])


def _load(place: str) -> Any:
    """'module:name' of this package; a place without a name is a module."""
    module, _, name = place.partition(":")
    loaded = _module(module)
    return getattr(loaded, name) if name else loaded


def _module(name: str) -> ModuleType:
    if name.startswith(OF_TENSORFLOW) and name != LIGHT:
        load_tensorflow()
    return importlib.import_module(f"{PACKAGE}.{name}")


class _Finder(MetaPathFinder, Loader):
    """Makes the modules of the table."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        """A spec for the paths of the table, None for others."""
        package, _, rest = fullname.partition(".")
        return ModuleSpec(fullname, self, is_package=True) if package == PACKAGE and rest in PACKAGES else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """An empty one: its names come on first use."""
        return PortedModule(spec.name, f"Names of the originals; see MIGRATION.md, {spec.name}.")

    def exec_module(self, module: ModuleType) -> None:
        """Replace the module by this package's own where it is the same."""
        same = TABLE.get(module.__name__.partition(".")[2], Port()).same
        if same is not None:
            sys.modules[module.__name__] = _module(same)


if not any(type(finder).__qualname__ == _Finder.__qualname__ for finder in sys.meta_path):
    sys.meta_path.append(_Finder())
