"""Workers as tasks of Ray, on a cluster or on a local one that ends with this process."""

from tfbaselines.study.engines import needed, spread
from tfbaselines.study.store import Study


def run(study: Study, workers: int, jobs: int, address: str | None = None) -> list[int]:
    """Run workers until the study is done; return their statuses. Ray starts a worker anew if its process dies.

    Args:
        study, workers, jobs: the study, number of tasks, and runs at once in each, which take a core each.
        address: address of the cluster, or 'auto'; None for a local one.
    """
    ray = needed("ray", "ray")
    cores = None if address else workers * jobs
    ray.init(address=address, num_cpus=cores, include_dashboard=False if address is None else None)
    try:
        task = ray.remote(num_cpus=jobs, max_retries=-1)(lambda function: function())
        return ray.get(spread(task.remote, study, workers, jobs))
    finally:
        ray.shutdown()
