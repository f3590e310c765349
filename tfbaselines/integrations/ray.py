"""Ray Tune: each trial is the ordinary command in a process of its own, with its logs in the trial's directory.

tune.Tuner(trainable("ppo2", env="CartPole-v1", num_timesteps=1e5), param_space={"lr": tune.loguniform(1e-5, 1e-2)})
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tfbaselines.study.cells import Cell, parse_words
from tfbaselines.study.engines import needed
from tfbaselines.study.measures import Measured, last_row, measure, number_of
from tfbaselines.study.process import last_error, shared_cores, start
from tfbaselines.study.store import OUTPUT
from tfbaselines.study.worker import run_command

# Seconds between two looks at a run's table.
EVERY = 0.5


def trainable(alg: str, **arguments: Any) -> Callable[[dict[str, Any]], None]:
    """Make the function of a trial; its config has further arguments of the command line.

    Each new row of progress.csv is reported with `score`, the latest mean return, `steps` and `seconds`. The log
    directory is Tune's checkpoint, from which a trial that failed, or took over another's weights, continues.

    Args:
        alg: algorithm.
        arguments: arguments of the command line for every trial, such as env and num_timesteps.
    """
    words = {"alg": alg} | {name: str(value) for name, value in arguments.items()}
    parse_words(words)

    def train(config: dict[str, Any]) -> None:
        _Trial(words | {name: str(value) for name, value in config.items()}).run()

    return train


class _Trial:
    def __init__(self, words: dict[str, str]) -> None:
        parse_words(words)
        self._tune = needed("ray.tune", "ray")
        self._cell = Cell("trial", "trial", "run", words)
        self._place = Path(self._tune.get_context().get_trial_dir()).absolute() / self._cell.directory
        self._reported: Measured | None = None
        self._checkpoint = ""

    def run(self) -> None:
        if checkpoint := self._tune.get_checkpoint():
            with checkpoint.as_directory() as saved:
                shutil.rmtree(self._place, ignore_errors=True)
                shutil.copytree(saved, self._place)
        self._place.mkdir(parents=True, exist_ok=True)
        with open(self._place / OUTPUT, "ab") as output:
            before = output.tell()
            process = start(run_command(self._cell, self._place), output, shared_cores(1))
        try:
            while process.poll() is None:
                self._report()
                time.sleep(EVERY)
            self._report()
        finally:
            # Tune ends a trial by an exception of its report.
            process.terminate()
            process.wait()
        if process.returncode:
            raise RuntimeError(last_error(self._place / OUTPUT, before) or f"ended with status {process.returncode}")

    def _report(self) -> None:
        """Report the last row, if it is new, with a checkpoint, if there is a new one."""
        measured = measure(self._place)
        if measured.score is None or measured == self._reported:
            return
        self._reported = measured
        numbers = {name: number_of(value) for name, value in last_row(self._place).items()}
        metrics = {name: value for name, value in numbers.items() if value is not None} | measured._asdict()
        latest = max((path.name for path in self._place.glob("checkpoints/*") if path.name.isdigit()), default="")
        with tempfile.TemporaryDirectory() as scratch:
            copy = self._copied(scratch) if latest > self._checkpoint else None
            self._checkpoint = latest if copy else self._checkpoint
            self._tune.report(metrics, checkpoint=copy and self._tune.Checkpoint.from_directory(copy))

    def _copied(self, scratch: str) -> str | None:
        """Copy the log directory as a kill at this moment would leave it; None if a file went away meanwhile."""
        copy = os.path.join(scratch, "run")
        try:
            shutil.copytree(self._place, copy, ignore=shutil.ignore_patterns(".*"))
        except (OSError, shutil.Error):
            return None
        return copy
