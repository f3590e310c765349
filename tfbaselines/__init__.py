"""The algorithms of OpenAI baselines and Spinning Up on TensorFlow 2, Keras and Gymnasium.

``import tfbaselines`` is fast and never loads TensorFlow: ``tfbaselines.ppo2``, ``tfbaselines.logger``, the other
public modules and the originals' import paths (compat/names.csv) are imported on first use.
"""

from typing import Any

from tfbaselines.algs import NAMES as _NAMES
from tfbaselines.compat import find as _find
from tfbaselines.compat import public as _public

__version__ = "0.1.0"

ALGORITHMS = _NAMES


def load(path: str, env: Any = None, checkpoint: str = "last", trust: bool = False) -> Any:
    """Load the trained model of a run, ready to act: ``tfbaselines.load("logs/pong").act(obs)``.

    Args:
        path: log directory of the run, or a saved model (--save_path), or a checkpoint.
        env: vector environments with the run's spaces. A VecNormalize around them gets the run's statistics, and the
            model acts on its observations. Without one, and for None, the model takes raw observations and scales them.
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
