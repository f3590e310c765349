"""The run of an algorithm that learns from rollouts of its current policy.

The run of trpo_mpi, ppo1 and gail: updates take batches of steps; it ends at the first of several limits.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import keras
import numpy as np

from tfbaselines.config.bases import BatchConfig, RolloutConfig
from tfbaselines.config.config import NetworkSpec
from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.vec.packed import with_packed_observations
from tfbaselines.errors import bad_argument
from tfbaselines.learn.engine import Engine, Loss, Phase
from tfbaselines.learn.optimizers import Optimizer
from tfbaselines.logs.rows import EPISODES_IN_MEAN, Episodes, iteration_columns, rollout_columns
from tfbaselines.policy.precision import compile_with_xla
from tfbaselines.rollout.rollout import Rollout, Runner, env_major
from tfbaselines.training.build import make_policy
from tfbaselines.training.model import PolicyModel
from tfbaselines.training.plan import UNLIMITED, Plan
from tfbaselines.training.run import Run


class OnPolicyRun(Run):
    """A policy, its model, and the rollouts it learns from.

        with OnPolicyRun("name", network, env, Config.of(kwargs)) as run:
            step = run.gradient_steps(loss, Adam())
            for rollout in run.rollouts():
                run.log(step(rollout.batch(...), **run.rates()))
        return run.model

    Attributes:
        policy: what acts and is trained.
        keep_next_obs: rollouts have the observations after each step; set before `rollouts`.
        keep_neglogps: rollouts have the negative log probabilities of actions; set before `rollouts`.

    Args:
        name: the algorithm's name.
        network: as given to learn.
        env: the environments.
        config: the algorithm's arguments.
        columns: makes a row of the logs but for what `log` adds.
        plan: when the run does what; None for that of an OnPolicyConfig. Whole rollouts of all environments make an
            update.
        recurrent: policies with a memory can be trained.
        rollouts_per_update: an update takes so many, one after another, with the policy that each leaves.
    """

    def __init__(
        self,
        name: str,
        network: NetworkSpec,
        env: VecEnv,
        config: RolloutConfig,
        columns: Callable[[Run], dict[str, Any]] = rollout_columns,
        plan: Plan | None = None,
        recurrent: bool = True,
        rollouts_per_update: int = 1,
    ) -> None:
        env, eval_env = with_packed_observations(env), getattr(config, "eval_env", None)
        super().__init__(name, env, config, plan or Plan.of(config, env.num_envs), with_packed_observations)
        self._rollouts_per_update = rollouts_per_update
        # On which as many steps are taken as on those of training, for the logs.
        self.eval_env = self._evaluated_env = eval_env and with_packed_observations(eval_env)
        self.policy = make_policy(network, env, config, self.comm)
        if self.policy.recurrent and not recurrent:
            accepted = f"{name} trains no recurrent policies, take ppo2 or acer, or a network without memory"
            raise bad_argument("network", network, accepted)
        self.model = PolicyModel(self.policy, rng=self.rng)
        self.keep_next_obs, self.keep_neglogps = False, True
        self._columns = columns
        self._row: Callable[[], dict[str, Any]] = dict

    def gradient_steps(
        self,
        loss: Loss,
        optimizer: Optimizer,
        max_grad_norm: float | None = None,
        variables: list[keras.Variable] | None = None,
    ) -> Callable[..., dict[str, float]]:
        """Compile gradient steps of the policy on a loss; the optimiser becomes part of the model.

        Args:
            loss: function of a batch, with coefficients by name in it; see learn/engine.py.
            optimizer: a Keras optimizer, or an RMSProp.
            max_grad_norm: bound of the gradient's global norm; None for none.
            variables: those that change; None for all of the policy.

        Returns:
            Function of arrays with equal first axes, of minibatches' row indices [K, B] (None for one step on all
            rows), and of 'lr' and other coefficients by name, which returns the mean statistics.
        """
        variables = self.policy.trainable_variables if variables is None else variables
        jit = compile_with_xla(self.policy, self.plan.steps_per_update)
        phase = Phase("policy", loss, variables, optimizer, max_grad_norm=max_grad_norm)
        engine = Engine([phase], jit=jit, comm=self.comm)
        self.model.optimizer = optimizer

        def step(data: dict[str, np.ndarray], indices: np.ndarray | None = None, **coefficients: float) -> dict:
            statistics = self.check(engine.minibatches(data, indices, **coefficients))
            self.model.actor.refresh()
            return statistics

        return step

    def rollouts(self, before: Callable[[], None] | None = None) -> Iterator[Rollout]:
        """Start the run, and give every update's rollouts; learn from each, and hand the update's row to `log`.

        Args:
            before: called once before the first rollout.
        """
        env, eval_env = self.env, self._evaluated_env
        nsteps = self.plan.steps_per_update // self._rollouts_per_update // env.num_envs
        self.start(self.model)
        acting = self.policy, self.model.actor, nsteps, self.rng
        runner = Runner(env, *acting, self.keep_next_obs, self.keep_neglogps)
        evaluation = None if eval_env is None else Runner(eval_env, *acting, keep_neglogps=False)
        self.acts(runner, *([] if evaluation is None else [evaluation]))
        if before is not None:
            before()
        for _ in self.updates():
            for _ in range(self._rollouts_per_update):
                rollout = runner.run()
                self.collected(rollout.episodes)
                yield rollout
                self.model.observe(partial(env_major, rollout.obs))
            if evaluation is not None:
                self.eval_episodes.extend(evaluation.run().episodes)
            self.finish_update(lambda: self._columns(self) | self._row())

    def collected(self, episodes: list[dict[str, Any]]) -> None:
        """Remember the infos' 'episode' entries of the episodes that ended in a rollout."""
        self.episodes.extend(episodes)

    def log(self, row: dict[str, Any] | Callable[[], dict[str, Any]]) -> None:
        """What this update adds to the row of the logs, or a function that gives it, called when a row is due."""
        self._row = row if callable(row) else lambda: row


def minibatch_by_minibatch(model: Any) -> Callable[..., dict[str, float]]:
    """The optimisation phase of a model of the user's own, through its train(lr, cliprange, **minibatch).

    Args:
        model: has train and loss_names; see ppo2's Model.
    """

    def train_phase(
        lr: float, cliprange: float, data: dict[str, np.ndarray], indices: np.ndarray, **rates: float
    ) -> dict[str, float]:
        losses = []
        for rows in indices:
            part = {name: array[rows] for name, array in data.items()}
            states = part.pop("states", None)
            masks = part.pop("episode_start", np.zeros(len(part["obs"]), np.float32))
            if states is not None:
                part = {name: array.reshape(-1, *array.shape[2:]) for name, array in part.items()}
            losses.append(model.train(lr, cliprange, masks=masks.reshape(-1), states=states, **part, **rates))
        return dict(zip(model.loss_names, np.mean(losses, axis=0).tolist(), strict=True))

    return train_phase


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
        super().__init__(name, network, env, config, iteration_columns, plan, False, rollouts_per_update)
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
