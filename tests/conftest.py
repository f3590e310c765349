import sys
from pathlib import Path

import hypothesis
import pytest

HERE = Path(__file__).parent
# Helpers that tests share: commands, golden cases, and small environments.
sys.path[:0] = [str(HERE), str(HERE / "golden"), str(HERE / "algs")]

# A busy machine is no defect of a property.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")


@pytest.fixture(autouse=True)
def _fresh_logger(monkeypatch):
    """No test writes where another's logger was configured, nor where the shell's variables point."""
    from tfbaselines.logs import logger

    for name in ("OPENAI_LOGDIR", "OPENAI_LOG_FORMAT", "OPENAI_LOG_FORMAT_MPI"):
        monkeypatch.delenv(name, raising=False)
    yield
    logger.reset()


@pytest.fixture
def eager():
    """Operations one by one: where there are few updates, compiling would take most of the time."""
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture
def seen(monkeypatch):
    """Every block of batches of an off-policy algorithm, in place of learning."""
    from small import recorded

    return recorded(monkeypatch)
