"""Eigendecompositions."""

import numpy as np

from tfbaselines.algs.acktr.kfac import Decomposer, decomposed


def test_large_matrices_are_decomposed_to_the_last_digits():
    rows = np.random.default_rng(0).normal(size=(800, 400)).clip(0.0).astype(np.float32)
    matrix = rows.T @ rows / len(rows)
    values, vectors = decomposed(matrix)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(400), atol=3e-6)
    np.testing.assert_allclose((vectors * values) @ vectors.T, matrix, atol=3e-6)
    assert values.dtype == vectors.dtype == np.float32


def test_decompositions():
    """Eigenvalues that are not clearly positive are 0."""
    matrices = [np.diag([3.0, 1e-7, -1e-5]).astype(np.float32), np.float32([[2.0, 1.0], [1.0, 2.0]])]
    decomposer = Decomposer([3, 2], 2)
    assert not decomposer.busy
    decomposer.begin(np.concatenate([matrix.ravel() for matrix in matrices]))
    assert decomposer.busy
    parts = np.split(decomposer.result(), [3, 12, 14])
    assert not decomposer.busy
    np.testing.assert_allclose(parts[0], [0.0, 0.0, 3.0])
    np.testing.assert_allclose(parts[2], [1.0, 3.0], rtol=1e-6)
    vectors = parts[3].reshape(2, 2)
    np.testing.assert_allclose(vectors * parts[2] @ vectors.T, matrices[1], rtol=1e-6)
