"""Workers as tasks of Dask, on a cluster or on a local one that ends with this process."""

from tfbaselines.study.engines import needed, spread
from tfbaselines.study.store import Study


def run(study: Study, workers: int, jobs: int, address: str | None = None) -> list[int]:
    """Run workers until the study is done; return their statuses. Dask repeats a task if its process dies.

    Args:
        study, workers, jobs: the study, number of tasks, and runs at once in each.
        address: address of the scheduler; None for a local cluster with a process for each worker.
    """
    distributed = needed("distributed", "dask")
    local = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None} if address is None else {}
    with distributed.Client(address, **local) as client:
        # Equal tasks are different workers.
        return client.gather(spread(lambda function: client.submit(function, pure=False), study, workers, jobs))
