"""Fixtures that the algorithms' tests share."""

import pytest
import tensorflow as tf

from tfbaselines.algs import acer


@pytest.fixture
def eager():
    """Operations one by one: where there are few updates, compiling would take most of the time."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture
def seen(monkeypatch):
    """The rate and the batch of every update, in place of learning."""
    seen = []

    class Recording(acer.Model):
        def train(self, lr, batch, rng=None, replayed=False):
            seen.append((lr, batch))
            return dict.fromkeys(self.statistic_names, float(replayed))

    monkeypatch.setattr(acer, "Model", Recording)
    return seen
