"""Threads that work side by side: each does its own job over and over, and all can be held still between two turns.

Threads of numpy's matrix products.

The cores of the machine that this process may use.
"""

import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np  # noqa: F401 (its libraries are looked for)
from threadpoolctl import ThreadpoolController


class Crew:
    """Does each of some jobs over and over: one in the caller's thread, several in threads of their own.

    Args:
        jobs: functions without arguments.
    """

    def __init__(self, jobs: Sequence[Callable[[], Any]]) -> None:
        self._jobs = list(jobs)
        self._threads: list[threading.Thread] = []
        self._change = threading.Condition()
        self._results: deque[tuple[int, Any, BaseException | None]] = deque()
        self._turns = self._busy = 0
        self._held = False

    def __enter__(self) -> "Crew":
        return self

    def __exit__(self, *_: Any) -> None:
        with self._change:
            self._turns, self._held = 0, False
            self._change.notify_all()
        for thread in self._threads:
            thread.join()

    def results(self, turns: int) -> Iterator[tuple[int, Any]]:
        """The number of a job and what it returned, `turns` times, in the order in which they finish.

        What a job raises is raised here.
        """
        if len(self._jobs) == 1:
            for _ in range(turns):
                yield 0, self._jobs[0]()
            return
        self._turns = turns
        self._threads = [threading.Thread(target=self._work, args=(i,), daemon=True) for i in range(len(self._jobs))]
        for thread in self._threads:
            thread.start()
        for _ in range(turns):
            with self._change:
                self._change.wait_for(lambda: self._results)
                number, result, error = self._results.popleft()
                self._change.notify_all()
            if error is not None:
                raise error
            yield number, result

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Waits until every thread has ended its turn, and lets none begin another inside of the context."""
        with self._change:
            self._held = True
            self._change.wait_for(lambda: self._busy == 0)
        try:
            yield
        finally:
            with self._change:
                self._held = False
                self._change.notify_all()

    def _work(self, number: int) -> None:
        while self._begin():
            result, error = None, None
            try:
                result = self._jobs[number]()
            except BaseException as caught:
                error = caught
            with self._change:
                self._busy -= 1
                self._results.append((number, result, error))
                self._change.notify_all()
            if error is not None:
                return

    def _begin(self) -> bool:
        with self._change:
            # Nobody runs ahead of a reader who is slow.
            self._change.wait_for(lambda: self._turns == 0 or (not self._held and len(self._results) < len(self._jobs)))
            if self._turns == 0:
                return False
            self._turns -= 1
            self._busy += 1
            return True


class Together:
    """Several parts, as of threads or of training and tests, saved and restored as one.

    Args:
        parts: have state() and restore().
    """

    def __init__(self, parts: Sequence[Any]) -> None:
        self._parts = list(parts)

    def state(self) -> dict[str, Any]:
        """Every part's, by number."""
        return {str(number): part.state() for number, part in enumerate(self._parts)}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `state` gave, or what the first part alone gave; parts that had none stay as they are."""
        if "0" not in state:
            state = {"0": state}
        for number, part in enumerate(self._parts):
            if str(number) in state:
                part.restore(state[str(number)])

    @property
    def restored(self) -> bool:
        """Whether every part goes on where it stood; see VecEnv."""
        return all(part.restored for part in self._parts)

    def merge_statistics(self, comm: Any) -> None:
        """See VecEnv."""
        for part in self._parts:
            part.merge_statistics(comm)


def one_blas_thread() -> AbstractContextManager:
    """A context in which numpy computes a matrix product in one thread.

    OpenBLAS takes several for larger products. They spin for a while afterwards, which takes the cores from
    TensorFlow's, and on a busy machine they wait for one another some hundred times as long as the product takes.
    """
    return _libraries().limit(limits=1, user_api="blas")


@functools.cache
def _libraries() -> ThreadpoolController:
    """Those with threads of their own; looked for once, since it takes 3 to 10 ms where TensorFlow is loaded."""
    return ThreadpoolController()


def usable_cores() -> set[int]:
    """Their numbers: all of the machine's, or those that a launcher, a batch system or a container left to it."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
