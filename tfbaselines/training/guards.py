"""Guards of a run: numbers that are not finite, signals that stop it (Ctrl-C, batch systems), ranks out of step.

No TensorFlow here: Spinning Up's commands start without it.
"""

import copy
import gc
import math
import os
import random
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from tfbaselines.errors import NotFiniteError
from tfbaselines.logs import logger
from tfbaselines.parallel import mpi

# A run ends after this many dropped updates in a row: it does not learn any more.
MOST_DROPPED_IN_A_ROW = 100

# Growth of this process's memory from run to run after which a new run frees what earlier ones left.
MOST_GROWTH = 2**26
_settled = 0


def release_earlier_runs() -> None:
    """Free the memory of earlier runs, such as their replays, which reference cycles keep until Python looks for them.

    A search takes a quarter of a second, so it waits until memory has grown (Linux; elsewhere it is left to Python).
    """
    global _settled
    taken = _resident_bytes()
    if taken > _settled + MOST_GROWTH:
        if _settled:
            gc.collect()
        _settled = _resident_bytes()


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


class FiniteCheck:
    """Check statistics and parameters of updates; end the run, or drop the update, if a number is not finite.

    Attributes:
        dropped: number of dropped updates.

    Args:
        skip: drop an update that is not finite instead of ending the run; this keeps a copy of the model.
        comm: ranks; all of them drop an update together.
        where: returns the rank and the last good checkpoint, for errors.
    """

    def __init__(self, skip: bool, comm: mpi.Communicator, where: Callable[[], str]) -> None:
        self._skip = skip
        self._comm = comm
        self._where = where
        self.dropped = 0
        self._in_a_row = 0
        self._kept: Any = None
        self._found: str | None = None

    def begin(self, model: Any, paused: Callable[[], AbstractContextManager]) -> None:
        """Keep a copy of the model before an update that may be dropped."""
        if self._skip:
            with paused():
                # Arrays of variables may change in place.
                self._kept = copy.deepcopy(model.state())

    def statistics(self, values: dict[str, Any], update: int) -> None:
        """Check the statistics of an update; raise NotFiniteError unless the update will be dropped."""
        for name, value in values.items():
            # math is ten times as fast as numpy for one number.
            finite = math.isfinite(value) if isinstance(value, float) else np.isfinite(value).all()
            # The explained variance of constant targets is not a number.
            if not finite and not name.startswith("explained_variance"):
                self._report(f"{name} is not finite in update {update}")

    def parameters(self, variables: list[Any], update: int) -> None:
        """Check the parameters after an update, as `statistics` does."""
        for variable in variables:
            if not np.isfinite(mpi.values(variable)).all():
                name = getattr(variable, "path", "an array")
                self._report(f"parameter {name} is not finite after update {update}")

    def end(self, model: Any, update: int, paused: Callable[[], AbstractContextManager]) -> None:
        """End an update: drop it on all ranks if it was not finite on one of them."""
        if not self._skip:
            return
        self.parameters(model.variables(), update)
        found, self._found = [reason for reason in self._comm.gather(self._found) if reason], None
        if not found:
            self._in_a_row = 0
            return
        with paused():
            model.restore(self._kept)
        self.dropped += 1
        self._in_a_row += 1
        if self._in_a_row == 1:
            logger.warn(f"{found[0]}: the update is dropped")
        if self._in_a_row == MOST_DROPPED_IN_A_ROW:
            raise NotFiniteError(
                f"{found[0]}, and {MOST_DROPPED_IN_A_ROW - 1} updates before were not finite either (docs/troubles.md)"
            )

    def _report(self, what: str) -> None:
        what += self._where()
        if not self._skip:
            raise NotFiniteError(what)
        self._found = self._found or what


STOPPING = tuple(getattr(signal, f"SIG{name}") for name in ("INT", "TERM", "HUP", "USR1", "USR2"))


def heed() -> None:
    """Let signals that nohup or a shell ignores stop this program and its children."""
    for number in STOPPING:
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


