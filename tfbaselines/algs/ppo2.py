"""PPO2: proximal policy optimisation with clipped probability ratios (Schulman et al. 2017, arXiv:1707.06347).

Each update collects nsteps from every environment with the current policy, estimates advantages A with GAE, and takes
noptepochs passes over that rollout in nminibatches parts, descending

    L = L_clip + vf_coef * L_value - ent_coef * H[pi]
    L_clip  = E[max(-A * ratio, -A * clip(ratio, 1 - cliprange, 1 + cliprange))],  ratio = pi(a|s) / pi_old(a|s)
    L_value = 0.5 * E[max((V - R)^2, (V_old + clip(V - V_old, -cliprange, cliprange) - R)^2)],  R = A + V_old

with advantages standardised in each minibatch, gradients clipped by their global norm and Adam.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from tfbaselines.envs.vec import VecEnv
from tfbaselines.errors import bad_argument, check_above, check_at_least, check_between, given
from tfbaselines.experience.returns import explained_variance, gae
from tfbaselines.experience.rollout import Rollout, Runner, env_major
from tfbaselines.optim.optimizers import Adam
from tfbaselines.optim.update import Update
from tfbaselines.parallel import mpi
from tfbaselines.policy.policy import NetworkSpec, Policy, build_policy, policy_of_run
from tfbaselines.policy.precision import set_precision
from tfbaselines.running.model import PolicyModel
from tfbaselines.running.training import Training, seed_everything
from tfbaselines.settings.bases import OnPolicyConfig
from tfbaselines.settings.config import Schedule, arg
from tfbaselines.settings.options import RunOptions
from tfbaselines.settings.schedules import FractionSchedule, parse_schedule

# lr and cliprange take numbers, functions of the fraction of training left, or text such as 'linear_3e-4'.
SCHEDULE_ARGUMENTS = ("lr", "cliprange")

DEFAULTS = {
    "atari": {
        "nsteps": 128,
        "nminibatches": 4,
        "lam": 0.95,
        "gamma": 0.99,
        "noptepochs": 4,
        "log_interval": 1,
        "ent_coef": 0.01,
        "lr": "linear_2.5e-4",
        "cliprange": 0.1,
    },
    "mujoco": {
        "nsteps": 2048,
        "nminibatches": 32,
        "lam": 0.95,
        "gamma": 0.99,
        "noptepochs": 10,
        "log_interval": 1,
        "ent_coef": 0.0,
        "lr": "linear_3e-4",
        "cliprange": 0.2,
        "value_network": "copy",
    },
}

ADAM_EPSILON = 1e-5

# What a step of the loss reports, in order.
LOSS_NAMES = ("policy_loss", "value_loss", "policy_entropy", "approxkl", "clipfrac")


@dataclass(frozen=True, kw_only=True)
class Config(OnPolicyConfig):
    """Arguments of PPO2."""

    nsteps: int = arg(2048, "steps of each environment in an update", at_least=1)
    ent_coef: float = arg(0.0, "weight of the policy's entropy in the loss")
    lr: Schedule = arg(3e-4, "learning rate", at_least=0)
    vf_coef: float = arg(0.5, "weight of the value loss", at_least=0)
    max_grad_norm: float | None = arg(0.5, "bound of the gradient's global norm; None for none", above=0)
    lam: float = arg(0.95, "weight of longer advantage estimates (GAE)", at_least=0, at_most=1)
    log_interval: int = arg(10, "updates between rows of the logs", at_least=1)
    nminibatches: int = arg(4, "minibatches of an epoch; recurrent policies: groups of environments", at_least=1)
    noptepochs: int = arg(4, "passes over each rollout", at_least=1)
    cliprange: Schedule = arg(0.2, "how far the probability ratio may go from 1", at_least=0)
    model_fn: Callable[..., Any] | None = arg(None, "makes the model in place of Model; train() then takes minibatches")
    update_fn: Callable[[int], None] | None = arg(None, "called with the update's number after each update")
    init_fn: Callable[[], None] | None = arg(None, "called once before training")
    mpi_rank_weight: float = arg(1.0, "this rank's weight when gradients are averaged over ranks", at_least=0)

    order: ClassVar = """
        total_timesteps eval_env seed nsteps ent_coef lr vf_coef max_grad_norm gamma lam log_interval
        nminibatches noptepochs cliprange save_interval load_path model_fn update_fn init_fn mpi_rank_weight
        comm value_network normalize_observations run
    """
    env_defaults: ClassVar = {
        "atari": {
            "nsteps": 128,
            "log_interval": 1,
            "ent_coef": 0.01,
            "lr": "linear_2.5e-4",
            "cliprange": 0.1,
        },
        "mujoco": {
            "nminibatches": 32,
            "noptepochs": 10,
            "log_interval": 1,
            "lr": "linear_3e-4",
            "value_network": "copy",
        },
    }


def loss(
    policy: Policy, batch: dict[str, tf.Tensor], coefficients: dict[str, tf.Tensor], ent_coef: float, vf_coef: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """The objective of one minibatch and its statistics (LOSS_NAMES).

    Args:
        policy: gives the current distribution and values.
        batch: obs, actions, returns, values, neglogpacs [B, ...]; recurrent policies: the same as [n, T, ...] with
            episode_start [n, T] and states [n, S].
        coefficients: cliprange.
        ent_coef: weight of the entropy.
        vf_coef: weight of the value loss.
    """
    states = batch.get("states")
    if states is not None:
        batch = {name: _merge_leading(array) for name, array in batch.items() if name != "states"}
    outputs = policy.forward(batch["obs"], batch.get("episode_start"), states)
    distribution = policy.head.distribution(outputs.flat)
    neglogp, entropy = distribution.neglogp(batch["actions"]), tf.reduce_mean(distribution.entropy())
    cliprange, returns, old_values = coefficients["cliprange"], batch["returns"], batch["values"]

    advantages = returns - old_values
    advantages = (advantages - tf.reduce_mean(advantages)) / (tf.math.reduce_std(advantages) + 1e-8)
    ratio = tf.exp(batch["neglogpacs"] - neglogp)
    clipped_ratio = tf.clip_by_value(ratio, 1.0 - cliprange, 1.0 + cliprange)
    policy_loss = tf.reduce_mean(tf.maximum(-advantages * ratio, -advantages * clipped_ratio))

    clipped_values = old_values + tf.clip_by_value(outputs.value - old_values, -cliprange, cliprange)
    errors = tf.maximum(tf.square(outputs.value - returns), tf.square(clipped_values - returns))
    value_loss = 0.5 * tf.reduce_mean(errors)

    approxkl = 0.5 * tf.reduce_mean(tf.square(neglogp - batch["neglogpacs"]))
    clipfrac = tf.reduce_mean(tf.cast(tf.abs(ratio - 1.0) > cliprange, tf.float32))
    total = policy_loss - ent_coef * entropy + vf_coef * value_loss
    return total, tf.stack([policy_loss, value_loss, entropy, approxkl, clipfrac])


class Model(PolicyModel):
    """A policy and the optimiser that trains it.

    Args:
        policy: what acts and is trained.
        ob_space: its observation space.
        ac_space: its action space.
        nbatch_act: how many environments act at once.
        nbatch_train: rows in a minibatch.
        nsteps: steps of each environment in a rollout.
        ent_coef: weight of the entropy in the loss.
        vf_coef: weight of the value loss.
        max_grad_norm: bound of the gradient's global norm, or None.
        mpi_rank_weight: this rank's weight when gradients are averaged.
        comm: communicator of the ranks that train together.
    """

    def __init__(
        self,
        *,
        policy: Policy,
        ob_space: Any,
        ac_space: Any,
        nbatch_act: int,
        nbatch_train: int,
        nsteps: int,
        ent_coef: float,
        vf_coef: float,
        max_grad_norm: float | None,
        mpi_rank_weight: float = 1.0,
        comm: Any = None,
    ) -> None:
        super().__init__(policy, Adam(epsilon=ADAM_EPSILON))
        self.ob_space, self.ac_space = ob_space, ac_space
        self.nbatch_act, self.nbatch_train, self.nsteps = nbatch_act, nbatch_train, nsteps
        self.loss_names = LOSS_NAMES
        self._update = Update(
            lambda batch, coefficients: loss(policy, batch, coefficients, ent_coef, vf_coef),
            policy.trainable_variables,
            self.optimizer,
            max_grad_norm=max_grad_norm,
            jit=not policy.convolutional,
            comm=comm,
            rank_weight=mpi_rank_weight,
        )

    def train(
        self,
        lr: float,
        cliprange: float,
        obs: np.ndarray,
        returns: np.ndarray,
        masks: np.ndarray,
        actions: np.ndarray,
        values: np.ndarray,
        neglogpacs: np.ndarray,
        states: np.ndarray | None = None,
    ) -> list[float]:
        """One gradient step on one minibatch of rows ordered by environment, then time; returns its LOSS_NAMES."""
        batch = {"obs": obs, "returns": returns, "actions": actions, "values": values, "neglogpacs": neglogpacs}
        rows = len(obs)
        if states is not None:
            rows = len(states)
            batch = {name: array.reshape(rows, -1, *array.shape[1:]) for name, array in batch.items()}
            batch |= {"episode_start": masks.reshape(rows, -1).astype(np.float32), "states": states}
        return self.train_phase(lr, cliprange, batch, np.arange(rows, dtype=np.int32)[None])

    def train_phase(self, lr: float, cliprange: float, data: dict[str, np.ndarray], indices: np.ndarray) -> list[float]:
        """A whole optimisation phase.

        Args:
            lr: learning rate.
            cliprange: see the module's formulas.
            data: the rollout's arrays with equal first axes; see `loss`.
            indices: [K, B], the rows of each of the K minibatches.

        Returns:
            Means over the K steps of LOSS_NAMES.
        """
        statistics = self._update(data, indices, lr=lr, cliprange=cliprange)
        self.actor.refresh()
        return statistics.tolist()


def learn(
    network: NetworkSpec,
    env: VecEnv,
    total_timesteps: float = 1e6,
    eval_env: VecEnv | None = None,
    seed: int | None = None,
    nsteps: int = 2048,
    ent_coef: float = 0.0,
    lr: float | str | FractionSchedule = 3e-4,
    vf_coef: float = 0.5,
    max_grad_norm: float | None = 0.5,
    gamma: float = 0.99,
    lam: float = 0.95,
    log_interval: int = 10,
    nminibatches: int = 4,
    noptepochs: int = 4,
    cliprange: float | str | FractionSchedule = 0.2,
    save_interval: int = 0,
    load_path: str | None = None,
    model_fn: Callable[..., Model] | None = None,
    update_fn: Callable[[int], None] | None = None,
    init_fn: Callable[[], None] | None = None,
    mpi_rank_weight: float = 1.0,
    comm: Any = None,
    value_network: NetworkSpec | None = None,
    normalize_observations: bool = False,
    run: RunOptions | None = None,
    **network_kwargs: Any,
) -> Model:
    """Train a policy with PPO2.

    Args:
        network: a registered network's name, or a network builder.
        env: the environments.
        total_timesteps: environment steps of this rank; whole rollouts only, the rest is dropped.
        eval_env: environments on which the policy is also run, for the logs; it does not learn from them.
        seed: seed of everything random; None for a different run each time.
        nsteps: steps of each environment in an update.
        ent_coef: weight of the policy's entropy in the loss.
        lr: learning rate: a number, a function of the fraction of training left, or such as linear_3e-4.
        vf_coef: weight of the value loss.
        max_grad_norm: bound of the gradient's global norm; None for none.
        gamma: discount per step.
        lam: weight of longer advantage estimates (GAE).
        log_interval: updates between rows of the logs.
        nminibatches: parts into which a rollout is cut for gradient steps; recurrent policies: groups of environments.
        noptepochs: passes over each rollout.
        cliprange: how far the probability ratio may go from 1: a number, a function, or such as linear_0.2.
        save_interval: updates between checkpoints; 0 for only the last.
        load_path: a saved model to start from.
        model_fn: makes the model in place of Model; its train() is then called for each minibatch.
        update_fn: called with the update's number after each update.
        init_fn: called once before training.
        mpi_rank_weight: this rank's weight when gradients are averaged over ranks.
        comm: MPI communicator of the ranks that train together; None for all of mpirun's.
        value_network: None or 'shared' for a value head on the policy's network, 'copy' for a network of its own of
            the same kind, another network's name, or a builder.
        normalize_observations: scale observations by a running mean and deviation kept inside the policy.
        run: options of the run itself: resume, checkpoints, callback, progress, precision.
        network_kwargs: the network builder's own arguments.

    Returns:
        The trained model.
    """
    run = run or RunOptions()
    comm = mpi.wrap(comm)
    lr, cliprange = parse_schedule(lr, "lr"), parse_schedule(cliprange, "cliprange")
    check_at_least(1, nsteps=nsteps, nminibatches=nminibatches, noptepochs=noptepochs, log_interval=log_interval)
    check_at_least(0, total_timesteps=total_timesteps, save_interval=save_interval)
    check_between(0, 1, gamma=gamma, lam=lam)
    check_above(0, **given(max_grad_norm=max_grad_norm))
    set_precision(run.precision)
    rng = seed_everything(seed, comm)
    policy = build_policy(env, network, value_network, normalize_observations, comm=comm, **network_kwargs)
    nbatch = env.num_envs * nsteps
    rows = env.num_envs if policy.recurrent else nbatch
    if rows % nminibatches:
        what = "envs, since the policy is recurrent" if policy.recurrent else "steps of a rollout (num_env x nsteps)"
        raise bad_argument("nminibatches", nminibatches, f"a divisor of the {rows} {what}")
    model = (model_fn or Model)(
        policy=policy,
        ob_space=env.observation_space,
        ac_space=env.action_space,
        nbatch_act=env.num_envs,
        nbatch_train=nbatch // nminibatches,
        nsteps=nsteps,
        ent_coef=ent_coef,
        vf_coef=vf_coef,
        max_grad_norm=max_grad_norm,
        comm=comm,
        mpi_rank_weight=mpi_rank_weight,
    )
    model.rng = rng
    model.attach(env, run.config)
    if load_path is not None:
        model.load(load_path)
    training = Training(
        "ppo2",
        model,
        env,
        rng,
        total_timesteps=int(total_timesteps),
        steps_per_update=nbatch,
        save_interval=save_interval,
        run=run,
        comm=comm,
    )
    runner = Runner(env, policy, model.actor, nsteps, rng)
    eval_runner = Runner(eval_env, policy, model.actor, nsteps, rng) if eval_env is not None else None
    if init_fn is not None:
        init_fn()

    train_phase = _minibatch_by_minibatch(model) if model_fn is not None else model.train_phase
    with training:
        for update in training.updates():
            rollout = runner.run()
            training.episodes.extend(rollout.episodes)
            data, returns = training_data(rollout, gamma, lam, policy.recurrent)
            indices = shuffled(rng, len(data["returns"]), nminibatches, noptepochs)
            fraction = training.fraction_left
            losses = train_phase(lr(fraction), cliprange(fraction), data, indices)
            if policy.normalizer:
                policy.normalizer.update(env_major(rollout.obs))
                model.actor.refresh()
            if eval_runner is not None:
                training.eval_episodes.extend(eval_runner.run().episodes)
            if update_fn is not None:
                update_fn(update)
            training.finish_update(log_interval, _statistics(losses, rollout, returns, nsteps, eval_env is not None))
    return model


def training_data(
    rollout: Rollout, gamma: float, lam: float, recurrent: bool
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """A rollout as the loss takes it, and its returns [T, N].

    The rows are environment-major; for recurrent policies the first axis is the environment, so that minibatches are
    made of whole sequences.
    """
    rewards = rollout.rewards + gamma * rollout.timeout_values
    advantages = gae(
        rewards, rollout.values, rollout.episode_start, rollout.last_values, rollout.last_episode_start, gamma, lam
    )
    returns = advantages.astype(np.float32) + rollout.values
    arrays = {
        "obs": rollout.obs,
        "actions": rollout.actions,
        "returns": returns,
        "values": rollout.values,
        "neglogpacs": rollout.neglogps,
    }
    if not recurrent:
        return {name: env_major(array) for name, array in arrays.items()}, returns
    arrays["episode_start"] = rollout.episode_start.astype(np.float32)
    sequences = {name: np.ascontiguousarray(array.swapaxes(0, 1)) for name, array in arrays.items()}
    return sequences | {"states": rollout.states}, returns


def shuffled(rng: np.random.Generator, rows: int, nminibatches: int, noptepochs: int) -> np.ndarray:
    """Indices [noptepochs * nminibatches, rows / nminibatches]: each epoch is one permutation, cut into minibatches."""
    epochs = [rng.permutation(rows).reshape(nminibatches, -1) for _ in range(noptepochs)]
    return np.concatenate(epochs).astype(np.int32)


def build_model(network: NetworkSpec, env: Any, arguments: dict[str, Any]) -> PolicyModel:
    """The model of a saved run, ready to load its weights, for playing and evaluating.

    Args:
        network: as given to learn.
        env: an environment with the run's spaces.
        arguments: the others that learn was called with.
    """
    return PolicyModel(policy_of_run(env, network, arguments))


def _minibatch_by_minibatch(model: Model) -> Callable[..., list[float]]:
    """The optimisation phase of a model of the user's own, which may override train()."""

    def train_phase(lr: float, cliprange: float, data: dict[str, np.ndarray], indices: np.ndarray) -> list[float]:
        losses = []
        for rows in indices:
            part = {name: array[rows] for name, array in data.items()}
            states = part.pop("states", None)
            masks = part.pop("episode_start", np.zeros(len(part["obs"]), np.float32))
            if states is not None:
                part = {name: array.reshape(-1, *array.shape[2:]) for name, array in part.items()}
            losses.append(model.train(lr, cliprange, masks=masks.reshape(-1), states=states, **part))
        return np.mean(losses, axis=0).tolist()

    return train_phase


def _statistics(
    losses: list[float], rollout: Rollout, returns: np.ndarray, nsteps: int, evaluated: bool
) -> Callable[[Training], dict[str, Any]]:
    """A row of the logs under the original's names."""

    def row(training: Training) -> dict[str, Any]:
        values = {
            "misc/serial_timesteps": training.update * nsteps,
            "misc/nupdates": training.update,
            "misc/total_timesteps": training.timesteps,
            "fps": training.fps,
            "misc/explained_variance": explained_variance(rollout.values.ravel(), returns.ravel()),
            "eprewmean": training.episodes.mean_reward,
            "eplenmean": training.episodes.mean_length,
        }
        if evaluated:
            values["eval_eprewmean"] = training.eval_episodes.mean_reward
            values["eval_eplenmean"] = training.eval_episodes.mean_length
        values["misc/time_elapsed"] = training.elapsed
        names = getattr(training.model, "loss_names", LOSS_NAMES)
        return values | {f"loss/{name}": value for name, value in zip(names, losses, strict=True)}

    return row


def _merge_leading(array: tf.Tensor) -> tf.Tensor:
    return tf.reshape(array, (-1, *array.shape[2:]))
