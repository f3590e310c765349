"""Parts that several threads use as one, numpy's threads, and the cores that this process may use."""

import functools
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np  # noqa: F401 (loads its BLAS library)
from threadpoolctl import ThreadpoolController


class Together:
    """Save and restore several parts as one, such as the environments of training and of tests.

    Args:
        parts: objects with state() and restore().
    """

    def __init__(self, parts: Sequence[Any]) -> None:
        self._parts = list(parts)

    def state(self) -> dict[str, Any]:
        """Return the states of all parts by number."""
        return {str(number): part.state() for number, part in enumerate(self._parts)}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the result of `state`, or the state of the first part; parts without state stay the same."""
        if "0" not in state:
            state = {"0": state}
        for number, part in enumerate(self._parts):
            if str(number) in state:
                part.restore(state[str(number)])

    @property
    def restored(self) -> bool:
        """Whether every part continues its episodes; see VecEnv."""
        return all(part.restored for part in self._parts)

    def merge_statistics(self, comm: Any) -> None:
        for part in self._parts:
            part.merge_statistics(comm)


def one_blas_thread() -> AbstractContextManager:
    """Return a context in which numpy computes matrix products in one thread.

    OpenBLAS uses several threads for larger products. They spin afterwards, which takes cores from TensorFlow, and on a
    busy machine they wait for each other some hundred times as long as the product takes.
    """
    return _libraries().limit(limits=1, user_api="blas")


@functools.cache
def _libraries() -> ThreadpoolController:
    """Find the libraries with threads, once, since this takes 3 to 10 ms beside TensorFlow."""
    return ThreadpoolController()


def usable_cores() -> set[int]:
    """Return the numbers of the cores that the launcher, batch system or container leaves to this process."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
