"""Eigendecompositions of symmetric matrices, in threads."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

# Smaller ones are rounding: nothing is known of these directions.
LEAST_EIGENVALUE = 1e-6


class Decomposer:
    """Decomposes a fixed number of matrices at a time.

    They are handed in and out end to end, in one vector: [n, n] each, then n eigenvalues and [n, n] eigenvectors (as
    columns) each.

    Args:
        sizes: n of each matrix.
        threads: how many matrices are decomposed side by side.
    """

    def __init__(self, sizes: Sequence[int], threads: int) -> None:
        self._ends = np.cumsum([size * size for size in sizes])
        self._sizes = list(sizes)
        self._pool = ThreadPoolExecutor(min(threads, len(self._sizes)), thread_name_prefix="eigen")
        self._jobs: list[Future] = []

    def close(self) -> None:
        """End the threads, after the matrices that they are at."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    @property
    def busy(self) -> bool:
        """Whether there are matrices whose decomposition was not taken yet."""
        return bool(self._jobs)

    @property
    def done(self) -> bool:
        """Whether `result` has nothing to wait for."""
        return all(job.done() for job in self._jobs)

    def begin(self, matrices: np.ndarray) -> None:
        """Start with finite ones; the vector is read until the result is there."""
        parts = np.split(matrices, self._ends[:-1])
        shaped = [part.reshape(size, size) for part, size in zip(parts, self._sizes, strict=True)]
        self._jobs = [self._pool.submit(decomposed, matrix) for matrix in shaped]

    def result(self) -> np.ndarray:
        """Wait for the decompositions, end to end."""
        jobs, self._jobs = self._jobs, []
        return np.concatenate([part.ravel() for job in jobs for part in job.result()])


def decomposed(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues [n], those that are not clearly positive as 0, and eigenvectors [n, n] of a matrix."""
    # LAPACK, behind numpy, is 1.5 times as fast as TensorFlow's Eigen and a hundred times as exact. In a run it
    # keeps to one thread (parallel/blas.py), so that matrices are decomposed side by side.
    values, vectors = np.linalg.eigh(matrix)
    return np.where(values > LEAST_EIGENVALUE, values, np.float32(0.0)), vectors
