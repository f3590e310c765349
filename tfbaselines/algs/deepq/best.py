"""Best policy of a run: kept while it trains, and restored at its end."""

import os
from typing import Any

from tfbaselines.logs import logger
from tfbaselines.training.model import Part

# Name of the model's file in a directory of baselines' checkpoint_path.
MODEL = "model"


def model_in(directory: str | None) -> str | None:
    """The path of the model that an earlier run left in a directory; None where there is none."""
    path = None if directory is None else os.path.join(os.path.expanduser(directory), MODEL)
    return path if path and os.path.isfile(path) else None


class BestPolicy(Part):
    """The parameters with which the mean return of the latest episodes was the largest; one of the model's `parts`.

    Args:
        run: the run.
        directory: where the model is saved whenever it is the best so far; None for nowhere.
    """

    def __init__(self, run: Any, directory: str | None = None) -> None:
        self._run, self._directory = run, directory
        self._mean: float | None = None
        self._policy: dict[str, Any] | None = None

    def consider(self, least_episodes: int) -> None:
        """Keep the present parameters if the mean is the largest so far; rank 0's episodes decide.

        Args:
            least_episodes: episodes of the run before there is a mean.
        """
        run = self._run
        count, mean = run.episodes.count, run.episodes.mean_reward
        if run.comm.size > 1:
            count, mean = run.comm.broadcast_object((count, mean))
        if count < least_episodes or (self._mean is not None and mean <= self._mean):
            return
        logger.info(f"saving the model: its mean reward was {self._mean}, and is now {mean:.4g}")
        self._mean, self._policy = mean, run.model.policy.state()
        if self._directory is not None and run.is_root:
            directory = os.path.expanduser(self._directory)
            os.makedirs(directory, exist_ok=True)
            run.model.save(os.path.join(directory, MODEL))

    def take(self) -> None:
        """Give the policy the best parameters, if any were kept."""
        if self._policy is not None:
            logger.info(f"the model is the one with a mean reward of {self._mean:.4g}")
            self._run.model.policy.restore(self._policy)
            self._run.model.ready()

    def state(self) -> dict[str, Any]:
        """The mean and the parameters."""
        return {"best": {"mean": self._mean, "policy": self._policy}}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `state` gave if the run goes on; one that starts from a saved model has a best of its own."""
        if not self._run.options.resume:
            return
        self._mean, self._policy = state["best"]["mean"], state["best"]["policy"]
