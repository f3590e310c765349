import gc
import os
import shutil

import hypothesis
import pytest

from tfbaselines.training.guards import heed

# Workers side by side share the cores, and so do the processes that they start. TensorFlow is not imported yet.
WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1))
if WORKERS > 1:
    for name in ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, str(max(1, (os.cpu_count() or 1) // WORKERS)))

# Runs that tests start stop at signals, also where the tests themselves run under nohup or in a shell's background.
heed()

# Files of tests need not outlive a loss of power: a run of a second would wait a tenth of it for the disk.
os.fsync = lambda descriptor: None

# A busy machine is no defect of a property.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")


def pytest_collection_modifyitems(items):
    """The slowest begin first, so that no worker is left alone with one of them at the end."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_collection_finish():
    """The collector of garbage need not look again at what imports have made, a tenth of the suite's time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _fresh_logger(monkeypatch):
    """No test writes where another's logger was configured, nor where the shell's variables point."""
    from tfbaselines.logs import logger

    for name in ("OPENAI_LOGDIR", "OPENAI_LOG_FORMAT", "OPENAI_LOG_FORMAT_MPI"):
        monkeypatch.delenv(name, raising=False)
    yield
    logger.reset()
    default = logger.Logger.DEFAULT
    if default is not None:
        # It holds the standard output of the test that first needed it.
        default.close()
        shutil.rmtree(default.dir, ignore_errors=True)
        logger.Logger.CURRENT = logger.Logger.DEFAULT = None


@pytest.fixture
def eager(monkeypatch):
    """Operations one by one: where there are few updates, compiling would take most of the time."""
    import tensorflow as tf
    from tensorflow.python import pywrap_tfe

    # A seed drops the kernels of all operations, for those that draw from TensorFlow's global generator, as none of
    # ours does; making them anew would take a fifth of the time.
    monkeypatch.setattr(pywrap_tfe, "TFE_ContextClearCaches", lambda context: None)
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture
def seen(monkeypatch):
    """Every block of batches of an off-policy algorithm, in place of learning."""
    from small_runs import recorded

    return recorded(monkeypatch)
