"""The run of Spinning Up's on-policy algorithms: an update an epoch, and a row of the logs with it."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tfbaselines.config.bases import EpochConfig
from tfbaselines.config.config import NetworkSpec
from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.vec.packed import with_packed_observations
from tfbaselines.learn.engine import Batch, Engine, Outcome, Phase, Statistics
from tfbaselines.learn.losses import squared_value_loss
from tfbaselines.learn.optimizers import Adam
from tfbaselines.logs.rows import SpinupRows
from tfbaselines.parallel import mpi
from tfbaselines.parallel.moments import mpi_moments
from tfbaselines.policy.policy import Policy
from tfbaselines.policy.precision import compile_with_xla
from tfbaselines.rollout.rollout import Rollout
from tfbaselines.training.on_policy import OnPolicyRun
from tfbaselines.training.plan import Plan
from tfbaselines.training.testing import Tester

# Of Gaussian policies, as in Spinning Up.
INITIAL_LOGSTD = -0.5

ADAM_EPSILON = 1e-8

# Statistics of the policy as it is after an update; the others are of before.
AFTERWARDS = ("KL", "ClipFrac")


class EpochRun(OnPolicyRun):
    """An update, a test and a row of the logs in each epoch; see also OnPolicyRun.

        with EpochRun("name", network, env, Config.of(kwargs), statistics) as run:
            learn_from = run.policy_then_value(lambda batch: loss(run.policy, batch))
            for rollout in run.rollouts():
                learn_from(rollout)
        return run.model

    Attributes:
        rows: makes the rows of the logs.
        eval_env: environments for tests, or None.

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
        env = with_packed_observations(env)
        plan = plan_of_epochs(config, env.num_envs, mpi.wrap(config.comm).size)
        super().__init__(name, network, env, config, lambda _: self.rows(), plan, recurrent)
        self._tester = Tester(env, self._evaluated_env, config, self.options, with_packed_observations)
        self.eval_env = self._tester.env
        # Whole episodes of it, in place of as many steps as of training.
        self._evaluated_env = None
        if self.policy.logstd is not None:
            self.policy.logstd.assign(self.policy.logstd.value * 0.0 + INITIAL_LOGSTD)
        self.rows = SpinupRows(self, statistics, config.logger_kwargs)
        self._statistics = statistics

    def __exit__(self, *error: Any) -> None:
        try:
            super().__exit__(*error)
        finally:
            self._tester.close()

    def batch(self, rollout: Rollout) -> dict[str, np.ndarray]:
        """A rollout as losses take it, with discounted returns, and advantages normalised over all ranks."""
        estimates = rollout.advantages(self.config.gamma, self.config.lam)
        mean, std, _ = mpi_moments(estimates.ravel(), comm=self.comm)
        # Equal advantages have no deviation to divide by.
        advantages = ((estimates - mean) / (std or 1.0)).astype(np.float32)
        returns = rollout.n_step_returns(self.config.gamma)
        return rollout.batch(self.policy.recurrent, advantages=advantages, returns=returns)

    def policy_then_value(
        self,
        policy_loss: Callable[[Batch], tuple[Any, Statistics]],
        train_pi_iters: int = 1,
        most_kl: float = np.inf,
    ) -> Callable[[Rollout], None]:
        """Compile an epoch's update: steps of the policy, then steps of the value function, each on all rows.

        Args:
            policy_loss: function of a batch (see `batch`) that returns the scalar to minimise and its statistics by
                Spinning Up's names, 'LossPi' and 'KL' among them.
            train_pi_iters: steps of the policy at most.
            most_kl: the step at whose beginning the KL, averaged over ranks, is above this is the policy's last one.

        Returns:
            Function of a rollout that takes the steps and stores their statistics for the logs.
        """
        train_v_iters, jit = self.config.train_v_iters, compile_with_xla(self.policy, self.plan.steps_per_update)
        update = make_update(self.policy, policy_loss, train_pi_iters, train_v_iters, most_kl, jit, self.comm)
        self.model.optimizers = {f"{phase.rate}_adam": phase.rule for phase in update.phases}

        def learn_from(rollout: Rollout) -> None:
            row = self.check(row_of(update.repeat(self.batch(rollout), **self.rates())))
            self.model.actor.refresh()
            self.rows.store(VVals=rollout.values, **{name: row[name] for name in self._statistics})

        return learn_from

    def test(self) -> list[dict[str, Any]]:
        """Run the deterministic policy; the episodes' infos."""
        episodes = self._tester.run(self.model)
        self.eval_episodes.extend(episodes)
        return episodes

    def collected(self, episodes: list[dict[str, Any]]) -> None:
        """See OnPolicyRun."""
        super().collected(episodes)
        self.rows.collected(episodes)


def make_update(
    policy: Policy,
    policy_loss: Callable[[Batch], tuple[Any, Statistics]],
    train_pi_iters: int,
    train_v_iters: int,
    most_kl: float = np.inf,
    jit: bool = True,
    comm: Any = None,
) -> Engine:
    """The steps of the policy, at the rate `pi_lr`, and those of the value function, at `vf_lr`.

    Args:
        policy: what changes.
        policy_loss: see EpochRun.policy_then_value, as for the others.
        train_pi_iters: steps of the policy at most.
        train_v_iters: steps of the value function.
        most_kl: ends those of the policy.
        jit: compile with XLA.
        comm: the ranks that train together.
    """
    adams = [Adam(epsilon=ADAM_EPSILON) for _ in range(2)]
    pi = Phase("policy", policy_loss, policy.acting_variables, adams[0], "pi_lr")
    vf = Phase("value", partial(squared_value_loss, policy), policy.value_variables, adams[1], "vf_lr")
    phases = [pi._replace(steps=train_pi_iters, until="KL", most=most_kl), vf._replace(steps=train_v_iters)]
    return Engine(phases, jit=jit, comm=comm)


def row_of(outcome: Outcome) -> dict[str, float]:
    """The statistics of an update under Spinning Up's names."""
    before, after, (policy_steps, _) = outcome
    row = {name: after[name] if name in AFTERWARDS else value for name, value in before.items()}
    deltas = {f"Delta{name}": after[name] - before[name] for name in ("LossPi", "LossV")}
    return row | deltas | {"StopIter": policy_steps - 1}


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
