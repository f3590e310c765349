"""ACER: actor-critic with experience replay (Wang et al. 2017, arXiv:1611.01224).

Each update collects nsteps from every environment, learns from them, and then from Poisson(replay_ratio) batches of the
replay. With rho = f(a|x) / mu(a|x), the policy f now over the one that acted, and Retrace targets Q^ret, it ascends

    min(c, rho) (Q^ret - V) log f(a|x)  +  sum_a' max(0, 1 - c / rho(a')) f(a'|x) (Q(x, a') - V) log f(a'|x)

plus ent_coef * H[f], where the factors before log f are constants, and descends q_coef * 0.5 (Q^ret - Q(x, a))^2. The
gradient with respect to f is bounded by a trust region around the averaged policy (optim/trust_region.py).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.envs.vec import VecEnv
from tfbaselines.errors import check_at_least, check_between
from tfbaselines.experience.retrace import retrace
from tfbaselines.experience.traces import RolloutReplay, TraceRunner
from tfbaselines.optim.average import AveragedPolicy
from tfbaselines.optim.optimizers import RMSProp
from tfbaselines.optim.schedules import fraction_schedule, parse_schedule
from tfbaselines.optim.trust_region import bounded_gradient, gaussian_kl_gradient, row_norms
from tfbaselines.optim.update import Update, set_precision
from tfbaselines.parallel import mpi
from tfbaselines.policy.dueling import DuelingPolicy
from tfbaselines.policy.policy import NetworkSpec, Policy, policy_of_run
from tfbaselines.running import logger
from tfbaselines.running.model import PolicyModel
from tfbaselines.running.options import RunOptions
from tfbaselines.running.training import Training, seed_everything

# Keeps logarithms and quotients of probabilities finite, as in the original.
EPSILON = 1e-6
# Importance ratios of densities are kept between exp(-LARGEST) and exp(LARGEST).
LARGEST = 20.0
# Actions over which the advantage of continuous ones is centred, as in the paper.
SAMPLED_ACTIONS = 5

LOSS_NAMES = ("loss", "loss_q", "entropy", "loss_policy", "loss_f", "loss_bc", "explained_variance", "norm_grads")
TRUST_REGION_NAMES = (
    "norm_grads_q",
    "norm_grads_policy",
    "avg_norm_grads_f",
    "avg_norm_k",
    "avg_norm_g",
    "avg_norm_k_dot_g",
    "avg_norm_adj",
)


DEFAULTS = {"atari": {"lrschedule": "constant"}}


class Coefficients(NamedTuple):
    """The numbers of the objective; see learn."""

    q_coef: float
    ent_coef: float
    gamma: float
    c: float
    delta: float
    trust_region: bool


class Terms(NamedTuple):
    """What the gradient of one batch is put together from.

    Attributes:
        phi: [B, P] the policy's outputs, whose gradient the trust region bounds.
        kl_gradient: from the averaged policy's parameters [B, P], the gradient of KL(averaged || policy) by phi.
        objective: the policy's loss, entropy included.
        critic: the weighted loss of Q.
        statistics: LOSS_NAMES but the last.
        mean: mean over the steps that count.
        total: how many these are.
    """

    phi: tf.Tensor
    kl_gradient: Callable[[tf.Tensor], tf.Tensor]
    objective: tf.Tensor
    critic: tf.Tensor
    statistics: list[tf.Tensor]
    mean: Callable[[tf.Tensor], tf.Tensor]
    total: tf.Tensor


def discrete_terms(policy: Policy, batch: dict[str, tf.Tensor], coefficients: Coefficients) -> Terms:
    """The module's formulas with the exact expectation over Discrete actions.

    Args:
        policy: gives logits and a Q of each action.
        batch: obs [N, T + 1, ...], actions, rewards, ended, cut [N, T], mus [N, T, A] the logits that acted;
            recurrent policies: masks [N, T + 1] and states [N, S].
        coefficients: see learn.
    """
    count, c = batch["actions"].shape[0], coefficients.c
    mean, total = _mean_of_valid(batch)
    outputs = policy.forward(*_inputs(batch))
    probabilities, q_all = tf.nn.softmax(outputs.flat), outputs.value
    v_all = tf.reduce_sum(probabilities * q_all, axis=-1)
    f, q, v = (_without_last(x, count) for x in (probabilities, q_all, v_all))
    actions = tf.reshape(batch["actions"], [-1]) - policy.action_space.start
    f_a, q_a = (tf.gather(x, actions, batch_dims=1) for x in (f, q))
    rho = tf.stop_gradient(f / (tf.nn.softmax(_merge(batch["mus"])) + EPSILON))
    rho_a = tf.gather(rho, actions, batch_dims=1)
    targets = _targets(batch, q_a, v_all, tf.minimum(1.0, rho_a), coefficients.gamma)

    log_f = tf.math.log(f + EPSILON)
    entropy = mean(-tf.reduce_sum(f * log_f, axis=-1))
    advantage = tf.stop_gradient((targets - v) * tf.minimum(c, rho_a))
    loss_f = -mean(tf.math.log(f_a + EPSILON) * advantage)
    correction = tf.stop_gradient((q - v[:, None]) * tf.nn.relu(1.0 - c / (rho + EPSILON)) * f)
    loss_bc = -mean(tf.reduce_sum(log_f * correction, axis=-1))
    loss_q = 0.5 * mean(tf.square(targets - q_a))
    objective, critic = loss_f + loss_bc - coefficients.ent_coef * entropy, coefficients.q_coef * loss_q
    statistics = [objective + critic, loss_q, entropy, loss_f + loss_bc, loss_f, loss_bc]
    statistics.append(1.0 - _variance(targets - q_a, mean) / _variance(targets, mean))
    return Terms(f, lambda flat: -tf.nn.softmax(flat) / (f + EPSILON), objective, critic, statistics, mean, total)


def continuous_terms(policy: DuelingPolicy, batch: dict[str, tf.Tensor], coefficients: Coefficients) -> Terms:
    """The same for densities (the paper's section 5 and algorithm 3): one sampled action a' stands for the expectation.

    Weights of the traces are min(1, rho^(1/d)) for actions of d dimensions, the policy is led by returns whose traces
    are not cut at all, and Q is the stochastic duelling network's, whose error also moves V.

    Args:
        policy: gives means, log deviations, V and the advantage of given actions.
        batch: as for discrete_terms, mus the parameters that acted, and noise [N, T, 1 + n, d]: of a', and of the n
            actions over which the advantage is centred.
        coefficients: see learn.
    """
    count, c = batch["actions"].shape[0], coefficients.c
    mean, total = _mean_of_valid(batch)
    outputs = policy.forward(*_inputs(batch))
    flat, v, features = (_without_last(x, count) for x in (outputs.flat, outputs.value, outputs.features))
    now, then = policy.head.distribution(flat), policy.head.distribution(_merge(batch["mus"]))
    noise = _merge(batch["noise"])
    actions = _merge(batch["actions"])
    other = tf.stop_gradient(now.sample(noise[:, 0]))
    centre = [tf.stop_gradient(now.sample(noise[:, k])) for k in range(1, noise.shape[1])]
    q_a, q_other = policy.q_of(features, v, [actions, other], centre)

    def ratio(taken: tf.Tensor) -> tf.Tensor:
        return tf.stop_gradient(tf.exp(tf.clip_by_value(now.logp(taken) - then.logp(taken), -LARGEST, LARGEST)))

    rho, rho_other = ratio(actions), ratio(other)
    trace = tf.minimum(1.0, rho ** (1.0 / policy.head.width))
    targets = _targets(batch, q_a, outputs.value, trace, coefficients.gamma)
    uncut = _targets(batch, q_a, outputs.value, tf.ones_like(trace), coefficients.gamma)

    entropy = mean(now.entropy())
    loss_f = -mean(now.logp(actions) * tf.stop_gradient(tf.minimum(c, rho) * (uncut - v)))
    correction = tf.stop_gradient(tf.nn.relu(1.0 - c / rho_other) * (q_other - v))
    loss_bc = -mean(now.logp(other) * correction)
    loss_q = 0.5 * mean(tf.square(targets - q_a))
    loss_v = -mean(v * tf.stop_gradient(tf.minimum(1.0, rho) * (targets - q_a)))
    objective = loss_f + loss_bc - coefficients.ent_coef * entropy
    critic = coefficients.q_coef * (loss_q + loss_v)
    statistics = [objective + critic, loss_q, entropy, loss_f + loss_bc, loss_f, loss_bc]
    statistics.append(1.0 - _variance(targets - q_a, mean) / _variance(targets, mean))
    return Terms(flat, lambda average: gaussian_kl_gradient(average, flat), objective, critic, statistics, mean, total)


def gradients(
    terms_of: Callable[..., Terms],
    policy: Policy,
    averaged: AveragedPolicy,
    batch: dict[str, tf.Tensor],
    coefficients: Coefficients,
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Gradients of one batch, bounded by the trust region, and the statistics (LOSS_NAMES, TRUST_REGION_NAMES)."""
    variables = [variable.value for variable in policy.trainable_variables]
    with tf.GradientTape(persistent=True) as tape:
        terms = terms_of(policy, batch, coefficients)
        loss = terms.objective + terms.critic
    if not coefficients.trust_region:
        whole = tape.gradient(loss, variables, unconnected_gradients="zero")
        return whole, tf.stack([*terms.statistics, tf.linalg.global_norm(whole)])
    mean, total = terms.mean, terms.total
    average = _without_last(averaged.forward(*_inputs(batch)), batch["actions"].shape[0])
    ascent = -tape.gradient(terms.objective, terms.phi) * total
    bounded, sizes = bounded_gradient(ascent, terms.kl_gradient(average), coefficients.delta)
    of_policy = tape.gradient(terms.phi, variables, output_gradients=-bounded / total, unconnected_gradients="zero")
    of_q = tape.gradient(terms.critic, variables, unconnected_gradients="zero")
    whole = [one + other for one, other in zip(of_policy, of_q, strict=True)]
    norms = [tf.linalg.global_norm(x) for x in (whole, of_q, of_policy)]
    return whole, tf.stack([*terms.statistics, *norms, mean(row_norms(bounded)), *map(mean, sizes)])


class Model(PolicyModel):
    """A policy with a Q of each action, its average, and the optimiser.

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
        terms = continuous_terms if isinstance(policy, DuelingPolicy) else discrete_terms
        super().__init__(policy, RMSProp(rprop_alpha, rprop_epsilon))
        self.averaged = AveragedPolicy(policy, copy, alpha)
        self.statistic_names = LOSS_NAMES + (TRUST_REGION_NAMES if coefficients.trust_region else ())
        self._update = Update(
            None,
            policy.trainable_variables,
            self.optimizer,
            max_grad_norm=max_grad_norm,
            jit=not policy.convolutional,
            comm=comm,
            gradients=lambda batch, _: gradients(terms, policy, self.averaged, batch, coefficients),
            after_step=self.averaged.step,
        )

    def train(self, lr: float, batch: dict[str, np.ndarray]) -> dict[str, float]:
        """One gradient step on a batch of sequences; see discrete_terms. Returns the statistics by name."""
        rows = np.arange(len(batch["actions"]), dtype=np.int32)[None]
        if isinstance(self.policy, DuelingPolicy):
            shape = (*batch["rewards"].shape, 1 + SAMPLED_ACTIONS)
            batch = batch | {"noise": self.policy.head.draw_noise(self.rng, shape)}
        statistics = self._update(batch, rows, lr=lr)
        self.actor.refresh()
        return dict(zip(self.statistic_names, statistics.tolist(), strict=True))

    def state(self) -> dict[str, Any]:
        """Everything the model remembers."""
        return super().state() | {"averaged": self.averaged.policy.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `state` gave."""
        super().restore(state)
        self.averaged.policy.restore(state["averaged"])


def learn(
    network: NetworkSpec,
    env: VecEnv,
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
    trust_region: bool = True,
    alpha: float = 0.99,
    delta: float = 1.0,
    load_path: str | None = None,
    save_interval: int = 0,
    value_network: NetworkSpec | None = None,
    comm: Any = None,
    run: RunOptions | None = None,
    **network_kwargs: Any,
) -> Model:
    """Train a policy with ACER.

    Args:
        network: a registered network's name, or a network builder.
        env: the environments; Discrete or Box actions.
        seed: seed of everything random; None for a different run each time.
        nsteps: steps of each environment in an update, and in a sequence of the replay.
        total_timesteps: environment steps of this rank; whole updates only, the rest is dropped.
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
        trust_region: bound the policy's gradient by the distance to the averaged policy.
        alpha: how much of the averaged policy is kept in each update.
        delta: the bound of the trust region.
        load_path: a saved model to start from.
        save_interval: updates between checkpoints; 0 for only the last.
        value_network: None or 'shared' for heads on one network, 'copy' for a network of its own under Q.
        comm: MPI communicator of the ranks that train together; None for all of mpirun's.
        run: options of the run itself: resume, checkpoints, callback, progress, precision.
        network_kwargs: the network builder's own arguments.

    Returns:
        The trained model.
    """
    run, comm = run or RunOptions(), mpi.wrap(comm)
    rate = fraction_schedule(lrschedule, parse_schedule(lr, "lr")(1.0))
    check_at_least(1, nsteps=nsteps, log_interval=log_interval, buffer_size=buffer_size)
    check_at_least(0, total_timesteps=total_timesteps, replay_ratio=replay_ratio, replay_start=replay_start)
    check_at_least(0, save_interval=save_interval, c=c, delta=delta)
    check_between(0, 1, gamma=gamma, alpha=alpha, rprop_alpha=rprop_alpha)
    set_precision(run.precision)
    rng = seed_everything(seed, comm)
    model = Model(
        env,
        network,
        Coefficients(q_coef, ent_coef, gamma, c, delta, trust_region),
        max_grad_norm=max_grad_norm,
        rprop_alpha=rprop_alpha,
        rprop_epsilon=rprop_epsilon,
        alpha=alpha,
        comm=comm,
        value_network=value_network,
        **network_kwargs,
    )
    model.rng = rng
    model.attach(env, run.config)
    if load_path is not None:
        model.load(load_path)
    replay = RolloutReplay(env, buffer_size, nsteps) if replay_ratio else None
    training = Training(
        "acer",
        model,
        env,
        rng,
        total_timesteps=int(total_timesteps),
        steps_per_update=env.num_envs * nsteps,
        save_interval=save_interval,
        replay=replay,
        run=run,
        comm=comm,
    )
    if load_path is None and run.resume is None:
        # Rank 0's parameters have been handed out by now.
        model.averaged.reset()
    runner = TraceRunner(env, model.policy, model.actor, nsteps, rng)
    with training:
        for _ in training.updates():
            batch = runner.run()
            training.episodes.extend(runner.episodes)
            now = rate(training.fraction_left)
            statistics = model.train(now, batch)
            if replay is not None:
                words = replay.put(batch)
                if words:
                    logger.info(words)
                if replay.has_atleast(replay_start):
                    for _ in range(comm.broadcast_object(int(rng.poisson(replay_ratio)))):
                        statistics = model.train(now, replay.sample(rng))
            training.finish_update(log_interval, lambda training, now=statistics: _row(training, now))
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


def _row(training: Training, statistics: dict[str, float]) -> dict[str, Any]:
    """A row of the logs under the original's names."""
    return statistics | {
        "total_timesteps": training.timesteps,
        "fps": training.fps,
        "mean_episode_length": training.episodes.mean_length,
        "mean_episode_reward": training.episodes.mean_reward,
    }


def _inputs(batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor | None, tf.Tensor | None]:
    """Observations, masks and states as the policy takes them: rows ordered by sequence, then time."""
    states = batch.get("states")
    return _merge(batch["obs"]), None if states is None else _merge(batch["masks"]), states


def _merge(x: tf.Tensor) -> tf.Tensor:
    return tf.reshape(x, (-1, *x.shape[2:]))


def _without_last(x: tf.Tensor, count: int) -> tf.Tensor:
    """Rows [N * (T + 1), ...] without each sequence's last."""
    return _merge(tf.reshape(x, (count, -1, *x.shape[1:]))[:, :-1])


def _mean_of_valid(batch: dict[str, tf.Tensor]) -> tuple[Callable[[tf.Tensor], tf.Tensor], tf.Tensor]:
    """The mean over the steps that are not cut, and their number."""
    valid = tf.reshape(1.0 - batch["cut"], [-1])
    total = tf.maximum(tf.reduce_sum(valid), 1.0)
    return lambda x: tf.reduce_sum(x * valid) / total, total


def _targets(
    batch: dict[str, tf.Tensor], q_taken: tf.Tensor, v_all: tf.Tensor, weights: tf.Tensor, gamma: float
) -> tf.Tensor:
    """Retrace targets of all rows; v_all has the observation after the last step too."""
    shape = batch["rewards"].shape
    values = tf.reshape(v_all, (shape[0], -1))
    q_taken, weights = tf.reshape(q_taken, shape), tf.reshape(weights, shape)
    targets = retrace(
        batch["rewards"], batch["ended"], batch["cut"], q_taken, values[:, :-1], values[:, -1], weights, gamma
    )
    return tf.reshape(targets, [-1])


def _variance(x: tf.Tensor, mean: Any) -> tf.Tensor:
    return mean(tf.square(x - mean(x)))
