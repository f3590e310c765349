"""Trainers of several behaviors in one environment, each in a thread, of which one runs at a time.

A trainer runs until it waits for a step of the environment. When all of them wait, the environment takes a step with
the actions of all, and the trainers go on in their order. So every algorithm runs as it is, and a seed gives one run.
A trainer that has finished lets its trained policy act until the last one has finished.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any

from tfbaselines.logs import logger
from tfbaselines.multi.agents import Agents


class Cancelled(Exception):
    """Another behavior's trainer failed, or the run is over."""


class Trainer:
    """The thread of one behavior.

    Attributes:
        name: the behavior.
        env: environments that the thread steps.
        model: the trained model; None before.
        finished: the work is done; the thread acts on.

    Args:
        name: the behavior.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.env: Any = None
        self.model: Any = None
        self.finished = False
        self._error: BaseException | None = None
        self._cancelled = False
        self._go = threading.Semaphore(0)
        self._back = threading.Semaphore(0)
        # The thread's own current logger, while it does not run.
        self._logger: Any = None
        self._thread: threading.Thread | None = None

    def start(self, work: Callable[[], Any], act_on: Callable[[Any], None]) -> None:
        """Start the thread; it runs at the first `resume`.

        Args:
            work: trains the behavior, or loads it, and returns its model.
            act_on: lets the model act in the environment until `wait` raises Cancelled.
        """

        def run() -> None:
            self._go.acquire()
            try:
                if not self._cancelled:
                    self.model = work()
                    self.finished = True
                    act_on(self.model)
            except Cancelled:
                pass
            except BaseException as error:
                self._error = error
            finally:
                self._back.release()

        self._thread = threading.Thread(target=run, name=f"behavior {self.name}", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait, in the thread, for the next turn."""
        self._back.release()
        self._go.acquire()
        if self._cancelled:
            raise Cancelled(f"the trainers of all behaviors end with behavior '{self.name}'")

    def resume(self) -> None:
        """Let the thread run until it waits or ends; raise its error."""
        before = logger.exchange(self._logger)
        try:
            self._go.release()
            self._back.acquire()
        finally:
            self._logger = logger.exchange(before)
        if self._error is not None:
            error, self._error = self._error, None
            self._thread = None
            raise error

    def cancel(self) -> None:
        """End the thread where it waits, and close its log."""
        self._cancelled = True
        if self._thread is not None and self._thread.is_alive():
            before = logger.exchange(self._logger)
            self._go.release()
            self._thread.join()
            self._logger = logger.exchange(before)
        if self._logger is not None:
            self._logger.close()


def run_together(agents: Agents, trainers: Sequence[Trainer], over: Callable[[], bool]) -> None:
    """Let the trainers step the environment together until all have finished and `over` is true."""
    begun = False
    try:
        while True:
            for trainer in trainers:
                trainer.resume()
            if all(trainer.finished for trainer in trainers) and over():
                return
            if not begun:
                outcomes = agents.reset()
                begun = True
            elif any(trainer.env.actions is not None for trainer in trainers):
                outcomes = agents.step({trainer.name: trainer.env.actions for trainer in trainers})
            for trainer in trainers:
                trainer.env.take(outcomes[trainer.name])
    finally:
        for trainer in trainers:
            trainer.cancel()
