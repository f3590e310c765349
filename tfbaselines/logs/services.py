"""Outputs of the logger to Weights & Biases and MLflow, which the user installs.

Their own variables set where they send data: WANDB_MODE, WANDB_PROJECT, MLFLOW_TRACKING_URI. By default MLflow
writes into the log directory.
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
    """An output to an optional package; a resumed run continues the same record.

    Args:
        directory: the log directory; the record's id is kept there.
        append: continue that record.
    """

    package = ""
    # Name of the distribution that pip installs.
    requirement = ""

    def __init__(self, directory: str | os.PathLike, append: bool = False) -> None:
        try:
            self._module = importlib.import_module(self.package)
        except ImportError:
            needed = f"log format '{self.package}' needs the package: pip install {self.requirement}"
            raise UsageError(needed) from None
        self.directory = Path(directory)
        self._rows = 0
        kept = self.directory / f"{self.package}_id.txt"
        known = kept.read_text(encoding="utf-8").strip() if append and kept.exists() else None
        try:
            kept.write_text(self._begin(known), encoding="utf-8")
        except Exception as error:
            why = " ".join(str(error).split())[:300]
            raise UsageError(f"log format '{self.package}' could not begin ({type(error).__name__}: {why})") from None

    @abstractmethod
    def _begin(self, known: str | None) -> str:
        """Begin a record, or continue the one with this id; return its id."""

    def writekvs(self, kvs: dict[str, Any]) -> None:
        numbers = {key: float(value) for key, value in kvs.items() if hasattr(value, "__float__")}
        self._rows += 1
        step = int(next((numbers[name] for name in STEPS if name in numbers), self._rows))
        try:
            self._write(numbers, step)
        except Exception as error:
            # The package may raise errors of any type; the logger continues after an OSError.
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
        self._run.config.update(dict(parameters), allow_val_change=True)

    def _write(self, numbers: dict[str, float], step: int) -> None:
        self._run.log(numbers, step=step)

    def close(self) -> None:
        if self._run is not None:
            self._run.finish()
            self._run = None


class Mlflow(Service):
    """MLflow."""

    package, requirement = "mlflow", "mlflow-skinny"

    def _begin(self, known: str | None) -> str:
        if "MLFLOW_TRACKING_URI" not in os.environ:
            # Plain files need no database; newer versions require this variable for them.
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
            self._module.set_tracking_uri((self.directory.resolve() / "mlruns").as_uri())
        if known is None:
            self._module.set_experiment(PROJECT)
        self._open = True
        return self._module.start_run(run_id=known).info.run_id

    def describe(self, parameters: Mapping[str, Any]) -> None:
        """Record the arguments of a new record; MLflow refuses to change those of a resumed one."""
        if self._rows == 0 and not self._module.active_run().data.params:
            self._module.log_params({name: str(value)[:500] for name, value in parameters.items()})

    def _write(self, numbers: dict[str, float], step: int) -> None:
        # MLflow does not accept every character in a name.
        self._module.log_metrics({key.replace("%", "percent").strip(): value for key, value in numbers.items()}, step)

    def close(self) -> None:
        if self._open:
            self._module.end_run()
            self._open = False


SERVICES: dict[str, type[Service]] = {"wandb": Wandb, "mlflow": Mlflow}
