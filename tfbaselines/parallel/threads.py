"""Threads of numpy's matrix products.

The cores of the machine that this process may use.
"""

import functools
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np  # noqa: F401 (its libraries are looked for)
from threadpoolctl import ThreadpoolController


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
