"""Runs of algorithms that learn from what the current policy does.

OnPolicyRun takes a rollout of all environments in an update. BatchRun, of trpo_mpi, ppo1 and gail, takes batches of
steps and ends at the first of several limits. SearchRun takes whole episodes, of one agent or of a population.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import keras
import numpy as np

from tfbaselines.config.algorithm import Algorithm
from tfbaselines.config.bases import BatchConfig, RolloutConfig, SearchConfig
from tfbaselines.config.config import NetworkSpec
from tfbaselines.envs.vec import VecEnv
from tfbaselines.errors import bad_argument
from tfbaselines.learn.engine import Engine, Loss, Phase
from tfbaselines.learn.optimizers import Optimizer
from tfbaselines.logs.statistics import EPISODES_IN_MEAN
from tfbaselines.policy.layers import compile_with_xla
from tfbaselines.rollout.rollout import Rollout, Runner
from tfbaselines.training.build import make_policy
from tfbaselines.training.clock import UNLIMITED, IterationClock, Plan
from tfbaselines.training.model import PolicyModel
from tfbaselines.training.run import Run
from tfbaselines.training.testing import Scores


class OnPolicyRun(Run):
    """Make a policy and collect the rollouts that it learns from.

    ::

        with OnPolicyRun(ALGORITHM, network, env, Config.of(kwargs)) as run:
            optimizer = Adam()
            step = run.gradient_steps(loss, optimizer)
            model = PolicyModel(run.policy, optimizer)
            for rollout in run.rollouts(model):
                run.log(step(rollout.batch(...), **run.rates()))
        return model

    Attributes:
        policy: policy that acts and learns.

    Args:
        algorithm, network, env, config: what the algorithm declares, and the arguments of its learn.
        columns: makes the columns of a row of the logs from the run; `log` adds others.
        plan: lengths and intervals; None for Plan.of(config). An update takes whole rollouts.
        scores: latest episodes; None for Scores().
        rollouts_per_update: rollouts that an update takes one after another, each with the present policy.
        keep_neglogps: rollouts include the negative log probabilities of actions.
        keep_next_obs: rollouts include the observations after each step; None if reward signals need them.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        network: NetworkSpec,
        env: VecEnv,
        config: RolloutConfig,
        columns: Callable[[Run], dict[str, Any]] | None = None,
        *,
        plan: Plan | None = None,
        scores: Scores | None = None,
        rollouts_per_update: int = 1,
        keep_neglogps: bool = True,
        keep_next_obs: bool | None = None,
    ) -> None:
        super().__init__(algorithm, env, config, plan or Plan.of(config, env.num_envs), scores=scores)
        self._rollouts_per_update = rollouts_per_update
        self._keep_neglogps = keep_neglogps
        signals = getattr(config, "signals", None)
        self._keep_next_obs = signals is not None if keep_next_obs is None else keep_next_obs
        self._columns = columns or rollout_columns
        self._row: Callable[[], dict[str, Any]] = dict
        self.policy = make_policy(network, self.env, config, self.comm)
        if self.policy.recurrent and not algorithm.recurrent:
            accepted = f"{self.name} trains no recurrent policies, take ppo2 or acer, or a network without memory"
            raise bad_argument("network", network, accepted)

    def gradient_steps(
        self,
        loss: Loss,
        optimizer: Optimizer,
        max_grad_norm: float | None = None,
        variables: list[keras.Variable] | None = None,
    ) -> Callable[..., dict[str, float]]:
        """Compile gradient steps of the policy on a loss.

        Args:
            loss: function of a batch, with coefficients by name in it; see learn/engine.py.
            optimizer: a Keras optimizer, or an RMSProp.
            max_grad_norm: bound of the gradient's global norm; None for none.
            variables: variables that change; None for all of the policy.

        Returns:
            Function that takes arrays with equal first axes, row indices of minibatches [K, B] (None for one step on
            all rows), and 'lr' and other coefficients by name; it returns the mean statistics.
        """
        variables = self.policy.trainable_variables if variables is None else variables
        phase = Phase("policy", loss, variables, optimizer, max_grad_norm=max_grad_norm)
        engine = Engine([phase], jit=compile_with_xla(self.policy, self.plan.steps_per_update), comm=self.comm)

        def step(data: dict[str, np.ndarray], indices: np.ndarray | None = None, **coefficients: float) -> dict:
            return self.check(engine.minibatches(data, indices, **coefficients))

        return step

    def rollouts(self, model: PolicyModel, before: Callable[[], None] | None = None) -> Iterator[Rollout]:
        """Start the run, and yield each rollout; the caller learns from it and gives the row's columns to `log`.

        Args:
            model: model of the policy; its actor is brought up to date after each rollout.
            before: called once before the first rollout.
        """
        nsteps = self.plan.steps_per_update // self._rollouts_per_update // self.env.num_envs
        self.start(model)
        acting = (self.policy, model.actor, nsteps, self.rng)
        runner = Runner(self.env, *acting, self._keep_next_obs, self._keep_neglogps)
        evaluation = None
        if self.eval_env is not None and self._tester is None:
            # Evaluation takes the same number of steps as training.
            evaluation = Runner(self.eval_env, *acting, keep_neglogps=False)
        self.acts(runner, *([] if evaluation is None else [evaluation]))
        if before is not None:
            before()
        for _ in self.updates():
            for _ in range(self._rollouts_per_update):
                with self.timers.phase("collect"):
                    rollout = runner.run()
                self.collected(rollout.episodes)
                yield rollout
                model.actor.refresh()
                model.observe(partial(rollout.counted, rollout.obs))
            if evaluation is not None:
                self.eval_episodes.extend(evaluation.run().episodes)
            self.finish_update(lambda: self._columns(self) | self._row())

    def collected(self, episodes: list[dict[str, Any]]) -> None:
        """Store the 'episode' entries of infos of a rollout."""
        self.episodes.extend(episodes)

    def log(self, row: dict[str, Any] | Callable[[], dict[str, Any]]) -> None:
        """Add columns to this update's row of the logs: a dict, or a function that is called if a row is due."""
        self._row = row if callable(row) else lambda: row


