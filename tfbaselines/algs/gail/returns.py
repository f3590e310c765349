"""Returns of episodes in the discriminator's rewards."""

from typing import Any

import numpy as np

from tfbaselines.logs.statistics import Episodes
from tfbaselines.parallel import mpi
from tfbaselines.rollout.rollout import Rollout


class LearnedReturns:
    """Returns of episodes in learned rewards, which no monitor records; a part of the run (see Run.acts).

    Args:
        env: the environments.
        in_mean: number of the latest episodes in the mean.
        comm: communicator of the ranks; the episodes of all ranks count.
    """

    def __init__(self, env: Any, in_mean: int, comm: mpi.Communicator) -> None:
        self._env = env
        self._comm = comm
        self._latest = Episodes(in_mean)
        self._sums = np.zeros(env.num_envs)
        self._steps = np.zeros(env.num_envs, np.int64)

    @property
    def mean(self) -> float:
        """Mean return of the latest episodes; nan before the first one ends."""
        return self._latest.mean_reward

    def add(self, rollout: Rollout) -> None:
        """Add a rollout with learned rewards."""
        episodes = []
        for rewards, ended in zip(rollout.rewards, rollout.ended, strict=True):
            self._sums += rewards
            self._steps += 1
            episodes += [{"r": self._sums[i], "l": self._steps[i]} for i in np.flatnonzero(ended)]
            self._sums[ended] = 0.0
            self._steps[ended] = 0
        self._latest.extend([episode for rank in self._comm.gather(episodes) for episode in rank])

    def state(self) -> dict[str, Any]:
        """Save the sums of unfinished episodes, and the latest episodes."""
        return {"sums": self._sums.copy(), "steps": self._steps.copy(), "latest": self._latest.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Load a state that `state` returned; the sums only if the environments continue their episodes."""
        self._latest.restore(state["latest"])
        if self._env.restored:
            self._sums = np.array(state["sums"])
            self._steps = np.array(state["steps"])
