"""Workers as Slurm jobs, by submitit; `cluster=local` starts them as processes of this machine."""

import signal
from collections.abc import Callable
from typing import Any

from tfbaselines.errors import UsageError
from tfbaselines.study.engines import needed, spread
from tfbaselines.study.store import Study
from tfbaselines.words import value_of

# Parameters that submitit has for every kind of cluster; others are Slurm's.
SHARED = (
    "timeout_min",
    "mem_gb",
    "nodes",
    "cpus_per_task",
    "gpus_per_node",
    "tasks_per_node",
    "name",
    "stderr_to_stdout",
)


class Requeued:
    """A worker that Slurm queues again when its time is over; submitit sends SIGUSR2 before that.

    Args:
        carry: function that works on the study and returns the worker's status.
    """

    def __init__(self, carry: Callable[[], int]) -> None:
        self.carry = carry

    def __call__(self) -> int:
        """Work; after SIGUSR2 the runs are saved and their cells open, so let submitit queue the job again."""
        status = self.carry()
        if status == 128 + signal.SIGUSR2:
            signal.raise_signal(signal.SIGUSR2)
        return status

    def checkpoint(self) -> Any:
        """Return what submitit queues again."""
        return needed("submitit", "slurm").helpers.DelayedSubmission(self)


def submit(study: Study, workers: int, jobs: int, settings: list[str]) -> list[Any]:
    """Submit jobs; return submitit's jobs.

    Args:
        study, workers, jobs: the study, number of Slurm jobs, and runs at once in each.
        settings: 'name=value' of submitit (timeout_min=60) or of sbatch (partition=gpu); cluster=local for none.
    """
    submitit = needed("submitit", "slurm")
    given = dict(word.partition("=")[::2] for word in settings)
    executor = submitit.AutoExecutor(folder=study.queue.parent / "slurm", cluster=given.pop("cluster", None))
    parameters = {name if name in SHARED else f"slurm_{name}": value_of(value) for name, value in given.items()}
    try:
        executor.update_parameters(**{"name": study.directory.resolve().name, "timeout_min": 24 * 60} | parameters)
    except (NameError, ValueError, TypeError) as error:
        raise UsageError(f"--slurm {' '.join(settings)}: {error}") from None
    with executor.batch():
        return spread(lambda function: executor.submit(Requeued(function)), study, workers, jobs)
