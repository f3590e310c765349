"""Best policy of a run: kept while it trains, and restored at its end."""

import os
from typing import Any

from tfbaselines.logs import logger
from tfbaselines.training.model import Part

# Episodes of a run before their mean return can be the best.
EPISODES_IN_BEST = 100

# Name of the model's file in a directory of baselines' checkpoint_path.
MODEL = "model"


def model_in(directory: str | None) -> str | None:
    """Return the path of the model that an earlier run left in a directory, or None."""
    path = None if directory is None else os.path.join(os.path.expanduser(directory), MODEL)
    return path if path and os.path.isfile(path) else None


class BestPolicy(Part):
    """Keeps the parameters with the largest mean return of the latest episodes; one of the model's `parts`.

    Args:
        run: the run.
        directory: directory for the best model; None saves nothing.
    """

    def __init__(self, run: Any, directory: str | None = None) -> None:
        self._run = run
        self._directory = directory
        self._mean: float | None = None
        self._policy: dict[str, Any] | None = None

    def consider(self) -> None:
        """Keep the present parameters if the mean return is the largest so far; rank 0's episodes decide."""
        run = self._run
        count, mean = run.episodes.count, run.episodes.mean_reward
        if run.comm.size > 1:
            count, mean = run.comm.broadcast_object((count, mean))
        if count < EPISODES_IN_BEST or (self._mean is not None and mean <= self._mean):
            return
        logger.info(f"saving the model: its mean reward was {self._mean}, and is now {mean:.4g}")
        self._mean = mean
        self._policy = run.model.policy.state()
        if self._directory is not None and run.is_root:
            directory = os.path.expanduser(self._directory)
            os.makedirs(directory, exist_ok=True)
            run.model.save(os.path.join(directory, MODEL))

    def take(self) -> None:
        """Restore the best parameters, if any were kept."""
        if self._policy is not None:
            logger.info(f"the model is the one with a mean reward of {self._mean:.4g}")
            self._run.model.policy.restore(self._policy)
            self._run.model.ready()

    def state(self) -> dict[str, Any]:
        """Return the best mean and its parameters."""
        return {"best": {"mean": self._mean, "policy": self._policy}}

    def restore(self, state: dict[str, Any]) -> None:
        """Load the result of `state` in a resumed run; a run that starts from a saved model begins without a best."""
        if not self._run.options.resume:
            return
        self._mean = state["best"]["mean"]
        self._policy = state["best"]["policy"]
