"""One file per algorithm; ``from tfbaselines.algs import ppo2`` loads TensorFlow quietly, and registry loads none."""

import importlib
import importlib.util
from types import ModuleType


def __getattr__(name: str) -> ModuleType:
    if name.startswith("_") or importlib.util.find_spec(f"{__name__}.{name}") is None:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    if name != "registry":
        from tfbaselines.cli.command import load_tensorflow

        load_tensorflow()
    return importlib.import_module(f"{__name__}.{name}")
