"""ACER: actor-critic with experience replay (Wang et al. 2017, arXiv:1611.01224).

Each update collects nsteps from every environment, learns from them, and then from Poisson(replay_ratio) batches of the
replay. With rho = f(a|x) / mu(a|x), the policy f now over the one that acted, and Retrace targets Q^ret, it ascends

    min(c, rho) (Q^ret - V) log f(a|x)  +  sum_a' max(0, 1 - c / rho(a')) f(a'|x) (Q(x, a') - V) log f(a'|x)

plus ent_coef * H[f], where the factors before log f are constants, and descends q_coef * 0.5 (Q^ret - Q(x, a))^2. The
gradient with respect to f is bounded by a trust region around the averaged policy. The formulas are in
losses/acer.py and optim/trust_region.py.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.envs.vec import VecEnv
from tfbaselines.errors import bad_argument, check_above, check_at_least, check_between, given
from tfbaselines.experience.traces import RolloutReplay, TraceReplay, TraceRunner
from tfbaselines.logs import logger
from tfbaselines.losses.acer import (
    LOSS_NAMES,
    SAMPLED_ACTIONS,
    TRUST_REGION_NAMES,
    Coefficients,
    continuous_terms,
    discrete_terms,
    divergence,
    gradients,
)
from tfbaselines.optim.average import AveragedPolicy
from tfbaselines.optim.optimizers import RMSProp
from tfbaselines.optim.trust_region import shortened_step
from tfbaselines.optim.update import Update
from tfbaselines.parallel import mpi
from tfbaselines.parallel.threads import Crew, Together
from tfbaselines.policy.actor import make_actor
from tfbaselines.policy.dueling import DuelingPolicy
from tfbaselines.policy.policy import NetworkSpec, Policy, policy_of_run
from tfbaselines.policy.precision import set_precision
from tfbaselines.running.checkpoint import TreeFile
from tfbaselines.running.model import PolicyModel
from tfbaselines.running.training import Episodes, Training, seed_everything
from tfbaselines.running.workers import workers_environments
from tfbaselines.settings.bases import PolicyConfig
from tfbaselines.settings.config import Schedule, arg
from tfbaselines.settings.options import RunOptions
from tfbaselines.settings.schedules import FRACTION_SCHEDULES as SHAPES
from tfbaselines.settings.schedules import fraction_schedule, parse_schedule

DEFAULTS = {
    "atari": {"lrschedule": "constant"},
    # Continuous control, which the original has not got: a critic of its own, and steps that reach its scale in time.
    "mujoco": {
        "value_network": "copy",
        "lr": 3e-3,
        "lrschedule": "constant",
        "ent_coef": 0.0,
        "c": 5.0,
        "replay_start": 1000,
    },
}

# Of replayed episodes, unless it is given.
BATCH_SIZE = 32

TRUST_REGIONS = {True: True, "True": True, "efficient": True, False: False, "False": False, "exact": "exact"}


@dataclass(frozen=True, kw_only=True)
class Config(PolicyConfig):
    """Arguments of ACER."""

    total_timesteps: float = arg(80e6, "environment steps of this rank, over all workers", at_least=0)
    nsteps: int = arg(20, "steps of each environment in an update, and in a sequence of the replay", at_least=1)
    q_coef: float = arg(0.5, "weight of the loss of Q", at_least=0)
    ent_coef: float = arg(0.01, "weight of the policy's entropy")
    max_grad_norm: float | None = arg(10.0, "bound of the gradient's global norm; None for none", above=0)
    lr: Schedule = arg(7e-4, "learning rate", at_least=0)
    lrschedule: str | Callable[[float], float] = arg(
        "linear", "shape of the learning rate over training, unless lr is a schedule itself", choices=tuple(SHAPES)
    )
    rprop_epsilon: float = arg(1e-5, "RMSProp's epsilon, inside the square root", at_least=0)
    rprop_alpha: float = arg(0.99, "decay of RMSProp's mean square", at_least=0, at_most=1)
    log_interval: int = arg(100, "updates from new experience between rows of the logs", at_least=1)
    buffer_size: int = arg(50000, "steps of each environment kept in the replay", at_least=1)
    replay_ratio: float = arg(4, "updates from the replay for each one from new experience, on average", at_least=0)
    replay_start: int = arg(10000, "steps of each environment in the replay before it is used", at_least=0)
    c: float = arg(10.0, "bound of the importance weights; the bias of truncation is corrected", at_least=0)
    trust_region: bool | str = arg(
        True,
        "True or 'efficient' bounds the gradient by the outputs' distance to the averaged policy; 'exact' shortens "
        "each step until the mean KL divergence from that policy is within delta; False leaves it unbounded",
        choices=("efficient", "exact", "True", "False"),
    )
    alpha: float = arg(0.99, "share of the averaged policy kept in each update", at_least=0, at_most=1)
    delta: float = arg(1.0, "bound of the trust region", at_least=0)
    reward_clip: float | None = arg(None, "rewards are clipped to [-this, this]; None for not at all", at_least=0)
    buffer_len: int | None = arg(None, "episodes kept in the replay, in place of buffer_size (trace mode)", at_least=1)
    batch_size: int = arg(BATCH_SIZE, "traces in a batch of the replay, in trace mode", at_least=1)
    trace_length: int | None = arg(
        None, "steps to which replayed traces are cut, from a random start; None takes whole episodes", at_least=1
    )
    num_workers: int = arg(
        1,
        "threads that collect and learn side by side into one model; runs with several do not repeat bit by bit",
        at_least=1,
    )
    lock: bool = arg(True, "one worker changes the parameters at a time; False lets all at once (Hogwild)")

    order: ClassVar = """
        seed nsteps total_timesteps q_coef ent_coef max_grad_norm lr lrschedule rprop_epsilon rprop_alpha gamma
        log_interval buffer_size replay_ratio replay_start c trust_region alpha delta load_path save_interval
        value_network normalize_observations reward_clip buffer_len batch_size trace_length num_workers lock
        comm run
    """
    env_defaults: ClassVar = {
        "atari": {"lrschedule": "constant"},
        # Continuous control, which the original lacks: a critic of its own, and steps that reach its scale in time.
        "mujoco": {
            "value_network": "copy",
            "lr": 3e-3,
            "lrschedule": "constant",
            "ent_coef": 0.0,
            "c": 5.0,
            "replay_start": 1000,
        },
    }

    def check(self) -> None:
        """See Config."""
        if self.buffer_len is None and (self.trace_length is not None or self.batch_size != BATCH_SIZE):
            raise ValueError("batch_size and trace_length are of replayed episodes: give buffer_len, how many to keep")
        if self.replay_ratio and self.buffer_len is None and self.replay_start > self.buffer_size:
            accepted = f"at most buffer_size={self.buffer_size}, or nothing is replayed"
            raise bad_argument("replay_start", self.replay_start, accepted)


class Model(PolicyModel):
    """A policy with a Q of actions, its average, and the optimiser.

    Args:
        env: anything with observation_space and action_space.
        network: a registered network's name, or a builder.
        coefficients: the numbers of the objective.
        max_grad_norm: bound of the gradient's global norm, or None.
        rprop_alpha: decay of RMSProp's mean square.
        rprop_epsilon: RMSProp's epsilon.
        alpha: how much of the averaged policy is kept in each step.
        comm: communicator of the ranks that train together.
        policy_arguments: value_network, and the network builder's own.
    """

    def __init__(
        self,
        env: Any,
        network: NetworkSpec,
        coefficients: Coefficients,
        *,
        max_grad_norm: float | None = 10.0,
        rprop_alpha: float = 0.99,
        rprop_epsilon: float = 1e-5,
        alpha: float = 0.99,
        comm: Any = None,
        **policy_arguments: Any,
    ) -> None:
        policy, copy = (make_policy(env, network, policy_arguments) for _ in range(2))
        copy.normalizer = policy.normalizer
        terms = continuous_terms if isinstance(policy, DuelingPolicy) else discrete_terms
        super().__init__(policy, RMSProp(rprop_alpha, rprop_epsilon))
        self.averaged = AveragedPolicy(policy, copy, alpha)
        self._exact = coefficients.trust_region == "exact"
        self._delta, self._comm = coefficients.delta, mpi.wrap(comm)
        bounded, jit = coefficients.trust_region is True, not policy.convolutional
        self.statistic_names = LOSS_NAMES + (TRUST_REGION_NAMES if bounded else ())

        def make_update(apart: bool) -> Update:
            return Update(
                None,
                policy.trainable_variables,
                self.optimizer,
                max_grad_norm=max_grad_norm,
                jit=jit,
                comm=comm,
                gradients=lambda batch, _: gradients(terms, policy, self.averaged, batch, coefficients, apart),
                after_step=None if self._exact else self.averaged.step,
            )

        self._update = make_update(apart=True)
        # Compiling another one takes longer than small networks save by it.
        one_pass = bounded and policy.convolutional
        self._replay_names = LOSS_NAMES if one_pass else self.statistic_names
        self._replay_update = make_update(apart=False) if one_pass else self._update
        self._divergence = tf.function(lambda batch: divergence(policy, self.averaged, batch), jit_compile=jit)

    def train(
        self, lr: float, batch: dict[str, np.ndarray], rng: np.random.Generator | None = None, replayed: bool = False
    ) -> dict[str, float]:
        """One gradient step on a batch of sequences; see losses/acer.py.

        Args:
            lr: the learning rate.
            batch: see losses/acer.py.
            rng: draws the noise of continuous actions; None for the model's own.
            replayed: nobody asks for all statistics, which makes it faster.

        Returns:
            The statistics by name.
        """
        if isinstance(self.policy, DuelingPolicy):
            shape = (*batch["rewards"].shape, 1 + SAMPLED_ACTIONS)
            batch = batch | {"noise": self.policy.head.draw_noise(self.rng if rng is None else rng, shape)}
        rows = np.arange(len(batch["actions"]), dtype=np.int32)[None]

        names, update = self.statistic_names, self._update
        if replayed:
            names, update = self._replay_names, self._replay_update

        def step() -> dict[str, float]:
            return dict(zip(names, update(batch, rows, lr=lr).tolist(), strict=True))

        if self._exact:
            statistics, kl, part = shortened_step(
                self.policy.acting_variables, step, lambda: self._mean_divergence(batch), self._delta
            )
            statistics |= {"kl": kl, "step_taken": part}
            self.averaged.step()
        else:
            statistics = step()
        self.actor.refresh()
        return statistics

    def observe(self, observations: np.ndarray) -> None:
        """Let the policy's running mean, if it has one, take in observations [N, T, ...]."""
        if self.policy.normalizer:
            self.policy.normalizer.update(observations.reshape(-1, *observations.shape[2:]))
            self.actor.refresh()

    def state(self) -> dict[str, Any]:
        """Everything the model remembers."""
        return super().state() | {"averaged": self.averaged.policy.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `state` gave."""
        super().restore(state)
        self.averaged.policy.restore(state["averaged"])

    def _mean_divergence(self, batch: dict[str, np.ndarray]) -> float:
        """Of all ranks' batches: each finds the same."""
        own = self._divergence({name: tf.convert_to_tensor(array) for name, array in batch.items()})
        return float(self._comm.average(own.numpy().reshape(1))[0])


@dataclass
class Worker:
    """Environments, a replay of what happened in them, and the learning from both into a model.

    Attributes:
        model: what learns; other workers may share it.
        env: the environments.
        replay: keeps their experience, or None.
        rng: generator of actions' noise and of what is replayed.
        rate: gives the learning rate now.
        nsteps: steps of each environment in a turn.
        replay_ratio: mean number of updates from the replay in a turn.
        replay_start: steps of each environment before the replay is used.
        reward_clip: rewards are clipped to between minus this and this; None for not at all.
        own_actor: act by a copy of the parameters of this worker's own.
        lock: held while the model changes.
        comm: the ranks that train together.
    """

    model: Model
    env: VecEnv
    replay: RolloutReplay | TraceReplay | None
    rng: np.random.Generator
    rate: Callable[[], float]
    nsteps: int
    replay_ratio: float
    replay_start: int
    reward_clip: float | None
    own_actor: bool
    lock: AbstractContextManager
    comm: mpi.Communicator

    def __post_init__(self) -> None:
        self._actor = make_actor(self.model.policy) if self.own_actor else self.model.actor
        self._runner = TraceRunner(self.env, self.model.policy, self._actor, self.nsteps, self.rng)

    def turn(self) -> tuple[dict[str, float], list[dict[str, Any]]]:
        """Collect and learn; the statistics of learning from what was collected, and the episodes that ended."""
        if self.own_actor:
            # The others have changed the parameters since.
            self._actor.refresh()
        batch = self._runner.run()
        if self.reward_clip is not None:
            batch["rewards"] = np.clip(batch["rewards"], -self.reward_clip, self.reward_clip)
        statistics = self._train(batch)
        with self.lock:
            self.model.observe(batch["obs"][:, :-1])
        if self.replay is not None:
            words = self.replay.put(batch)
            if words:
                logger.info(words)
            # Every rank replays or none does: their gradients are averaged.
            if all(self.comm.gather(self.replay.has_atleast(self.replay_start))):
                for _ in range(self.comm.broadcast_object(int(self.rng.poisson(self.replay_ratio)))):
                    self._train(self.replay.sample(self.rng), replayed=True)
        return statistics, self._runner.episodes

    def _train(self, batch: dict[str, np.ndarray], replayed: bool = False) -> dict[str, float]:
        with self.lock:
            return self.model.train(self.rate(), batch, self.rng, replayed)


def learn(
    network: NetworkSpec,
    env: VecEnv | Sequence[VecEnv],
    seed: int | None = None,
    nsteps: int = 20,
    total_timesteps: float = 80e6,
    q_coef: float = 0.5,
    ent_coef: float = 0.01,
    max_grad_norm: float | None = 10.0,
    lr: float = 7e-4,
    lrschedule: str = "linear",
    rprop_epsilon: float = 1e-5,
    rprop_alpha: float = 0.99,
    gamma: float = 0.99,
    log_interval: int = 100,
    buffer_size: int = 50000,
    replay_ratio: float = 4,
    replay_start: int = 10000,
    c: float = 10.0,
    trust_region: bool | str = True,
    alpha: float = 0.99,
    delta: float = 1.0,
    load_path: str | None = None,
    save_interval: int = 0,
    value_network: NetworkSpec | None = None,
    normalize_observations: bool = False,
    reward_clip: float | None = None,
    buffer_len: int | None = None,
    batch_size: int = 32,
    trace_length: int | None = None,
    num_workers: int = 1,
    lock: bool = True,
    comm: Any = None,
    run: RunOptions | None = None,
    **network_kwargs: Any,
) -> Model:
    """Train a policy with ACER.

    Args:
        network: a registered network's name, or a network builder.
        env: the environments; Discrete or Box actions. Several workers: a list with the environments of each.
        seed: seed of everything random; None for a different run each time.
        nsteps: steps of each environment in an update, and in a sequence of the replay.
        total_timesteps: environment steps of this rank, over all workers; whole updates only, the rest is dropped.
        q_coef: weight of the loss of Q.
        ent_coef: weight of the policy's entropy.
        max_grad_norm: bound of the gradient's global norm; None for none.
        lr: learning rate.
        lrschedule: how the learning rate changes: constant, linear, middle_drop, double_linear_con, double_middle_drop.
        rprop_epsilon: RMSProp's epsilon, inside the square root.
        rprop_alpha: decay of RMSProp's mean square.
        gamma: discount per step.
        log_interval: updates from new experience between rows of the logs.
        buffer_size: steps of each environment that the replay keeps.
        replay_ratio: updates from the replay for each one from new experience, on average.
        replay_start: steps of each environment in the replay before it is used.
        c: importance weights are truncated here, and what is cut off is corrected.
        trust_region: True or 'efficient' bounds the gradient by the outputs' distance to the averaged policy; 'exact'
            shortens each step until the mean KL divergence from that policy is within delta; False leaves it unbounded.
        alpha: how much of the averaged policy is kept in each update.
        delta: the bound of the trust region.
        load_path: a saved model to start from.
        save_interval: updates between checkpoints; 0 for only the last.
        value_network: None or 'shared' for heads on one network, 'copy' for a network of its own under Q.
        normalize_observations: scale observations by a running mean and deviation kept inside the policy.
        reward_clip: rewards are clipped to between minus this and this before learning; None for not at all.
        buffer_len: keep so many whole episodes in the replay in place of buffer_size steps (trace mode).
        batch_size: traces in a batch of the replay, in trace mode.
        trace_length: steps to which replayed traces are cut, from a random start; None takes whole episodes.
        num_workers: threads that collect and learn side by side into one model, each with its own environments and
            replay. Runs with several do not repeat bit by bit.
        lock: let one worker change the parameters at a time; False lets all of them do it at once (Hogwild).
        comm: MPI communicator of the ranks that train together; None for all of mpirun's.
        run: options of the run itself: resume, checkpoints, callback, progress, precision.
        network_kwargs: the network builder's own arguments.

    Returns:
        The trained model.
    """
    run, comm = run or RunOptions(), mpi.wrap(comm)
    rate = fraction_schedule(lrschedule, parse_schedule(lr, "lr")(1.0))
    check_at_least(1, nsteps=nsteps, log_interval=log_interval, buffer_size=buffer_size, batch_size=batch_size)
    check_at_least(0, total_timesteps=total_timesteps, replay_ratio=replay_ratio, replay_start=replay_start)
    check_at_least(0, save_interval=save_interval, c=c, delta=delta)
    check_between(0, 1, gamma=gamma, alpha=alpha, rprop_alpha=rprop_alpha)
    check_at_least(0, rprop_epsilon=rprop_epsilon)
    check_at_least(0, **given(reward_clip=reward_clip))
    check_at_least(1, **given(buffer_len=buffer_len, trace_length=trace_length))
    check_above(0, **given(max_grad_norm=max_grad_norm))
    if not isinstance(trust_region, bool | str) or trust_region not in TRUST_REGIONS:
        raise bad_argument("trust_region", trust_region, "True, False, 'efficient' or 'exact'")
    if buffer_len is None and (trace_length is not None or batch_size != BATCH_SIZE):
        raise ValueError("batch_size and trace_length are of replayed episodes: give buffer_len, how many to keep")
    if replay_ratio and buffer_len is None and replay_start > buffer_size:
        raise bad_argument("replay_start", replay_start, f"at most buffer_size={buffer_size}, or nothing is replayed")

    def make_replay(one: VecEnv) -> RolloutReplay | TraceReplay:
        if buffer_len is None:
            return RolloutReplay(one, buffer_size, nsteps)
        return TraceReplay(one, buffer_len, batch_size, trace_length)

    set_precision(run.precision)
    with workers_environments(env, num_workers, run, comm) as envs:
        rng = seed_everything(seed, comm)
        model = Model(
            envs[0],
            network,
            Coefficients(q_coef, ent_coef, gamma, c, delta, TRUST_REGIONS[trust_region]),
            max_grad_norm=max_grad_norm,
            rprop_alpha=rprop_alpha,
            rprop_epsilon=rprop_epsilon,
            alpha=alpha,
            comm=comm,
            value_network=value_network,
            normalize_observations=normalize_observations,
            **network_kwargs,
        )
        model.rng = rng
        model.attach(envs[0], run.config)
        if load_path is not None:
            model.load(load_path)
        replays = [make_replay(one) if replay_ratio else None for one in envs]
        crew = Crew([lambda number=number: workers[number].turn() for number in range(len(envs))])
        training = Training(
            "acer",
            model,
            Together(envs),
            rng,
            total_timesteps=int(total_timesteps),
            steps_per_update=envs[0].num_envs * nsteps,
            save_interval=save_interval,
            replay=TreeFile(Together(replays)) if replay_ratio else None,
            paused=crew.paused,
            run=run,
            comm=comm,
        )
        if load_path is None and run.resume is None:
            # Rank 0's parameters have been handed out by now.
            model.averaged.reset()
        alone = len(envs) == 1
        together = threading.Lock() if lock and not alone else nullcontext()
        workers = [
            Worker(
                model,
                one,
                replay,
                rng if alone else np.random.default_rng(rng.integers(2**63)),
                lambda: rate(training.fraction_left),
                nsteps=nsteps,
                replay_ratio=replay_ratio,
                replay_start=replay_start,
                reward_clip=reward_clip,
                own_actor=not alone,
                lock=together,
                comm=comm,
            )
            for one, replay in zip(envs, replays, strict=True)
        ]
        _run(training, crew, len(workers), log_interval)
    return model


def build_model(network: NetworkSpec, env: Any, arguments: dict[str, Any]) -> PolicyModel:
    """The model of a saved run, ready to load its weights, for playing and evaluating.

    Args:
        network: as given to learn.
        env: an environment with the run's spaces.
        arguments: the others that learn was called with.
    """
    return PolicyModel(make_policy(env, network, arguments))


def make_policy(env: Any, network: NetworkSpec, arguments: dict[str, Any]) -> Policy:
    """A policy with a Q of each Discrete action, or with the stochastic duelling network for Box actions."""
    if isinstance(env.action_space, spaces.Discrete):
        return policy_of_run(env, network, arguments, estimate_q=True)
    if isinstance(env.action_space, spaces.Box):
        return policy_of_run(env, network, arguments, policy_class=DuelingPolicy)
    raise ValueError(f"acer needs Discrete or Box actions, not {env.action_space}")


def _run(training: Training, crew: Crew, count: int, log_interval: int) -> None:
    """The loop: every turn of a worker is an update."""
    episodes, latest = [Episodes() for _ in range(count)], {}
    with training, crew:
        turns = crew.results(training.num_updates - training.update)
        for _, (number, (statistics, ended)) in zip(training.updates(), turns, strict=False):
            training.episodes.extend(ended)
            episodes[number].extend(ended)
            latest[number] = statistics | {
                "mean_episode_length": episodes[number].mean_length,
                "mean_episode_reward": episodes[number].mean_reward,
            }
            training.finish_update(log_interval, lambda training, now=statistics: _row(training, now, latest))


def _row(training: Training, statistics: dict[str, float], latest: dict[int, dict[str, float]]) -> dict[str, Any]:
    """A row of the logs under the original's names, and with several workers what each of them had last."""
    own = {} if len(latest) < 2 else latest
    return (
        statistics
        | {
            "total_timesteps": training.timesteps,
            "fps": training.fps,
            "mean_episode_length": training.episodes.mean_length,
            "mean_episode_reward": training.episodes.mean_reward,
        }
        | {f"worker{number}/{name}": value for number, row in sorted(own.items()) for name, value in row.items()}
    )
