"""The algorithms of OpenAI baselines and Spinning Up on TensorFlow 2, Keras and Gymnasium.

``tfbaselines.ppo2``, ``tfbaselines.logger`` and the rest of the public modules are imported when they
are first used, so that ``import tfbaselines`` itself is immediate and never loads TensorFlow. So are the originals' own
import paths; see compat/table.py.
"""

from typing import Any

from tfbaselines.algs import NAMES as _NAMES
from tfbaselines.compat import find as _find
from tfbaselines.compat import public as _public

__version__ = "0.1.0"

ALGORITHMS = _NAMES


def load(path: str, env: Any = None, checkpoint: str = "last", trust: bool = False) -> Any:
    """The trained model of a saved run, ready to act: ``tfbaselines.load("logs/pong").act(obs)``.

    Args:
        path: the run's log directory, or a model that it saved (--save_path) or a checkpoint of it.
        env: vector environments with the run's spaces, which take over the run's normalisation of observations; None
            reads the spaces from environments made as the run's were. The model does not normalise: without `env`,
            observations of a run with VecNormalize are those that it gives.
        checkpoint: of a log directory: 'last', 'best', or a checkpoint's number.
        trust: import the modules that the run's configuration names, which runs their code.

    Returns:
        The model, as learn returned it: step, act, predict, value, save, export.
    """
    from tfbaselines.evaluate import load as load_saved

    return load_saved(path, env, checkpoint, trust)


def __getattr__(name: str) -> Any:
    return _find("", name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_public()])
