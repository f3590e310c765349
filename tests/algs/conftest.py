"""Fixtures that the tests of several algorithms share."""

import pytest
import tensorflow as tf
from small import recorded


@pytest.fixture
def eager():
    """Operations one by one: where there are few updates, compiling would take most of the time."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture
def seen(monkeypatch):
    """Every block of batches of an off-policy algorithm, in place of learning."""
    return recorded(monkeypatch)
