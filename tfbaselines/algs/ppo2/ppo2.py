"""PPO2: proximal policy optimization with clipped probability ratios (Schulman et al. 2017, arXiv:1707.06347).

Each update collects nsteps from every environment with the current policy, estimates advantages A with GAE, and takes
noptepochs passes over that rollout in nminibatches parts, descending

    L = L_clip + vf_coef * L_value - ent_coef * H[pi]
    L_clip  = E[max(-A * ratio, -A * clip(ratio, 1 - cliprange, 1 + cliprange))],  ratio = pi(a|s) / pi_old(a|s)
    L_value = 0.5 * E[max((V - R)^2, (V_old + clip(V - V_old, -cliprange, cliprange) - R)^2)],  R = A + V_old

with advantages standardized in each minibatch, gradients clipped by their global norm and Adam.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfbaselines.algs.ppo2 import ALGORITHM, Config
from tfbaselines.config.algorithm import takes
from tfbaselines.config.config import NetworkSpec
from tfbaselines.envs.vec import VecEnv
from tfbaselines.errors import bad_argument, given
from tfbaselines.learn.engine import Batch, Engine, Phase
from tfbaselines.learn.losses import clipped_policy_loss, clipped_value_loss, evaluated, mean, standardized
from tfbaselines.learn.optimizers import Adam
from tfbaselines.policy.layers import compile_with_xla
from tfbaselines.policy.policy import Policy
from tfbaselines.rewards import value_streams
from tfbaselines.rollout.rollout import Rollout, explained_variance, shuffled
from tfbaselines.training.build import cloning_beside
from tfbaselines.training.model import PolicyModel
from tfbaselines.training.on_policy import OnPolicyRun, episode_columns

__all__ = ["Model", "learn", "loss"]

ADAM_EPSILON = 1e-5

LOSS_NAMES = ("policy_loss", "value_loss", "policy_entropy", "approxkl", "clipfrac")


@takes(ALGORITHM)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> "Model":
    """Train a policy with PPO2."""
    with OnPolicyRun(ALGORITHM, network, env, Config.of(kwargs), columns) as run:
        config, policy = run.config, run.policy
        streams, cloning = value_streams(run), cloning_beside(run, policy)
        model, train_phase = make_model(config, run.env, policy, run.comm, [*streams.parts, *cloning.parts])

        def returns_of(rollout: Rollout, gamma: float) -> np.ndarray:
            if config.use_gae:
                return rollout.lambda_returns(gamma, run.config.lam)
            return rollout.n_step_returns(gamma)

        for rollout in run.rollouts(model, config.init_fn):
            estimates = streams.estimates(rollout, returns_of)
            data = rollout.batch(policy.recurrent, **estimates)
            indices = shuffled(run.rng, len(data["returns"]), config.nminibatches, config.noptepochs)
            statistics = run.check(train_phase(data=data, indices=indices, **run.rates()))
            cloning.learn(model, len(indices))
            if config.update_fn is not None:
                config.update_fn(run.update)
            rows = ... if rollout.valid is None else rollout.valid
            explained = explained_variance(rollout.values[rows].ravel(), estimates["returns"][rows].ravel())
            row = {f"loss/{name}": value for name, value in statistics.items()}
            row |= {"misc/explained_variance": explained} | streams.learn(config.nminibatches, config.noptepochs)
            run.log(row)
    return model


def columns(run: OnPolicyRun) -> dict[str, Any]:
    """Return the counters and mean returns of a run, under baselines' names."""
    return episode_columns(run) | {
        "fps": run.fps,
        "misc/serial_timesteps": run.update * run.config.nsteps,
        "misc/nupdates": run.update,
        "misc/total_timesteps": run.timesteps,
        "misc/time_elapsed": run.elapsed,
    }


