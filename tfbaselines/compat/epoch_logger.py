"""Spinning Up's logger, which also saves a model and the state of a script beside its table."""

import os
from typing import Any

import numpy as np

from tfbaselines.errors import bad_argument
from tfbaselines.logs import epoch_logger
from tfbaselines.training.checkpoint import save_tree


class EpochLogger(epoch_logger.EpochLogger):
    """The table of epochs, and the files of `save_state`; arguments are those of logs/epoch_logger.py."""

    _model: Any = None

    def setup_tf_saver(self, model: Any, *_: Any, **further: Any) -> None:
        """Choose the model that `save_state` saves.

        Args:
            model: what learn returns, or another object with `save(path)`.
            further: Spinning Up's inputs and outputs, which a model knows; of a session they are refused.
        """
        if not callable(getattr(model, "save", None)):
            accepted = "what learn returns, or another object with save(path); there are no sessions"
            raise bad_argument("model", model, accepted)
        self._model = model

    setup_pytorch_saver = setup_tf_saver

    def save_state(self, state_dict: dict[str, Any], itr: int | None = None) -> None:
        """Write `vars{itr}.npz`, and `model{itr}.npz` of the model, on rank 0.

        tfbaselines.load and model.load read the model; training/checkpoint.py's load_tree reads the state.

        Args:
            state_dict: arrays, numbers, text, lists and dicts of them; what is none of these, such as an environment,
                is left out with a warning.
            itr: part of the files' names; None for files that each call writes anew.
        """
        if self.comm.rank:
            return
        number = "" if itr is None else f"{itr:d}"
        left_out = [name for name, value in state_dict.items() if not _can_be_saved(value)]
        if left_out:
            self.log(f"Warning: not saved, neither arrays nor numbers nor text: {', '.join(left_out)}", color="red")
        state = {name: value for name, value in state_dict.items() if name not in left_out}
        save_tree(os.path.join(self.output_dir, f"vars{number}.npz"), state)
        if self._model is not None:
            self._model.save(os.path.join(self.output_dir, f"model{number}.npz"))


def _can_be_saved(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(name, str) and _can_be_saved(item) for name, item in value.items())
    if isinstance(value, list | tuple):
        return all(map(_can_be_saved, value))
    if isinstance(value, np.ndarray | np.generic):
        return not value.dtype.hasobject
    return value is None or isinstance(value, bool | int | float | str)
