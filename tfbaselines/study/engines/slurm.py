"""Workers as Slurm jobs, by submitit; `cluster=local` starts them as processes of this machine."""

import shutil
import signal
from collections.abc import Callable
from typing import Any

from tfbaselines.errors import UsageError
from tfbaselines.study.engines import needed, spread
from tfbaselines.study.store import Study
from tfbaselines.words import value_of

# Parameters that submitit has for every kind of cluster; others are Slurm's.
SHARED = ("timeout_min", "mem_gb", "nodes", "cpus_per_task", "gpus_per_node", "tasks_per_node", "name")


class Requeued:
    """A worker that Slurm queues again when its time is over; submitit sends SIGUSR2 before that."""

    def __init__(self, carry: Callable[[], int]) -> None:
        self.carry = carry

    def __call__(self) -> int:
        """Work; after SIGUSR2 the cells are open again, so submitit may queue the job again."""
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
    submitit, shown = needed("submitit", "slurm"), f"--slurm {' '.join(settings)}"
    given = dict(word.split("=", 1) for word in settings if "=" in word)
    if len(given) < len(settings):
        raise UsageError(f"{shown}: write NAME=VALUE, each name once, as in partition=gpu")
    cluster = given.pop("cluster", "slurm")
    if cluster == "slurm" and shutil.which("sbatch") is None:
        raise UsageError("there is no sbatch on this machine: submit where Slurm is, or try --slurm cluster=local")
    parameters = {name if name in SHARED else f"slurm_{name}": value_of(value) for name, value in given.items()}
    try:
        executor = submitit.AutoExecutor(folder=study.directory / "slurm", cluster=cluster)
        executor.update_parameters(**{"name": study.directory.resolve().name, "timeout_min": 24 * 60} | parameters)
    except (NameError, ValueError, TypeError) as error:
        raise UsageError(f"{shown}: {error}") from None
    with executor.batch():
        return spread(lambda function: executor.submit(Requeued(function)), study, workers, jobs)
