"""Threads of numpy's matrix products."""

from contextlib import AbstractContextManager

from threadpoolctl import threadpool_limits


def one_blas_thread() -> AbstractContextManager:
    """A context in which numpy computes a matrix product in one thread.

    OpenBLAS takes several for larger products. They spin for a while afterwards, which takes the cores from
    TensorFlow's, and on a busy machine they wait for one another some hundred times as long as the product takes.
    """
    return threadpool_limits(limits=1, user_api="blas")
