"""The run of trpo_mpi, ppo1 and gail: updates take batches of steps; it ends at the first of several limits."""

import time
from collections.abc import Callable, Iterator
from typing import Any

from tfbaselines.envs.vec import VecEnv
from tfbaselines.logs.episodes import EPISODES_IN_MEAN, Episodes
from tfbaselines.logs.iteration_rows import columns
from tfbaselines.running.on_policy import OnPolicyRun
from tfbaselines.running.plan import UNLIMITED, Plan
from tfbaselines.settings.bases import BatchConfig
from tfbaselines.settings.config import NetworkSpec


class BatchRun(OnPolicyRun):
    """Episodes count whichever rank they ended on: in the means of the logs and for the limit.

    Attributes:
        episodes_in_update: how many episodes have ended in this update.

    Args:
        name: the algorithm's name.
        network: as given to learn.
        env: the environments.
        config: the algorithm's arguments.
        episodes_in_mean: the latest episodes, over which the logs' means go.
        rollouts_per_update: batches of steps in an update.
    """

    def __init__(
        self,
        name: str,
        network: NetworkSpec,
        env: VecEnv,
        config: BatchConfig,
        episodes_in_mean: int = EPISODES_IN_MEAN,
        rollouts_per_update: int = 1,
    ) -> None:
        steps = -(-config.batch_steps // env.num_envs) * env.num_envs * rollouts_per_update
        most = config.most_timesteps(steps)
        plan = Plan(
            total_timesteps=UNLIMITED if most is None else most,
            steps_per_update=steps,
            save_interval=config.save_interval,
        )
        super().__init__(name, network, env, config, columns, plan, False, rollouts_per_update)
        self.episodes, self.episodes_in_update = Episodes(episodes_in_mean), 0

    def updates(self) -> Iterator[int]:
        """See Run; the callback comes before each update."""
        callback = self.config.callback
        for update in super().updates():
            if callback is not None:
                callback(self._named(), {})
            self.episodes_in_update = 0
            yield update

    def collected(self, episodes: list[dict[str, Any]]) -> None:
        """See OnPolicyRun."""
        episodes = [episode for own in self.comm.gather(episodes) for episode in own]
        self.episodes_in_update += len(episodes)
        super().collected(episodes)

    def finish_update(self, row: Callable[[], dict[str, Any]]) -> None:
        """See Run."""
        most, seconds = self.config.max_episodes, self.config.seconds
        if (most and self.episodes.count >= most) or (seconds and time.perf_counter() - self._started >= seconds):
            self.stop()
        super().finish_update(row)

    def _named(self) -> dict[str, Any]:
        """What callbacks look at, under the original's names."""
        return {
            "run": self,
            "pi": self.model,
            "env": self.env,
            "iters_so_far": self.update - 1,
            "timesteps_so_far": self.steps_of_all() - self.plan.steps_per_update * self.comm.size,
            "episodes_so_far": self.episodes.count,
        }
