"""Many cases in one collected test."""

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest


def for_each(names: str | Sequence[str], cases: Iterable[Any]) -> Callable:
    """Run a test with every case, as ``pytest.mark.parametrize`` does, but collect it once.

    The cases share the test's fixtures. The error of a case that fails begins with its values.

    Args:
        names: parameter of the test that takes a case, or several that take its parts.
        cases: values, or tuples of as many values as there are names.
    """
    several = not isinstance(names, str)
    wanted, cases = tuple(names) if several else (names,), list(cases)
    assert cases

    def decorate(test):
        signature = inspect.signature(test)

        @functools.wraps(test)
        def looped(**fixtures):
            for case in cases:
                values = dict(zip(wanted, case if several else (case,), strict=True))
                try:
                    test(**values, **fixtures)
                except (Exception, pytest.fail.Exception) as error:
                    raise AssertionError(f"case {values}: {error}") from error

        left = [one for name, one in signature.parameters.items() if name not in wanted]
        looped.__signature__ = signature.replace(parameters=left)
        return looped

    return decorate
