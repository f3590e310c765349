"""The columns that trpo_mpi and ppo1 share, under the names of baselines."""

from typing import Any


def columns(run: Any) -> dict[str, Any]:
    """Episodes and steps of all ranks.

    Args:
        run: the BatchRun, whose counters and episodes these are.
    """
    return {
        "EpLenMean": run.episodes.mean_length,
        "EpRewMean": run.episodes.mean_reward,
        "EpThisIter": run.episodes_in_update,
        "EpisodesSoFar": run.episodes.count,
        "TimestepsSoFar": run.steps_of_all(),
        "TimeElapsed": run.elapsed,
    }
