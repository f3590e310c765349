"""Numbers that are not finite: the run ends, or what the update changed is dropped.

The signals that stop a run: Ctrl-C, and those of service managers and batch systems.
"""

import copy
import math
import os
import signal
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from tfbaselines.errors import NotFiniteError
from tfbaselines.logs import logger
from tfbaselines.parallel import mpi

# When this many updates in a row were dropped, nothing is learnt any more.
MOST_DROPPED_IN_A_ROW = 100


class FiniteCheck:
    """Looks at what updates say and change.

    Attributes:
        dropped: updates so far.

    Args:
        skip: drop an update that is not finite, in place of ending the run; a copy of the model is kept meanwhile.
        comm: ranks, which drop an update together.
        where: says on which rank this is, and which checkpoint is good.
    """

    def __init__(self, skip: bool, comm: mpi.Communicator, where: Callable[[], str]) -> None:
        self._skip, self._comm, self._where = skip, comm, where
        self.dropped = self._in_a_row = 0
        self._kept: Any = None
        self._found: str | None = None

    def begin(self, model: Any, paused: Callable[[], AbstractContextManager]) -> None:
        """Before an update: keep what it may have to go back to."""
        if self._skip:
            with paused():
                # What a variable's array shows may change with it.
                self._kept = copy.deepcopy(model.state())

    def statistics(self, values: dict[str, Any], update: int) -> None:
        """Check the statistics of an update; NotFiniteError unless it will be dropped."""
        for name, value in values.items():
            # Of constant targets there is no variance to explain.
            # Numpy takes ten times as long for one number.
            finite = math.isfinite(value) if isinstance(value, float) else np.isfinite(value).all()
            if not finite and not name.startswith("explained_variance"):
                self._report(f"{name} is not finite in update {update}")

    def parameters(self, variables: list[Any], update: int) -> None:
        """Check what is learnt, likewise."""
        for variable in variables:
            if not np.isfinite(mpi.values(variable)).all():
                name = getattr(variable, "path", "an array")
                self._report(f"parameter {name} is not finite after update {update}")

    def end(self, model: Any, update: int, paused: Callable[[], AbstractContextManager]) -> None:
        """After an update: drop it on all ranks if it was not finite on one of them."""
        if not self._skip:
            return
        self.parameters(model.variables(), update)
        found, self._found = [reason for reason in self._comm.gather(self._found) if reason], None
        if not found:
            self._in_a_row = 0
            return
        with paused():
            model.restore(self._kept)
        self.dropped, self._in_a_row = self.dropped + 1, self._in_a_row + 1
        if self._in_a_row == 1:
            logger.warn(f"{found[0]}: the update is dropped")
        if self._in_a_row == MOST_DROPPED_IN_A_ROW:
            raise NotFiniteError(f"{found[0]}, and {MOST_DROPPED_IN_A_ROW - 1} updates before were not finite either")

    def _report(self, what: str) -> None:
        what += self._where()
        if not self._skip:
            raise NotFiniteError(what)
        self._found = self._found or what


STOPPING = tuple(getattr(signal, f"SIG{name}") for name in ("INT", "TERM", "HUP", "USR1", "USR2"))


def heed() -> None:
    """Have signals that nohup or a shell ignores stop this program, and so those that it starts."""
    for number in STOPPING:
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


class StopSignals:
    """Keeps the first signal that comes until the run has an update to end with; a second Ctrl-C does not wait.

    Batch systems send SIGTERM some time after the signal that asked the run to end: it must not cost the checkpoint.

    Attributes:
        number: of the signal that came; 0 for none.
    """

    def __init__(self) -> None:
        self.number = 0
        self._old_handlers: dict[int, Any] = {}

    def catch(self) -> None:
        """Take the signals over, where this is the main thread: others cannot.

        Those that are ignored stay ignored, as nohup wants it, and those that something other than Python handles
        stay there: they could not be given back.
        """
        if threading.current_thread() is threading.main_thread():
            for number in STOPPING:
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._old_handlers[number] = signal.signal(number, self._on_signal)

    def release(self) -> None:
        """Give the signals back to their handlers."""
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, _frame: Any) -> None:
        if not self.number:
            self.number = number
        elif number == signal.SIGINT:
            raise KeyboardInterrupt


class Interrupted(Exception):
    """The run was stopped by a signal, after its checkpoint was saved if it could be.

    Attributes:
        signal: the signal's number.
        checkpoint: where the checkpoint is, or None when there is none of this update.

    Args:
        number: the signal's.
        checkpoint: see above.
        directory: the log directory, or None when the run has none.
        before: the update of the checkpoint before.
    """

    def __init__(self, number: int, checkpoint: str | None, directory: str | None = None, before: int = 0) -> None:
        if checkpoint:
            saved = f"checkpoint saved in {checkpoint}"
        elif directory is None:
            saved = "no log directory, so nothing was saved"
        else:
            # A resumed run may have begun with a checkpoint of another directory.
            path = os.path.join(directory, "checkpoints", f"{before:05d}")
            last = f"the last one is {path}" if os.path.exists(path) else "nor is there an earlier one"
            saved = f"no checkpoint was saved, {last}"
        super().__init__(f"stopped by {signal.Signals(number).name}: {saved}")
        self.signal, self.checkpoint = number, checkpoint
