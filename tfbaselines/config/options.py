"""Options of a run that are the same for all algorithms: checkpoints, callbacks, progress, precision."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfbaselines.errors import bad_argument, unknown

Callback = Callable[[Any], bool | None]

PRECISIONS = ("float32", "bfloat16")
ON_NAN = ("stop", "skip")
EXCHANGES = ("auto", "batches", "gradients")


@dataclass(frozen=True)
class RunOptions:
    """Options of a run, given as ``learn(..., run=RunOptions(...))``.

    Attributes:
        resume: log directory of an earlier run; training continues from its latest checkpoint.
        keep_checkpoints: number of latest checkpoints to keep.
        save_minutes: minutes between checkpoints, in addition to the algorithm's own interval; None for that alone.
        callback: function called with the Run after every update, or a list of functions; returning False ends the
            run. tfbaselines.callbacks has ready ones.
        progress: show progress; None shows it only for runs from the command line.
        precision: 'float32', or 'bfloat16' for convolutions and matrix products in half precision. A processor
            without such instructions uses float32, with a warning.
        on_nan: handling of losses, gradients and parameters that are not finite: 'stop' ends the run, 'skip' drops the
            update and restores a copy of the model.
        mpi_exchange: how ranks average gradients: 'batches', 'gradients', or 'auto' to choose by size; the steps are
            the same.
        make_env: function from a worker's number to its environments, for algorithms with several workers.
        make_eval_env: function from a number of environments to environments for evaluation; they write no files, and
            their statistics are frozen.
        config: description of the run, stored in each saved file.
    """

    resume: str | None = None
    keep_checkpoints: int = 5
    save_minutes: float | None = 10.0
    callback: Callback | Sequence[Callback] | None = None
    progress: bool | None = None
    precision: str = "float32"
    on_nan: str = "stop"
    mpi_exchange: str = "auto"
    make_env: Callable[[int], Any] | None = None
    make_eval_env: Callable[[int], Any] | None = None
    config: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, choices in (("precision", PRECISIONS), ("on_nan", ON_NAN), ("mpi_exchange", EXCHANGES)):
            if getattr(self, name) not in choices:
                raise unknown(name, getattr(self, name), choices)
        callbacks_of(self.callback)
        if self.keep_checkpoints < 1:
            raise bad_argument("keep_checkpoints", self.keep_checkpoints, "at least 1")
        if self.save_minutes is not None and not self.save_minutes > 0:
            raise bad_argument("save_minutes", self.save_minutes, "above 0, or None")


def callbacks_of(given: Callback | Sequence[Callback] | None) -> list[Callback]:
    """Return a list of callbacks from one, several or None."""
    if given is None:
        return []
    callbacks = list(given) if isinstance(given, Sequence) and not callable(given) else [given]
    for callback in callbacks:
        if not callable(callback):
            raise bad_argument("callback", callback, "a function of the Run, or a list of functions")
    return callbacks
