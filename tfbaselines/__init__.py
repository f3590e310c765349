"""The algorithms of OpenAI baselines and Spinning Up on TensorFlow 2, Keras and Gymnasium.

``tfbaselines.ppo2``, ``tfbaselines.logger`` and the rest of the public modules are imported when they
are first used, so that ``import tfbaselines`` itself is immediate and never loads TensorFlow.
"""

import importlib
from types import ModuleType

from tfbaselines.algs.registry import ALGORITHMS as _REGISTRY

__version__ = "0.1.0"

ALGORITHMS = tuple(_REGISTRY)

_PUBLIC_MODULES = {
    "logger": "tfbaselines.logs.logger",
    "vec_env": "tfbaselines.envs.vec",
    "plot_util": "tfbaselines.plot.plot_util",
    **{name: f"tfbaselines.algs.{name}" for name in ALGORITHMS},
}


def __getattr__(name: str) -> ModuleType:
    if name in _PUBLIC_MODULES:
        return importlib.import_module(_PUBLIC_MODULES[name])
    raise AttributeError(f"module 'tfbaselines' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC_MODULES])