def rollout_columns(run: Run) -> dict[str, Any]:
    """Return the counters and mean returns of a run, under baselines' names for a2c and its family."""
    return {"nupdates": run.update, "total_timesteps": run.timesteps, "fps": run.fps} | episode_columns(run)


def episode_columns(run: Run) -> dict[str, float]:
    """Return the mean returns and lengths of the latest episodes, of training and of evaluation if there is any."""
    row = {"eprewmean": run.episodes.mean_reward, "eplenmean": run.episodes.mean_length}
    if run.eval_env is not None:
        row |= {"eval_eprewmean": run.eval_episodes.mean_reward, "eval_eplenmean": run.eval_episodes.mean_length}
    return row


class BatchRun(OnPolicyRun):
    """Count episodes of all ranks, in the means of the logs and for the limit.

    Attributes:
        episodes_in_update: number of episodes that ended in this update.

    Args:
        algorithm, network, env, config: see OnPolicyRun.
        episodes_in_mean: number of latest episodes in the means of the logs.
        rollouts_per_update: batches of steps in an update.
    """

    episodes_of_all_ranks = True

    def __init__(
        self,
        algorithm: Algorithm,
        network: NetworkSpec,
        env: VecEnv,
        config: BatchConfig,
        episodes_in_mean: int = EPISODES_IN_MEAN,
        rollouts_per_update: int = 1,
    ) -> None:
        steps = -(-config.batch_steps // env.num_envs) * env.num_envs * rollouts_per_update
        most = config.most_timesteps(steps)
        total = UNLIMITED if most is None else most
        shape = {
            "plan": Plan(total_timesteps=total, steps_per_update=steps, save_interval=config.save_interval),
            "scores": Scores(episodes_in_mean),
            "rollouts_per_update": rollouts_per_update,
        }
        super().__init__(algorithm, network, env, config, batch_columns, **shape)
        self.episodes_in_update = 0

    def updates(self) -> Iterator[int]:
        callback = self.config.callback
        for update in super().updates():
            if callback is not None:
                # Variables that callbacks read, under baselines' names.
                steps = self.steps_of_all() - self.plan.steps_per_update * self.comm.size
                named = {"run": self, "pi": self.model, "env": self.env, "iters_so_far": update - 1}
                callback(named | {"timesteps_so_far": steps, "episodes_so_far": self.episodes.count}, {})
            self.episodes_in_update = 0
            yield update

    def collected(self, episodes: list[dict[str, Any]]) -> None:
        episodes = [episode for of_rank in self.comm.gather(episodes) for episode in of_rank]
        self.episodes_in_update += len(episodes)
        super().collected(episodes)

    def finish_update(self, row: Callable[[], dict[str, Any]]) -> None:
        most = self.config.max_episodes
        seconds = self.config.seconds
        if (most and self.episodes.count >= most) or (seconds and self.clock.seconds_so_far() >= seconds):
            self.stop()
        super().finish_update(row)


def batch_columns(run: BatchRun) -> dict[str, Any]:
    """Return the episodes and steps of all ranks, under baselines' names for trpo_mpi and ppo1."""
    return {
        "EpLenMean": run.episodes.mean_length,
        "EpRewMean": run.episodes.mean_reward,
        "EpThisIter": run.episodes_in_update,
        "EpisodesSoFar": run.episodes.count,
        "TimestepsSoFar": run.steps_of_all(),
        "TimeElapsed": run.elapsed,
    }


class SearchRun(Run):
    """Make updates of whole episodes, test now and then, and end at the best score.

        with SearchRun(ALGORITHM, env, Config.of(kwargs)) as run:
            for _ in run.search(model):
                run.learned(steps, episodes, statistics)
        return model

    Args:
        algorithm, env, config: see OnPolicyRun.
        of_episodes: an iteration is an episode, and several may end in an update; otherwise it is an update.
        columns: makes the columns of a row of the logs from the run; `learned` adds others.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        env: VecEnv,
        config: SearchConfig,
        of_episodes: bool = False,
        columns: Callable[["SearchRun"], dict[str, Any]] | None = None,
    ) -> None:
        plan = Plan(
            total_timesteps=UNLIMITED if config.total_timesteps is None else int(config.total_timesteps),
            steps_per_update=1,
            log_interval=config.log_interval,
            save_interval=config.save_interval,
        )
        # Rows of the logs have the latest test alone.
        scores = Scores(tests=max(1, config.num_test_episodes))
        clock = IterationClock(plan, config.num_iterations, scores.training if of_episodes else None)
        super().__init__(algorithm, env, config, plan, clock=clock, scores=scores)
        self._columns = columns or search_columns
        self._row: dict[str, Any] = {}

    @property
    def iterations(self) -> int:
        """Finished iterations."""
        return self.clock.iterations

    def search(self, model: PolicyModel, *acting: Any, over: Callable[[], bool] = lambda: False) -> Iterator[int]:
        """Start the run, and yield the number of each update; the caller gives the result to `learned`.

        Args:
            model: model that learns.
            acting: objects that act in the environments; see Run.acts.
            over: returns whether training ends before its last iteration or step.
        """
        self.start(model)
        self.acts(*acting)
        clock = self.clock
        test_every = self.config.test_every
        # A model that was loaded from another run begins anew.
        if self.update and over():
            self.stop()
        clock.fraction_left = clock.own_fraction_left
        for update in self.updates():
            tests = self.iterations // test_every
            yield update
            clock.finish_iterations()
            ends = self._agree_on_end(over())
            if ends:
                self.stop()
            if ends or self.iterations // test_every > tests:
                self.test()
            self.finish_update(lambda: self._columns(self) | self._row)

    def learned(self, steps: int, episodes: list[dict[str, Any]], statistics: dict[str, float]) -> None:
        """Store the result of an update.

        Args:
            steps: environment steps that it took.
            episodes: the infos' 'episode' entries of the episodes that ended.
            statistics: further columns of its row of the logs.
        """
        self.clock.timesteps += steps
        self.episodes.extend(episodes)
        self._row = self.check(statistics)

    def _further_columns(self) -> dict[str, int]:
        columns = super()._further_columns()
        if "global_timesteps" in columns:
            # The lengths of episodes differ between ranks.
            columns["global_timesteps"] = self.clock.steps_of_all(self.comm.gather(self.timesteps))
        return columns

    def _agree_on_end(self, over: bool) -> bool:
        """Return whether the run ends on any rank; every rank takes over rank 0's progress.

        The lengths of episodes differ between ranks, but all ranks test at the end and follow one schedule.
        """
        clock = self.clock
        every = self.comm.gather((clock.done >= clock.end or self._stopped or over, clock.own_fraction_left))
        clock.fraction_left = every[0][1]
        return any(ends for ends, _ in every)


def search_columns(run: SearchRun) -> dict[str, Any]:
    """Return the counters, and the means of the latest episodes and of the latest test."""
    training = {"eprewmean": run.episodes.mean_reward, "eplenmean": run.episodes.mean_length}
    return counter_columns(run) | training | test_columns(run)


def counter_columns(run: SearchRun) -> dict[str, Any]:
    """Return the counters."""
    counters = {"iterations": run.iterations, "total_timesteps": run.timesteps}
    return counters | {"fps": run.fps, "time_elapsed": run.elapsed}


def test_columns(run: SearchRun) -> dict[str, float]:
    """Return the means of the latest test, if the run has tests."""
    if run.eval_env is None:
        return {}
    return {
        "test_reward": run.eval_episodes.mean_reward,
        "test_reward_std": run.eval_episodes.std_reward,
        "test_length": run.eval_episodes.mean_length,
    }
