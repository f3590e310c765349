"""Numbers that are not finite: the run ends, or what the update changed is dropped."""

import copy
import math
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
