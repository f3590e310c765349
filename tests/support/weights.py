"""Golden weights in and out of Keras variables, and how close numbers must be to golden ones."""

import itertools

import numpy as np


def in_golden_order(variables: list, named: dict[str, np.ndarray]) -> list:
    """Keras variables in the order of the golden arrays: layer norm is (beta, gamma) there, (gamma, beta) in Keras."""
    ordered = list(variables)
    assert len(ordered) == len(named)
    names = [name.rsplit(".", 1)[-1] for name in named]
    for k, (first, second) in enumerate(itertools.pairwise(names)):
        if (first, second) == ("beta", "gamma") and ordered[k].name == "gamma":
            ordered[k], ordered[k + 1] = ordered[k + 1], ordered[k]
    return ordered


def assign(variables: list, named: dict[str, np.ndarray]) -> None:
    """Give the variables the golden values; a bias of shape [1, n, 1, 1] is the same numbers as one of [n]."""
    for variable, value in zip(in_golden_order(variables, named), named.values(), strict=True):
        assert int(np.prod(variable.shape)) == value.size, (variable.path, variable.shape, value.shape)
        variable.assign(value.reshape(variable.shape))


def assert_close(actual: np.ndarray, expected: np.ndarray, name: str = "", tolerance: float = 1e-5) -> None:
    """Equal to a part of the largest golden number, or of 1: the originals' own float32 is no better."""
    expected = np.asarray(expected)
    largest = np.max(np.abs(expected[np.isfinite(expected)]), initial=1.0)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * largest, err_msg=name)


def assert_equal(variables: list, named: dict[str, np.ndarray]) -> None:
    """The variables hold the golden values."""
    for variable, (name, value) in zip(in_golden_order(variables, named), named.items(), strict=True):
        assert_close(variable.numpy().reshape(value.shape), value, name)
