"""The process of one worker: it makes its environments and its copy of the model, and obeys the parent's commands.

processes.py has the other side.
"""

import contextlib
import multiprocessing.util
import os
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any

from tfbaselines.algs.acer import ALGORITHM, Config
from tfbaselines.config.config import NetworkSpec
from tfbaselines.envs.vec.worker import end_with_parent, leave_signals_to_parent, send_quietly
from tfbaselines.errors import NotFiniteError, ObservationError, UsageError, WorkerError
from tfbaselines.loading import load_tensorflow

# Errors that the parent raises again under their own names, the more special ones first.
NAMED = (ObservationError, UsageError, NotFiniteError, WorkerError)


@dataclass
class Job:
    """Content of a worker's process.

    Attributes:
        network: network of the model.
        config: arguments, with the options that a worker needs.
        make_env: function from the worker's number to its environments.
        number: number of the worker.
        threads: threads of TensorFlow.
    """

    network: NetworkSpec
    config: Config
    make_env: Callable[[int], Any]
    number: int
    threads: int


@dataclass
class Turn:
    """The run as a worker sees it: arguments, no other ranks, and the rates of its turn."""

    config: Config
    comm: Any
    present: dict[str, float] = field(default_factory=dict)

    def rates(self) -> dict[str, float]:
        return self.present


def serve(pipe: Connection, parents_end: Connection, job: Any) -> None:
    """Run a worker until the pipe closes; it also closes when the parent is killed.

    Args:
        pipe: carries (command, arguments) in and (None, answer) or (kind of error, text) out.
        parents_end: other end of the pipe, which this process closes.
        job: the Job, in a CloudpickleWrapper.
    """
    leave_signals_to_parent()
    end_with_parent()
    # An environment's logger must not open a log of this process.
    os.environ |= dict.fromkeys(("OPENAI_LOG_FORMAT", "OPENAI_LOG_FORMAT_MPI"), "")
    parents_end.close()
    with contextlib.suppress(EOFError, OSError), contextlib.ExitStack() as stack:
        process = None
        try:
            process = _started(job.x, pipe, stack)
        except BaseException as error:
            _send_error(pipe, error)
            return
        pipe.send((None, process.describe()))
        while True:
            command, arguments = pipe.recv()
            if command == "close":
                break
            try:
                answer = None, getattr(process, command)(*arguments)
            except BaseException as error:
                _send_error(pipe, error)
            else:
                pipe.send(answer)


def _send_error(pipe: Connection, error: BaseException) -> None:
    kind = next((kind.__name__ for kind in NAMED if isinstance(error, kind)), None)
    if kind is None:
        # An unexpected error keeps its traceback.
        traceback.print_exc()
        kind, error = WorkerError.__name__, f"{type(error).__name__}: {error}"
    send_quietly(pipe, (kind, str(error)))


def _started(job: Job, pipe: Connection, stack: contextlib.ExitStack) -> "WorkerProcess":
    load_tensorflow()
    import tensorflow as tf

    from tfbaselines.logs import logger
    from tfbaselines.parallel.mpi import one_blas_thread
    from tfbaselines.policy.layers import available, set_precision
    from tfbaselines.training.testing import limit_episodes

    tf.config.threading.set_intra_op_parallelism_threads(job.threads)
    tf.config.threading.set_inter_op_parallelism_threads(job.threads)
    set_precision(available(job.config.options.precision, warns=False))
    stack.enter_context(one_blas_thread())
    lines = Lines()
    logger.Logger.CURRENT = logger.Logger(None, [lines.output])
    env = ALGORITHM.wrap(job.make_env(job.number))
    stack.callback(env.close)
    limit_episodes(env, job.config)
    return WorkerProcess(job, pipe, env, lines)


class Lines:
    """Messages of the logger, which the parent writes."""

    def __init__(self) -> None:
        from tfbaselines.logs.formats import SeqWriter

        taken: list[str] = []

        class Output(SeqWriter):
            def writeseq(self, seq: Iterable[str]) -> None:
                taken.append(" ".join(seq))

        self._taken = taken
        self.output = Output()

    def take(self) -> list[str]:
        """Return the messages since the last call."""
        lines = list(self._taken)
        self._taken.clear()
        return lines


class WorkerProcess:
    """A worker and its environments; the parent calls the methods by name."""

    def __init__(self, job: Job, pipe: Connection, env: Any, lines: Lines) -> None:
        from tfbaselines.algs.acer.acer import Model
        from tfbaselines.parallel.mpi import Communicator

        self._pipe = pipe
        self._env = env
        self._lines = lines
        self._model = Model(job.network, env, job.config, Communicator())
        self._run = Turn(job.config, Communicator())

    def describe(self) -> tuple[int, str]:
        return self._env.num_envs, f"{self._env.observation_space}, {self._env.action_space}"

    def join(self, seed: int) -> None:
        """Map the shared memory, which the parent sends as a file, and make the worker."""
        import numpy as np

        from tfbaselines.algs.acer.shared import SharedAccess, SharedNumbers
        from tfbaselines.algs.acer.workers import Worker

        descriptor = reduction.recv_handle(self._pipe)
        multiprocessing.util.Finalize(self, os.close, (descriptor,), exitpriority=0)
        self._numbers = SharedNumbers(self._model, self._env)
        self._numbers.map(descriptor)
        access = SharedAccess(self._model, self._numbers, self._run.config, descriptor)
        self._worker = Worker(self._run, self._model, self._env, np.random.default_rng(seed), access)

    def normalize(self, statistics: dict[str, Any]) -> None:
        self._env.restore_normalization(statistics)

    def turn(self, rates: dict[str, float]) -> tuple[tuple[dict[str, float], list[dict[str, Any]]], list[str]]:
        """Take a turn at these rates; return its result, and the messages of the logger."""
        self._run.present = rates
        return self._worker.turn(), self._lines.take()

    def merge(self) -> None:
        """Take over the statistics that other workers have merged since."""
        self._numbers.merge_statistics()

    def env_state(self) -> dict[str, Any]:
        return self._env.state()

    def restore_env(self, state: dict[str, Any]) -> bool:
        """Restore the environments; return whether their episodes continue."""
        self._env.restore(state)
        return self._env.restored

    def set_parameters(self, values: dict[str, Any]) -> None:
        self._env.set_parameters(values)

    def state(self) -> dict[str, Any]:
        return self._worker.state()

    def restore(self, state: dict[str, Any]) -> None:
        self._worker.restore(state)

    def replay(self, method: str, *arguments: Any) -> Any:
        return getattr(self._worker.replay, method)(*arguments)

    def item_nbytes(self) -> int:
        return self._worker.replay.item_nbytes

    def rebuild(self, state: dict[str, Any], episodes_continue: bool) -> None:
        """Restore the replay from pieces that follow through the pipe, one at a time."""
        self._worker.replay.rebuild(state, self._pieces(), episodes_continue)

    def _pieces(self) -> Iterator[tuple[int, dict[str, Any]]]:
        while True:
            self._pipe.send((None, "next"))
            piece = self._pipe.recv()
            if piece is None:
                return
            yield piece
