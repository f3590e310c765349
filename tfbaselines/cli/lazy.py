"""Names that a package takes from its slow half, which loads TensorFlow, when they are first used (PEP 562)."""

import importlib
from collections.abc import Callable
from typing import Any

from tfbaselines.cli.command import load_tensorflow


def lazily(module: str) -> Callable[[str], Any]:
    """Make a package's ``__getattr__``, which reads names from one of its modules.

    Args:
        module: full name of the module, imported on first use.
    """

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module '{module}' has no attribute '{name}'")
        load_tensorflow()
        return getattr(importlib.import_module(module), name)

    return __getattr__
