"""Spinning Up's epochs: an update, a test and a row, which progress.txt and the run's logs get."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tfbaselines.config.algorithm import Algorithm
from tfbaselines.config.bases import EpochConfig
from tfbaselines.config.config import NetworkSpec
from tfbaselines.envs.vec import VecEnv
from tfbaselines.errors import unknown
from tfbaselines.learn.engine import Batch, Engine, Outcome, Phase, Statistics
from tfbaselines.learn.losses import squared_value_loss
from tfbaselines.learn.optimizers import Adam
from tfbaselines.logs import logger
from tfbaselines.logs.statistics import EpochLogger, EpochTable
from tfbaselines.parallel import mpi
from tfbaselines.parallel.moments import mpi_moments
from tfbaselines.policy.layers import compile_with_xla
from tfbaselines.policy.policy import Policy
from tfbaselines.rollout.rollout import Rollout
from tfbaselines.training.clock import Plan
from tfbaselines.training.on_policy import OnPolicyRun
from tfbaselines.training.run import Run

LOGGER_ARGUMENTS = ("output_dir", "output_fname", "exp_name")


def make_table(run: Run, logger_kwargs: dict[str, Any] | None) -> EpochTable:
    """Return the table of a run, which is closed at the run's end; without a directory it writes no file."""
    for name in logger_kwargs or {}:
        if name not in LOGGER_ARGUMENTS:
            raise unknown("argument of logger_kwargs", name, LOGGER_ARGUMENTS)
    directory = logger.configured_dir()
    if directory is None and not logger_kwargs:
        return EpochTable(run.comm)
    arguments = {"output_dir": directory} | (logger_kwargs or {})
    table = EpochLogger(comm=run.comm, resume=run.options.resume is not None, format_strs=(), **arguments)
    run.at_end(table.close)
    return table


def begin_row(table: EpochTable, run: Run, epoch: int) -> None:
    """Test, and add the epoch's number and the columns of its episodes to the row."""
    table.store_episodes(run.test(), "Test")
    kinds = ("", "Test") if run.eval_env is not None else ("",)
    table.log_tabular("Epoch", epoch)
    for kind in kinds:
        table.log_tabular(f"{kind}EpRet", with_min_and_max=True)
    for kind in kinds:
        table.log_tabular(f"{kind}EpLen", average_only=True)


def end_row(table: EpochTable, run: Run) -> dict[str, Any]:
    """Add the times to the row, write it, and return it; the next epoch begins without values."""
    table.log_tabular("Time", run.elapsed)
    table.log_tabular("fps", run.fps)
    table.forget()
    return table.dump_tabular() if isinstance(table, EpochLogger) else table.take_row()


ADAM_EPSILON = 1e-8

# Statistics after the update; the others are those before it.
AFTERWARDS = ("KL", "ClipFrac")


