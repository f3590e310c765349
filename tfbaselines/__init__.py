"""The algorithms of OpenAI baselines and Spinning Up on TensorFlow 2, Keras and Gymnasium.

``import tfbaselines`` is fast and never loads TensorFlow: ``tfbaselines.ppo2``, ``tfbaselines.logger``, the other
public modules and the originals' import paths (compat/names.csv) are imported on first use.
"""

import os
import sys

# Directories that our commands leave out of sys.path; see `_without_working_directory` and loading.import_named.
LEFT_OUT: list[str] = []


def _without_working_directory() -> None:
    """Remove the working directory, in which `python -m tfbaselines.NAME` finds modules before all others.

    It may be a downloaded run, with a pandas.py that would take the place of the installed one. This comes before any
    import that such a file could answer.
    """
    word = sys.orig_argv[-len(sys.argv)] if sys.argv[:1] == ["-m"] else ""
    module = word.split("m", 1)[-1] if word.startswith("-") else word
    if module.split(".")[0] != __name__ or getattr(sys.flags, "safe_path", False):
        return
    # A checkout of this package is no run.
    if sys.path[0] != os.path.dirname(os.path.dirname(os.path.abspath(__file__))) and os.path.isdir(os.curdir):
        LEFT_OUT.append(sys.path.pop(0))


_without_working_directory()

from typing import Any  # noqa: E402

from tfbaselines.algs import NAMES as _NAMES  # noqa: E402
from tfbaselines.compat import find as _find  # noqa: E402
from tfbaselines.compat import public as _public  # noqa: E402

__version__ = "0.1.0"

ALGORITHMS = _NAMES


def load(path: str, env: Any = None, checkpoint: str = "last", trust: bool = False) -> Any:
    """Load the trained model of a run, ready to act: ``tfbaselines.load("logs/pong").act(obs)``.

    Args:
        path: log directory of the run, or a saved model (--save_path), or a checkpoint.
        env: environments with the run's spaces, in any form that learn takes. A VecNormalize around them gets the run's
            statistics, and the model acts on its observations. Without one, and for None, the model takes raw
            observations and scales them as in training.
        checkpoint: 'last', 'best', or the number of a checkpoint in the log directory.
        trust: import the modules named in the run's configuration, which runs their code.

    Returns:
        The model, as learn returned it: step, act, predict, value, save, export.
    """
    from tfbaselines.evaluate import load as load_saved

    return load_saved(path, env, checkpoint, trust)


def __getattr__(name: str) -> Any:
    return _find("", name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_public()])
