"""Algorithms, a folder each. To add one, write its folder and add its name to NAMES.

`from tfbaselines.algs import ppo2` loads TensorFlow quietly; ALGORITHMS and `get` do not.
"""

import functools
import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from tfbaselines.errors import unknown
from tfbaselines.loading import load_tensorflow

if TYPE_CHECKING:
    from tfbaselines.config.algorithm import Algorithm

NAMES = (
    *("a2c", "acer", "acktr", "bc", "ddpg", "deepq", "es", "her", "gail"),
    *("qlearning", "ppo", "vpg", "ppo2", "sac", "td3", "ppo1", "trpo", "trpo_mpi"),
)


@functools.cache
def get(name: str) -> "Algorithm":
    """Return the algorithm of a name, or of 'module:function'; the error for an unknown name suggests the nearest."""
    if ":" in name:
        from tfbaselines.config.algorithm import imported

        return imported(name)
    if name not in NAMES:
        raise unknown("algorithm", name, NAMES)
    return importlib.import_module(f"{__name__}.{name}").ALGORITHM


def __getattr__(name: str) -> Any:
    if name == "ALGORITHMS":
        return {known: get(known) for known in NAMES}
    if name.startswith("_") or importlib.util.find_spec(f"{__name__}.{name}") is None:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    load_tensorflow()
    return importlib.import_module(f"{__name__}.{name}")