class StopSignals:
    """Keep the first signal until the run has finished its update; a second Ctrl-C interrupts at once.

    Batch systems send SIGTERM some time after a first signal: it must not prevent the checkpoint.

    Attributes:
        number: number of the first signal; 0 for none.
    """

    def __init__(self) -> None:
        self.number = 0
        self._old_handlers: dict[int, Any] = {}

    def catch(self) -> None:
        """Handle the signals from now on; only the main thread can.

        Ignored signals stay ignored, as nohup requires. Signals that code outside of Python handles stay as they are,
        because their handlers could not be restored.
        """
        if threading.current_thread() is threading.main_thread():
            for number in STOPPING:
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._old_handlers[number] = signal.signal(number, self._on_signal)

    def release(self) -> None:
        """Restore the handlers from before `catch`."""
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, _frame: Any) -> None:
        if not self.number:
            self.number = number
        elif number == signal.SIGINT:
            raise KeyboardInterrupt


class Interrupted(Exception):
    """A signal stopped the run, after its checkpoint was saved if possible.

    Attributes:
        signal: number of the signal.
        checkpoint: path of this update's checkpoint; None if there is none.

    Args:
        number, checkpoint: see the attributes.
        directory: log directory; None for none.
        before: update of the checkpoint before.
    """

    def __init__(self, number: int, checkpoint: str | None, directory: str | None = None, before: int = 0) -> None:
        if checkpoint:
            saved = f"checkpoint saved in {checkpoint}"
        elif directory is None:
            saved = "no log directory, so nothing was saved"
        else:
            # A resumed run may have started from a checkpoint in another directory.
            path = os.path.join(directory, "checkpoints", f"{before:05d}")
            last = f"the last one is {path}" if os.path.exists(path) else "nor is there an earlier one"
            saved = f"no checkpoint was saved, {last}"
        super().__init__(f"stopped by {signal.Signals(number).name}: {saved}")
        self.signal = number
        self.checkpoint = checkpoint


def seed_everything(seed: int | None, comm: mpi.Communicator) -> np.random.Generator:
    """Seed Python, numpy and Keras, and return the run's generator; ranks get seeds 10,000 apart.

    None takes a seed from the operating system.
    """
    import keras

    if seed is None:
        seed = int(np.random.SeedSequence().generate_state(1)[0])
    seed = (int(seed) + 10_000 * comm.rank) % 2**32
    random.seed(seed)
    np.random.seed(seed)
    keras.utils.set_random_seed(seed)
    return np.random.default_rng(seed)


def parameters_text(policy: Any) -> str:
    """Return one line with the number of parameters of each part of a policy, as Spinning Up prints it."""
    groups = policy.parameter_groups
    counts = {name: sum(math.prod(one.shape) for one in variables) for name, variables in groups.items()}
    counts["total"] = sum(counts.values())
    return f"Number of parameters: {', '.join(f'{name}: {count}' for name, count in counts.items())}"


def announce(model: Any, comm: mpi.Communicator, num_envs: int) -> None:
    """Log the number of parameters and, with several ranks, where they are."""
    if comm.rank == 0:
        logger.info(parameters_text(model.policy))
    if comm.size > 1:
        logger.info(ranks_text(comm, num_envs))


def ranks_text(comm: mpi.Communicator, num_envs: int) -> str:
    """Return one line on ranks, hosts, environments and threads; `num_envs` counts this rank's environments."""
    own = (socket.gethostname(), num_envs, mpi.threads_for_rank(comm))
    hosts, envs, threads = zip(*comm.gather(own), strict=True)
    return (
        f"ranks: {comm.size}, hosts: {len(set(hosts))}, environments in all: {sum(envs)}, "
        f"threads a rank: {min(threads)}"
    )


def agree(comm: mpi.Communicator, number: int, stopped: bool, save_due: bool) -> tuple[int, bool, bool]:
    """Return the number of a signal that came to any rank, or 0, whether any rank stops, and rank 0's `save_due`."""
    if comm.size == 1:
        return number, stopped, save_due
    numbers, stops, due = zip(*comm.gather((number, stopped, save_due)), strict=True)
    return max(numbers), any(stops), due[0]


def check_in_step(variables: list[Any], comm: mpi.Communicator) -> None:
    """Raise an error unless every rank has the same parameters."""
    if comm.size > 1:
        mpi.sync_check(np.concatenate([mpi.values(variable).ravel() for variable in variables]), comm)
