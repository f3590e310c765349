"""Outputs of the logger to Weights & Biases and MLflow, for those who have installed them.

Whether they send anything, and where, is set as their users do: WANDB_MODE, WANDB_PROJECT, MLFLOW_TRACKING_URI. MLflow
writes into the log directory where nothing is set.
"""

import importlib
import os
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfbaselines.errors import UsageError
from tfbaselines.logs.formats import STEPS, KVWriter

PROJECT = "tfbaselines"


class Service(KVWriter):
    """An output to a package of the user's. A run that is resumed goes on in the same record.

    Args:
        directory: the log directory; the record's id is kept there.
        append: go on with that record.
    """

    package = ""
    # What is installed for it.
    requirement = ""

    def __init__(self, directory: str | os.PathLike, append: bool = False) -> None:
        try:
            self._module = importlib.import_module(self.package)
        except ImportError:
            needed = f"log format '{self.package}' needs the package: pip install {self.requirement}"
            raise UsageError(needed) from None
        self.directory, self._rows = Path(directory), 0
        kept = self.directory / f"{self.package}_id.txt"
        known = kept.read_text(encoding="utf-8").strip() if append and kept.exists() else None
        try:
            kept.write_text(self._begin(known), encoding="utf-8")
        except Exception as error:
            why = " ".join(str(error).split())[:300]
            raise UsageError(f"log format '{self.package}' could not begin ({type(error).__name__}: {why})") from None

    @abstractmethod
    def _begin(self, known: str | None) -> str:
        """Begin a record, or go on with one; returns its id."""

    def writekvs(self, kvs: dict[str, Any]) -> None:
        """See KVWriter."""
        numbers = {key: float(value) for key, value in kvs.items() if hasattr(value, "__float__")}
        self._rows += 1
        step = int(next((numbers[name] for name in STEPS if name in numbers), self._rows))
        try:
            self._write(numbers, step)
        except Exception as error:
            # Of any kind that the package has; the logger goes on after one of these.
            raise OSError(f"{type(error).__name__}: {error}") from error

    @abstractmethod
    def _write(self, numbers: dict[str, float], step: int) -> None:
        """Write one row; failures of any kind may be raised."""


class Wandb(Service):
    """Weights & Biases."""

    package = requirement = "wandb"

    def _begin(self, known: str | None) -> str:
        project = os.environ.get("WANDB_PROJECT", PROJECT)
        self._run = self._module.init(project=project, dir=str(self.directory), id=known, resume="allow")
        return self._run.id

    def describe(self, parameters: Mapping[str, Any]) -> None:
        """See KVWriter."""
        self._run.config.update(dict(parameters), allow_val_change=True)

    def _write(self, numbers: dict[str, float], step: int) -> None:
        self._run.log(numbers, step=step)

    def close(self) -> None:
        """See KVWriter."""
        if self._run is not None:
            self._run.finish()
            self._run = None


class Mlflow(Service):
    """MLflow."""

    package, requirement = "mlflow", "mlflow-skinny"

    def _begin(self, known: str | None) -> str:
        if "MLFLOW_TRACKING_URI" not in os.environ:
            # Plain files, which need no database; newer versions want to be asked for them.
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
            self._module.set_tracking_uri((self.directory.resolve() / "mlruns").as_uri())
        if known is None:
            self._module.set_experiment(PROJECT)
        self._open = True
        return self._module.start_run(run_id=known).info.run_id

    def describe(self, parameters: Mapping[str, Any]) -> None:
        """See KVWriter. A parameter of a record cannot change: a resumed run keeps the first ones."""
        if self._rows == 0 and not self._module.active_run().data.params:
            self._module.log_params({name: str(value)[:500] for name, value in parameters.items()})

    def _write(self, numbers: dict[str, float], step: int) -> None:
        # Names may not have every character.
        self._module.log_metrics({key.replace("%", "percent").strip(): value for key, value in numbers.items()}, step)

    def close(self) -> None:
        """See KVWriter."""
        if self._open:
            self._module.end_run()
            self._open = False


SERVICES: dict[str, type[Service]] = {"wandb": Wandb, "mlflow": Mlflow}
