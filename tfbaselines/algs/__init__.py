"""Algorithms, a folder each; `from tfbaselines.algs import ppo2` loads TensorFlow quietly, the registry does not."""

import importlib
import importlib.util
from types import ModuleType

NAMES = (
    *("a2c", "acer", "acktr", "bc", "ddpg", "deepq", "es", "her", "gail"),
    *("qlearning", "ppo", "vpg", "ppo2", "sac", "td3", "ppo1", "trpo", "trpo_mpi"),
)


def __getattr__(name: str) -> ModuleType:
    if name.startswith("_") or importlib.util.find_spec(f"{__name__}.{name}") is None:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    if name != "registry":
        from tfbaselines.loading import load_tensorflow

        load_tensorflow()
    return importlib.import_module(f"{__name__}.{name}")
