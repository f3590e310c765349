"""Threads of numpy's matrix products."""

import functools
from contextlib import AbstractContextManager

import numpy as np  # noqa: F401 (its libraries are looked for)
from threadpoolctl import ThreadpoolController


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
