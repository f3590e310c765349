"""ACER: actor-critic with experience replay (Wang et al. 2017, arXiv:1611.01224).

The formulas are in loss.py, the replay memory is in replay.py. The model has a policy with a Q of actions, its average,
and the gradient step on sequences of an older policy. traces.py adds the replay of whole episodes, workers.py several
workers in threads.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, TypeVar

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.algs.acer import ALGORITHM, Config
from tfbaselines.algs.acer.loss import (
    Batch,
    Coefficients,
    DuelingPolicy,
    PreviousActionDuelingPolicy,
    continuous_terms,
    discrete_terms,
    gradients,
    inputs_of,
    mean_of_valid,
    with_noise,
    without_last,
)
from tfbaselines.algs.acer.replay import (
    RolloutReplay,
    Trajectory,
    TrajectoryRunner,
    observations_of,
    valid_steps,
)
from tfbaselines.algs.acer.traces import Parts, TraceReplay
from tfbaselines.compiling import compiled
from tfbaselines.config.algorithm import takes
from tfbaselines.config.bases import PolicyConfig
from tfbaselines.config.config import NetworkSpec
from tfbaselines.envs.vec import VecEnv
from tfbaselines.errors import UsageError
from tfbaselines.learn.engine import Engine, Phase
from tfbaselines.learn.optimizers import RMSProp, with_targets
from tfbaselines.parallel import mpi
from tfbaselines.policy.layers import compile_with_xla
from tfbaselines.policy.policy import Policy
from tfbaselines.training.build import make_policy as make_any_policy
from tfbaselines.training.clock import Plan
from tfbaselines.training.model import PolicyModel
from tfbaselines.training.run import Run

# After this many halvings the step is not taken at all.
MOST_HALVINGS = 10

Result = TypeVar("Result")


def shortened_step(
    variables: Sequence[keras.Variable],
    step: Callable[[], Result],
    divergence: Callable[[], float],
    delta: float,
) -> tuple[Result, float, float]:
    """Take a step and halve it until a divergence is within its bound, or no larger than before: trust_region='exact'.

    Args:
        variables: the variables that the divergence depends on; only these take the shorter step.
        step: changes the variables.
        divergence: returns the divergence, the same number on every rank.
        delta: the bound.

    Returns:
        The result of `step`, the divergence at the end, and the fraction of the step that was taken.
    """
    bound = max(delta, divergence())
    before = [tf.identity(variable.value) for variable in variables]
    result = step()
    after = [tf.identity(variable.value) for variable in variables]
    for fraction in (*(0.5**halvings for halvings in range(MOST_HALVINGS + 1)), 0.0):
        if fraction < 1.0:
            for variable, old, new in zip(variables, before, after, strict=True):
                variable.assign(old + fraction * (new - old))
        reached = divergence()
        if reached <= bound:
            break
    return result, reached, fraction


def divergence(policy: Policy, average: Callable[..., tf.Tensor], batch: Batch) -> tf.Tensor:
    """Compute the mean of KL(averaged policy || policy) over the valid steps of a batch.

    Args:
        policy: the policy that learns.
        average: returns the averaged policy's outputs for the arguments of `forward`.
        batch: the arguments of discrete_terms describe it.
    """
    mean, _ = mean_of_valid(batch)
    inputs, count = inputs_of(policy, batch), batch["actions"].shape[0]
    flats = average(**inputs), policy.forward(**inputs).flat
    f_avg, f = (policy.head.distribution(without_last(flat, count)) for flat in flats)
    return mean(f_avg.kl(f))


TRUST_REGIONS = {"True": True, "efficient": True, "False": False}


class Model(PolicyModel):
    """A policy with a Q of actions, its average, and the optimizer.

    Args:
        network: the network's name or builder.
        env: anything with observation_space and action_space.
        config: the arguments.
        comm: communicator of the ranks that train together.
        rng: generator of actions' noise; None for one with a random seed.
    """

    def __init__(
        self,
        network: NetworkSpec,
        env: Any,
        config: PolicyConfig,
        comm: mpi.Communicator | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        policy, averaged = with_targets(lambda: make_policy(network, env, config, comm), config.alpha)
        super().__init__(policy, RMSProp(config.rprop_alpha, config.rprop_epsilon), rng, averaged)
        self._comm = mpi.wrap(comm)
        self._delta = config.delta
        self._continuous = isinstance(policy, DuelingPolicy)
        terms_of = continuous_terms if self._continuous else discrete_terms
        jit = compile_with_xla(policy)
        trust_region = coefficients_of(config).trust_region
        self._exact = trust_region == "exact"
        self._divergence = compiled(lambda batch: divergence(policy, averaged.forward, batch), jit)

        def make_engine(apart: bool) -> Engine:
            phase = Phase(
                "policy",
                None,
                policy.trainable_variables,
                self.optimizer,
                max_grad_norm=config.max_grad_norm,
                gradients=lambda batch: gradients(
                    terms_of, policy, averaged.forward, batch, coefficients_of(config.at(batch)), apart
                ),
            )
            return Engine([phase], after=None if self._exact else averaged.step, jit=jit, comm=comm)

        self._engine = self._replay_engine = make_engine(apart=True)
        if trust_region is True and policy.convolutional:
            # For small networks, compiling another engine takes longer than one backward pass less saves.
            self._replay_engine = make_engine(apart=False)

    def train(
        self,
        lr: float,
        batch: Trajectory | Parts,
        rng: np.random.Generator | None = None,
        replayed: bool = False,
        **coefficients: float,
    ) -> dict[str, float]:
        """Take one gradient step on a batch of sequences, and return the statistics.

        Args:
            lr: the learning rate.
            batch: the arrays that discrete_terms describes, or a batch in parts (traces.py). Parts give the same step
                to rounding; norms and explained variances in the statistics are means over the parts.
            rng: draws the noise of continuous actions; None for the model's own.
            replayed: skip the norms of the trust region where that saves a backward pass.
            coefficients: numbers of the objective that follow a schedule, by name.
        """
        engine = self._replay_engine if replayed else self._engine
        rates = {"lr": lr} | coefficients
        prepare = self._prepare_with(rng)

        def step() -> dict[str, float]:
            if isinstance(batch, dict):
                return engine.minibatches(prepare(batch), **rates)
            return engine.in_parts(batch.weighted(prepare), **rates)

        statistics = self._shortened(step, batch) if self._exact else step()
        self.actor.refresh()
        return statistics

    def train_apart(
        self,
        computing: AbstractContextManager,
        changing: AbstractContextManager,
        lr: float,
        batch: Trajectory | Parts,
        rng: np.random.Generator | None = None,
        replayed: bool = False,
        **coefficients: float,
    ) -> dict[str, float]:
        """Take the gradient step of `train` in two parts, because other workers change the model in between.

        Args:
            computing: context in which the gradients are computed.
            changing: context in which the parameters change.
            lr, batch, rng, replayed, coefficients: see `train`.
        """
        engine = self._replay_engine if replayed else self._engine
        rates = {"lr": lr} | coefficients
        prepare = self._prepare_with(rng)
        whole = isinstance(batch, dict)
        with computing:
            parts = [(prepare(batch), valid_steps(batch))] if whole else batch.weighted(prepare)
            gradient, statistics = engine.gradient(parts, **rates)

        def step() -> dict[str, float]:
            engine.descend(gradient, **rates)
            return statistics

        with changing:
            statistics = self._shortened(step, batch) if self._exact else step()
            self.actor.refresh()
        return statistics

    def _prepare_with(self, rng: np.random.Generator | None) -> Callable[[Trajectory], Trajectory]:
        """Return the function that adds the noise of continuous actions to a batch."""
        rng = self.rng if rng is None else rng
        return (lambda part: with_noise(self.policy, part, rng)) if self._continuous else (lambda part: part)

    def _shortened(self, step: Callable[[], dict[str, float]], batch: Trajectory | Parts) -> dict[str, float]:
        """Take a step within the exact trust region, then move the averaged policy."""
        parts = [batch] if isinstance(batch, dict) else batch
        statistics, kl, fraction = shortened_step(
            self.policy.acting_variables, step, lambda: self._mean_divergence(parts), self._delta
        )
        self.averaged.step()
        return statistics | {"kl": kl, "step_taken": fraction}

    def _mean_divergence(self, parts: Iterable[Trajectory]) -> float:
        """Compute the mean divergence over the batches of all ranks, the same number on every rank."""
        measured = []
        for part in parts:
            mean = self._divergence({name: tf.convert_to_tensor(array) for name, array in part.items()})
            measured.append((mean.numpy(), valid_steps(part)))
        means, weights = zip(*measured, strict=True)
        return float(self._comm.average(np.float32(np.average(means, weights=weights)).reshape(1))[0])


def coefficients_of(config: PolicyConfig) -> Coefficients:
    """Return the numbers of the objective."""
    trust_region = TRUST_REGIONS.get(config.trust_region, config.trust_region)
    return Coefficients(config.q_coef, config.ent_coef, config.gamma, config.c, config.delta, trust_region)


def make_policy(network: NetworkSpec, env: Any, config: PolicyConfig, comm: Any = None) -> Policy:
    """Make a policy with a Q of each Discrete action, or with the stochastic dueling network for Box actions."""
    if isinstance(env.action_space, spaces.Discrete):
        return make_any_policy(network, env, config, comm, estimate_q=True)
    if isinstance(env.action_space, spaces.Box):
        policy_class = PreviousActionDuelingPolicy if config.prev_action else DuelingPolicy
        return make_any_policy(network, env, config, comm, policy_class=policy_class)
    raise UsageError(f"acer needs Discrete or Box actions, not {env.action_space}")


@takes(ALGORITHM)
def learn(network: NetworkSpec, env: VecEnv | Sequence[VecEnv], **kwargs: Any) -> Model:
    """Train a policy with ACER; several workers take a list with the environments of each."""
    config = Config.of(kwargs)
    if config.num_workers > 1 or config.worker_kind == "processes" or isinstance(env, list | tuple):
        from tfbaselines.algs.acer.workers import learn_with_workers

        return learn_with_workers(network, env, config)
    with Run(ALGORITHM, env, config, Plan.of(config, env.num_envs)) as run:
        model = Model(network, run.env, config, run.comm, run.rng)
        replay = make_replay(run.env, config)
        run.start(model, replay=replay)
        runner = TrajectoryRunner(
            run.env, model.policy, model.actor, config.nsteps, run.rng, reward_clip=config.reward_clip
        )
        run.acts(runner)
        for _ in run.updates():
            with run.timers.phase("collect"):
                trajectory = runner.run()
            statistics = run.check(model.train(batch=trajectory, **run.rates()))
            model.observe(partial(observations_of, trajectory))
            if replay is not None:
                replay.put(trajectory)
                for _ in range(times_to_replay(replay, run.config, run.comm, run.rng)):
                    model.train(batch=replay.sample(run.rng), replayed=True, **run.rates())
            run.episodes.extend(runner.episodes)
            run.finish_update(partial(row, run, statistics))
    return model


def make_replay(env: VecEnv, config: Config) -> RolloutReplay | TraceReplay | None:
    """Make the replay memory: of rollouts, of whole episodes if buffer_len is given, None if replay_ratio is 0."""
    if not config.replay_ratio:
        return None
    if config.buffer_len is None:
        return RolloutReplay(env, config.buffer_size, config.nsteps)
    drawn = config.buffer_len, config.batch_size, config.trace_length
    return TraceReplay(env, *drawn, config.comm, config.random_start)


def times_to_replay(replay: Any, config: Config, comm: mpi.Communicator, rng: np.random.Generator) -> int:
    """Draw n ~ Poisson(replay_ratio), the number of updates from the replay after one from new experience.

    It is 0 before the replay of every rank holds replay_start steps. All ranks get the same number, because their
    gradients are averaged.
    """
    if not all(comm.gather(replay.has_atleast(config.replay_start))):
        return 0
    return comm.broadcast_object(int(rng.poisson(config.replay_ratio)))


def row(run: Any, statistics: dict[str, float]) -> dict[str, float]:
    """Return a row of the logs: the statistics of the latest update from new experience, and the run's counters."""
    return statistics | {
        "total_timesteps": run.timesteps,
        "fps": run.fps,
        "mean_episode_length": run.episodes.mean_length,
        "mean_episode_reward": run.episodes.mean_reward,
    }