class EpochRun(OnPolicyRun):
    """Make an update, a test and a row of the logs in each epoch; see also OnPolicyRun.

        with EpochRun(ALGORITHM, network, env, Config.of(kwargs), statistics) as run:
            learn_from, optimizers = run.policy_then_value(lambda batch: loss(run.policy, batch))
            model = PolicyModel(run.policy, optimizers=optimizers)
            for rollout in run.rollouts(model):
                learn_from(rollout)
        return model

    Attributes:
        table: values of the epoch, for its row of the logs.

    Args:
        algorithm, network, env, config: see OnPolicyRun.
        statistics: names of the update's statistics, each with one column for the mean.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        network: NetworkSpec,
        env: VecEnv,
        config: EpochConfig,
        statistics: tuple[str, ...],
    ) -> None:
        plan = plan_of_epochs(config, env.num_envs, mpi.wrap(config.comm).size)
        super().__init__(algorithm, network, env, config, lambda _: self._epoch_row(), plan=plan)
        self.table = make_table(self, config.logger_kwargs)
        self._statistics = statistics

    def batch(self, rollout: Rollout) -> dict[str, np.ndarray]:
        """Return a rollout as a batch, with discounted returns and advantages standardized over all ranks."""
        estimates = rollout.advantages(self.config.gamma, self.config.lam)
        mean, std, _ = mpi_moments(estimates.ravel(), comm=self.comm)
        # Equal advantages have a standard deviation of 0.
        advantages = ((estimates - mean) / (std or 1.0)).astype(np.float32)
        returns = rollout.n_step_returns(self.config.gamma)
        return rollout.batch(self.policy.recurrent, advantages=advantages, returns=returns)

    def policy_then_value(
        self,
        policy_loss: Callable[[Batch], tuple[Any, Statistics]],
        train_pi_iters: int = 1,
        most_kl: float = np.inf,
    ) -> tuple[Callable[[Rollout], None], dict[str, Any]]:
        """Compile an epoch's update: steps of the policy, then steps of the value function, each on all rows.

        Args:
            policy_loss: function of a batch (see `batch`) that returns the scalar to minimize and its statistics by
                Spinning Up's names, 'LossPi' and 'KL' among them.
            train_pi_iters: most steps of the policy.
            most_kl: the step that begins with a KL divergence above this, averaged over ranks, is the policy's last.

        Returns:
            Function of a rollout that takes the steps and stores their statistics; the optimizers by name.
        """
        train_v_iters = self.config.train_v_iters
        jit = compile_with_xla(self.policy, self.plan.steps_per_update)
        update = make_update(self.policy, policy_loss, train_pi_iters, train_v_iters, most_kl, jit, self.comm)

        def learn_from(rollout: Rollout) -> None:
            row = self.check(row_of(update.repeat(self.batch(rollout), **self.rates())))
            self.table.store(VVals=rollout.values, **{name: row[name] for name in self._statistics})

        return learn_from, {f"{phase.rate}_adam": phase.rule for phase in update.phases}

    def collected(self, episodes: list[dict[str, Any]]) -> None:
        super().collected(episodes)
        self.table.store_episodes(episodes)

    def _epoch_row(self) -> dict[str, Any]:
        table = self.table
        begin_row(table, self, self.update - 1)
        table.log_tabular("VVals", with_min_and_max=True)
        table.log_tabular("TotalEnvInteracts", self.steps_of_all())
        for name in self._statistics:
            table.log_tabular(name, average_only=True)
        return end_row(table, self)


def make_update(
    policy: Policy,
    policy_loss: Callable[[Batch], tuple[Any, Statistics]],
    train_pi_iters: int,
    train_v_iters: int,
    most_kl: float = np.inf,
    jit: bool = True,
    comm: Any = None,
) -> Engine:
    """Make the steps of the policy, at the rate `pi_lr`, and of the value function, at `vf_lr`.

    Args:
        policy, policy_loss, train_pi_iters, most_kl: see EpochRun.policy_then_value.
        train_v_iters: steps of the value function.
        jit: compile with XLA.
        comm: the ranks that train together.
    """
    adams = [Adam(epsilon=ADAM_EPSILON) for _ in range(2)]
    pi = Phase("policy", policy_loss, policy.acting_variables, adams[0], "pi_lr")
    vf = Phase("value", partial(squared_value_loss, policy), policy.value_variables, adams[1], "vf_lr")
    phases = [pi._replace(steps=train_pi_iters, until="KL", most=most_kl), vf._replace(steps=train_v_iters)]
    return Engine(phases, jit=jit, comm=comm)


def row_of(outcome: Outcome) -> dict[str, float]:
    """Return the statistics of an update under Spinning Up's names."""
    before, after, (policy_steps, _) = outcome
    row = {name: after[name] if name in AFTERWARDS else value for name, value in before.items()}
    deltas = {f"Delta{name}": after[name] - before[name] for name in ("LossPi", "LossV")}
    return row | deltas | {"StopIter": policy_steps - 1}


def plan_of_epochs(config: EpochConfig, num_envs: int, ranks: int) -> Plan:
    """Return a plan with one update an epoch; ranks, with `num_envs` environments each, share its steps."""
    steps = -(-max(1, config.steps_per_epoch // ranks) // num_envs) * num_envs
    total = config.epochs * steps if config.total_timesteps is None else int(config.total_timesteps)
    return Plan(total_timesteps=total, steps_per_update=steps, save_interval=config.save_freq)
