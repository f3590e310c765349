"""What every algorithm's learn() takes besides its own arguments."""

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
    """How a run is kept, shown and continued: the same for all algorithms, ``learn(..., run=RunOptions(...))``.

    Attributes:
        resume: directory of an earlier run (its log directory) whose latest checkpoint is continued.
        keep_checkpoints: how many of the latest checkpoints to keep.
        save_minutes: minutes between checkpoints, beside those of the algorithm's own interval; None for only these.
        callback: called with the Run after every update, or several of such; returning False ends the run. Ready ones
            are in tfbaselines.callbacks.
        progress: show progress; None shows it for runs from the command line only.
        precision: 'float32', or 'bfloat16' for convolutions and matrix products of half the width, where the
            processor has instructions for them; elsewhere float32 takes its place, with a warning.
        on_nan: what losses, gradients and parameters that are not finite do: 'stop' ends the run, 'skip' drops the
            update, for which a copy of the model is kept.
        mpi_exchange: how ranks average gradients: 'batches', 'gradients', or 'auto' to choose by size; the same steps.
        make_env: makes a further worker's environments from the worker's number, for algorithms with several workers.
        make_eval_env: makes environments for tests from their number; they write no files, and their statistics
            are frozen.
        config: what made the run, kept inside each saved file.
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
    """A callback, several or None as a list; ValueError for what is none."""
    if given is None:
        return []
    callbacks = list(given) if isinstance(given, Sequence) and not callable(given) else [given]
    for callback in callbacks:
        if not callable(callback):
            raise bad_argument("callback", callback, "a function of the Run, or a list of such")
    return callbacks