def loss(
    policy: Policy,
    batch: Batch,
    cliprange: tf.Tensor,
    ent_coef: float,
    vf_coef: float,
    cliprange_vf: tf.Tensor | bool = True,
    normalize_advantages: bool = True,
) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Return the loss of one minibatch and its statistics.

    Args:
        policy: has the current distribution and values.
        batch: obs, actions, returns, values, neglogpacs [B, ...], and valid [B] if not all rows count; recurrent
            policies: the same as [n, T, ...] with episode_start [n, T] and states [n, S]. With reward signals, returns
            and values have a column for each signal, and the batch includes advantages [B].
        cliprange: bound of the distance between the probability ratio and 1.
        ent_coef: weight of the entropy.
        vf_coef: weight of the value loss.
        cliprange_vf: bound of the change of values; True for cliprange, False for no bound.
        normalize_advantages: standardize the advantages.
    """
    batch, outputs = evaluated(policy, batch)
    distribution = policy.head.distribution(outputs.flat)
    neglogp, entropy = distribution.neglogp(batch["actions"]), mean(batch, distribution.entropy())

    ratio = tf.exp(batch["neglogpacs"] - neglogp)
    advantages = batch["advantages"] if "advantages" in batch else batch["returns"] - batch["values"]
    valid = batch.get("valid")
    if normalize_advantages:
        advantages = standardized(advantages, valid)
    policy_loss = clipped_policy_loss(ratio, advantages, cliprange, valid)
    if cliprange_vf is False:
        value_loss = 0.5 * mean(batch, tf.square(outputs.value - batch["returns"]))
    else:
        bound = cliprange if cliprange_vf is True else cliprange_vf
        value_loss = clipped_value_loss(outputs.value, batch["values"], batch["returns"], bound, valid)
    return policy_loss - ent_coef * entropy + vf_coef * value_loss, {
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "policy_entropy": entropy,
        "approxkl": 0.5 * mean(batch, tf.square(neglogp - batch["neglogpacs"])),
        "clipfrac": mean(batch, tf.cast(tf.abs(ratio - 1.0) > cliprange, tf.float32)),
    }


class Model(PolicyModel):
    """Train a policy with PPO2's loss and Adam, through baselines' interface; subclasses may override `train`.

    Arguments that Config declares have the same meaning here.

    Args:
        policy: policy that acts and learns, in ob_space and ac_space.
        nbatch_act: number of environments that act at once.
        nbatch_train: rows in a minibatch.
        clip_values: bound the change of values.
        parts: see PolicyModel.
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
        clip_values: bool = True,
        normalize_advantages: bool = True,
        parts: Sequence[Any] = (),
    ) -> None:
        super().__init__(policy, Adam(epsilon=ADAM_EPSILON), parts=parts)
        self.ob_space = ob_space
        self.ac_space = ac_space
        self.nbatch_act = nbatch_act
        self.nbatch_train = nbatch_train
        self.nsteps = nsteps
        self.loss_names = LOSS_NAMES

        def loss_of(batch: Batch) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
            cliprange_vf = batch.get("cliprange_vf", clip_values)
            weights = (batch.get("ent_coef", ent_coef), batch.get("vf_coef", vf_coef))
            return loss(policy, batch, batch["cliprange"], *weights, cliprange_vf, normalize_advantages)

        jit = compile_with_xla(policy, nbatch_train)
        self._engine = Engine([self._phase(loss_of, max_grad_norm)], jit=jit, comm=comm, rank_weight=mpi_rank_weight)

    def _phase(self, loss: Callable[[Batch], Any], max_grad_norm: float | None) -> Phase:
        return Phase("policy", loss, self.policy.trainable_variables, self.optimizer, max_grad_norm=max_grad_norm)

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
        cliprange_vf: float | None = None,
    ) -> list[float]:
        """Take one gradient step on one minibatch, and return the statistics in the order of loss_names.

        Arrays have the rows of each environment in time order; see `loss`. masks are 1 at an episode's first row.
        """
        batch = {"obs": obs, "returns": returns, "actions": actions, "values": values, "neglogpacs": neglogpacs}
        rows = len(obs)
        if states is not None:
            rows = len(states)
            batch = {name: array.reshape(rows, -1, *array.shape[1:]) for name, array in batch.items()}
            batch |= {"episode_start": masks.reshape(rows, -1).astype(np.float32), "states": states}
        indices = np.arange(rows, dtype=np.int32)[None]
        return list(self.train_phase(lr, cliprange, batch, indices, cliprange_vf).values())

    def train_phase(
        self,
        lr: float,
        cliprange: float,
        data: dict[str, np.ndarray],
        indices: np.ndarray,
        cliprange_vf: float | None = None,
        **coefficients: float,
    ) -> dict[str, float]:
        """Take all gradient steps on one rollout, in one compiled call; return means of the loss's statistics.

        Args:
            lr: learning rate.
            cliprange: see `loss`.
            data: the rollout's arrays with equal first axes; see `loss`.
            indices: rows of each of the K minibatches [K, B].
            cliprange_vf: see `loss`; None for cliprange.
            coefficients: ent_coef and vf_coef if they differ from the constructor's.
        """
        rates = {"lr": lr, "cliprange": cliprange} | given(cliprange_vf=cliprange_vf) | coefficients
        statistics = self._engine.minibatches(data, indices, **rates)
        self.actor.refresh()
        return statistics


def minibatch_by_minibatch(model: Any) -> Callable[..., dict[str, float]]:
    """Return an optimization phase for a user's model, which has train and loss_names as Model."""

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


def make_model(
    config: Config, env: VecEnv, policy: Policy, comm: Any, parts: Sequence[Any]
) -> tuple[Model, Callable[..., dict[str, float]]]:
    """Make the model of a run, Model or the user's, and the function that takes its gradient steps."""
    rows = env.num_envs if policy.recurrent else env.num_envs * config.nsteps
    if rows % config.nminibatches:
        what = "envs, since the policy is recurrent" if policy.recurrent else "steps of a rollout (num_env x nsteps)"
        raise bad_argument("nminibatches", config.nminibatches, f"a divisor of the {rows} {what}")
    # A user's model without these arguments still trains as long as they are not needed.
    options: dict[str, Any] = {"clip_values": False} if config.cliprange_vf is False else {}
    options |= {} if config.normalize_advantages else {"normalize_advantages": False}
    options |= {"parts": parts} if parts else {}
    model = (config.model_fn or Model)(
        policy=policy,
        ob_space=env.observation_space,
        ac_space=env.action_space,
        nbatch_act=env.num_envs,
        nbatch_train=env.num_envs * config.nsteps // config.nminibatches,
        nsteps=config.nsteps,
        ent_coef=config.ent_coef,
        vf_coef=config.vf_coef,
        max_grad_norm=config.max_grad_norm,
        comm=comm,
        mpi_rank_weight=config.mpi_rank_weight,
        **options,
    )
    return model, model.train_phase if config.model_fn is None else minibatch_by_minibatch(model)
