"""Import paths of baselines and Spinning Up under the name of this package.

``from tfbaselines.common.schedules import LinearSchedule`` works as ``from baselines.common.schedules import
LinearSchedule`` did. table.py lists the paths. Their modules are made on import, and their names are loaded on first
use. This finder is the last, so existing modules take precedence.
"""

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from tfbaselines.errors import UsageError
from tfbaselines.loading import load_tensorflow

PACKAGE = __name__.partition(".")[0]

# Modules that need TensorFlow, which loads without its notices, and one of them that does not.
OF_TENSORFLOW = ("algs.", "policy.", "compat.distributions")
LIGHT = "algs.deepq.buffers"


class Absent:
    """A name of the originals without a counterpart; the error on use names an alternative.

    Calling it, deriving a class from it, isinstance and issubclass raise a UsageError; its attributes raise an
    AttributeError.

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

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name if name.startswith("_") else self._line)


class PortedModule(ModuleType):
    """A module of the originals, with names loaded from this package on first use."""

    def __getattr__(self, name: str) -> Any:
        path = self.__name__.partition(".")[2]
        if name == "__all__":
            port = _port(path)
            return [*port.places(), *(_public_names(port.rest) if port.rest else ())]
        if name.startswith("__"):
            raise AttributeError(name)
        return find(path, name)

    def __dir__(self) -> list[str]:
        path = self.__name__.partition(".")[2]
        children = {child.rpartition(".")[2] for child in _table().PACKAGES if child.rpartition(".")[0] == path}
        return sorted({*_port(path).everything(), *children})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function of the same name: Spinning Up's algorithms are functions."""
        function = _port(self.__name__.partition(".")[2]).call
        if function is None:
            raise UsageError(f"{self.__name__} is a module: call {self.__name__}.learn(network, env, ...)")
        return _load(function)(*args, **kwargs)

    def __reduce__(self) -> tuple:
        return importlib.import_module, (self.__name__,)


def find(path: str, name: str) -> Any:
    """Return the counterpart of a name of the originals; raise an AttributeError if there is none.

    Args:
        path: path of the original's module without its first part.
        name: name in that module.
    """
    whole = f"{path}.{name}".lstrip(".")
    port = _port(path)
    if whole in _table().PACKAGES:
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
    """List the names at the top of the package that come from the table."""
    return [path for path in _table().PACKAGES if "." not in path]


def names_of(path: str) -> Callable[[str], Any]:
    """Make the ``__getattr__`` of an existing module, for the originals' names in it."""
    return lambda name: find(path, name)


def _table() -> ModuleType:
    """Load the table on first use: most runs never need it."""
    return importlib.import_module(f"{__name__}.table")


def _port(path: str) -> Any:
    table = _table()
    return table.TABLE.get(path, table.Port())


def _public_names(module: str) -> list[str]:
    loaded = _module(module)
    return getattr(loaded, "__all__", [name for name in vars(loaded) if not name.startswith("_")])


def _load(place: str) -> Any:
    """Load 'module:name' of this package; a place without a name is a module."""
    module, _, name = place.partition(":")
    loaded = _module(module)
    return getattr(loaded, name) if name else loaded


def _module(name: str) -> ModuleType:
    if name.startswith(OF_TENSORFLOW) and name != LIGHT:
        load_tensorflow()
    return importlib.import_module(f"{PACKAGE}.{name}")


class _Finder(MetaPathFinder, Loader):
    """Finder and loader of the table's modules."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        """Return a spec for the paths of the table, None for others."""
        package, _, rest = fullname.partition(".")
        return ModuleSpec(fullname, self, is_package=True) if package == PACKAGE and rest in _table().PACKAGES else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Create an empty module; names are loaded on first use."""
        return PortedModule(spec.name, f"Names of the originals; see MIGRATION.md, {spec.name}.")

    def exec_module(self, module: ModuleType) -> None:
        """Replace the module by this package's own if the table maps the whole module."""
        same = _port(module.__name__.partition(".")[2]).same
        if same is not None:
            sys.modules[module.__name__] = _module(same)


if not any(type(finder).__qualname__ == _Finder.__qualname__ for finder in sys.meta_path):
    sys.meta_path.append(_Finder())
