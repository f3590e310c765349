"""The registry of algorithms. To add one, write its folder and add its name to NAMES in algs/__init__.py."""

import importlib

from tfbaselines.algs import NAMES
from tfbaselines.config.algorithm import Algorithm, named

ALGORITHMS: dict[str, Algorithm] = {
    name: importlib.import_module(f"tfbaselines.algs.{name}").ALGORITHM for name in NAMES
}


def get(name: str) -> Algorithm:
    """Return the algorithm of this name; the error for an unknown name suggests the nearest."""
    return named(ALGORITHMS, name)
