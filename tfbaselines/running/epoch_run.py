"""The run of Spinning Up's on-policy algorithms: an update an epoch, and a row of the logs with it."""

from typing import Any

from tfbaselines.envs.vec import VecEnv
from tfbaselines.logs.spinup_rows import SpinupRows
from tfbaselines.parallel import mpi
from tfbaselines.running.on_policy import OnPolicyRun
from tfbaselines.running.plan import Plan
from tfbaselines.settings.bases import EpochConfig
from tfbaselines.settings.config import NetworkSpec

# Of Gaussian policies, as in Spinning Up.
INITIAL_LOGSTD = -0.5


class EpochRun(OnPolicyRun):
    """See OnPolicyRun.

    Attributes:
        rows: makes the rows of the logs.

    Args:
        name: the algorithm's name.
        network: as given to learn.
        env: the environments.
        config: the algorithm's arguments.
        statistics: of the update; see SpinupRows.
        recurrent: policies with a memory can be trained.
    """

    def __init__(
        self,
        name: str,
        network: NetworkSpec,
        env: VecEnv,
        config: EpochConfig,
        statistics: tuple[str, ...],
        recurrent: bool = True,
    ) -> None:
        plan = plan_of_epochs(config, env.num_envs, mpi.wrap(config.comm).size)
        super().__init__(name, network, env, config, lambda _: self.rows(), plan, recurrent)
        if config.max_ep_len is not None:
            env.limit_episodes(config.max_ep_len)
        if self.policy.logstd is not None:
            self.policy.logstd.assign(self.policy.logstd.value * 0.0 + INITIAL_LOGSTD)
        self.rows = SpinupRows(self, statistics, config.logger_kwargs)

    def collected(self, episodes: list[dict[str, Any]]) -> None:
        """See OnPolicyRun."""
        super().collected(episodes)
        self.rows.collected(episodes)


def plan_of_epochs(config: EpochConfig, num_envs: int, ranks: int) -> Plan:
    """Updates of an epoch each, whose steps are shared out over ranks and environments.

    Args:
        config: the algorithm's arguments.
        num_envs: environments of this rank.
        ranks: how many train together.
    """
    steps = -(-max(1, config.steps_per_epoch // ranks) // num_envs) * num_envs
    total = config.epochs * steps if config.total_timesteps is None else int(config.total_timesteps)
    return Plan(total_timesteps=total, steps_per_update=steps, save_interval=config.save_freq)
