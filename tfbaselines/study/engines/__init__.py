"""Engines that start workers elsewhere: Slurm, Ray, Dask. Each worker runs cells until the study is done."""

import functools
import importlib
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

from tfbaselines.errors import UsageError, check_at_least
from tfbaselines.study.store import Study
from tfbaselines.study.worker import work


def needed(module: str, extra: str) -> ModuleType:
    """Import a module; UsageError that names the extra if it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UsageError(f'--{extra} needs {module}: pip install "tfbaselines[{extra}]"') from None


def carry(directory: str, jobs: int) -> int:
    """Work on a study, on the machine and in the process that an engine chose; return the worker's status."""
    return work(Study(directory), jobs)


def spread(submit: Callable[..., Any], study: Study, workers: int, jobs: int) -> list[Any]:
    """Submit workers; return what `submit(function, *arguments)` returns for each."""
    check_at_least(1, workers=workers, jobs=jobs)
    study.check_version()
    return [submit(functools.partial(carry, os.path.abspath(study.directory), jobs)) for _ in range(workers)]
