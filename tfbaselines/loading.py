"""Late and quiet loading of TensorFlow, and OpenGL, which must not be loaded beside it."""

import contextlib
import ctypes.util
import functools
import importlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from tfbaselines import LEFT_OUT
from tfbaselines.errors import UsageError


def import_named(name: str) -> ModuleType:
    """Import a module that the user named, in the working directory too."""
    if not name.startswith("tfbaselines."):
        find_in_working_directory()
    if not name:
        raise ImportError("it has no name")
    return importlib.import_module(name)


def find_in_working_directory() -> None:
    """Find modules in the working directory from now on, as `python -m` does, if our command left it out."""
    sys.path[:0] = LEFT_OUT
    LEFT_OUT.clear()


# In a process with TensorFlow, Mesa's off-screen libraries crash. Worker processes get WORKERS_GL as their MUJOCO_GL.
GL, WORKERS_GL = "MUJOCO_GL", "TFBASELINES_WORKERS_GL"
OFF_SCREEN = {"egl": "EGL", "osmesa": "OSMesa"}


def keep_gl_for_workers() -> None:
    """Leave MUJOCO_GL=egl or osmesa to the worker processes; this process does not render MuJoCo."""
    if os.environ.get(GL, "").lower() in OFF_SCREEN:
        os.environ[WORKERS_GL] = os.environ[GL]
        os.environ[GL] = "disabled"


def choose_workers_gl() -> None:
    """Let the worker processes of a machine without a display use EGL or OSMesa, unless the user has chosen."""
    if not {GL, WORKERS_GL} & os.environ.keys():
        found = [name for name, library in OFF_SCREEN.items() if ctypes.util.find_library(library)]
        if found:
            os.environ[WORKERS_GL] = found[0]


def load_tensorflow() -> None:
    """Import TensorFlow without the notices of its libraries."""
    if "tensorflow" in sys.modules:
        _find_devices()
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with silent_stderr(), absent("pandas", "matplotlib"):
        # Imported ahead of TensorFlow, it skips parts of itself that nothing here uses.
        import tensorflow_probability  # noqa: F401, I001
        import tensorflow  # noqa: F401
    _find_devices()


@functools.cache
def _find_devices() -> None:
    """Let TensorFlow look for processors now, without its errors about those that are not there."""
    with silent_stderr():
        sys.modules["tensorflow"].config.list_physical_devices()


def check_eager() -> None:
    """Raise a UsageError if a script has turned eager execution off."""
    import tensorflow as tf

    if not tf.executing_eagerly():
        raise UsageError(
            "TensorFlow's eager execution is off: call learn outside of tf.Graph().as_default() and of compat.v1 "
            "sessions, without disable_eager_execution() and disable_v2_behavior()"
        )


@contextlib.contextmanager
def absent(*names: str) -> Iterator[None]:
    """Hide installed packages from Keras, which would import them for functions that no command calls.

    Args:
        names: names of packages; imported ones stay.
    """
    hidden = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


@contextlib.contextmanager
def silent_stderr() -> Iterator[None]:
    """Drop the output of C libraries on standard error, unless the block fails."""
    try:
        sys.stderr.flush()
        kept = os.dup(2)
    except (AttributeError, OSError):
        # Standard error was closed from the start, and descriptor 2 may be a file of the run.
        kept = None
    if kept is None:
        yield
        return
    with tempfile.TemporaryFile() as scratch:
        os.dup2(scratch.fileno(), 2)
        try:
            yield
        except BaseException:
            scratch.seek(0)
            os.write(kept, scratch.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def lazily(package: str, *others: str) -> Callable[[str], Any]:
    """Make a package's ``__getattr__`` (PEP 562) that reads names from its modules on first use.

    Args:
        package: full name of the package; the module of the same name in it is the first.
        others: names of further modules.
    """

    def __getattr__(name: str) -> Any:
        if not name.startswith("__"):
            load_tensorflow()
            for own in (package.rpartition(".")[2], *others):
                module = importlib.import_module(f"{package}.{own}")
                if hasattr(module, name):
                    return getattr(module, name)
        raise AttributeError(f"module '{package}' has no attribute '{name}'")

    return __getattr__
