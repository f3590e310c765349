"""ACKTR: actor-critic with Kronecker-factored trust region (Wu et al. 2017, arXiv:1708.05144).

Each update collects nsteps from every environment with the current policy and takes one step of K-FAC down

    L = E[-A log pi(a|s)] - ent_coef * H[pi] + vf_coef * E[(V(s) - R)^2],   A = R - V_old(s)

where R is the discounted return to the episode's end, or to the value of the observation after the last step. The
Fisher matrix is that of the policy, of which the actions are samples, and of a Gaussian around the value, with weight
vf_fisher_coef: its factors come from the gradients of

    E[log pi(a|s)] - vf_fisher_coef * E[(V(s) - v)^2],   v ~ N(V(s), 1) held fixed
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from tfbaselines.envs.vec import VecEnv
from tfbaselines.experience.returns import explained_variance
from tfbaselines.optim.kfac import FACTORS, Kfac, Objective
from tfbaselines.optim.kronecker import KroneckerFactors
from tfbaselines.optim.update import Batch
from tfbaselines.parallel import mpi
from tfbaselines.policy.networks import layers_of
from tfbaselines.policy.policy import Policy
from tfbaselines.policy.precision import compile_with_xla
from tfbaselines.running.model import PolicyModel
from tfbaselines.running.on_policy import OnPolicyRun
from tfbaselines.settings.bases import OnPolicyConfig
from tfbaselines.settings.config import Coefficient, NetworkSpec, Schedule, arg
from tfbaselines.settings.schedules import FRACTION_SCHEDULES
from tfbaselines.settings.takes import takes


@dataclass(frozen=True, kw_only=True)
class Config(OnPolicyConfig):
    """Arguments of ACKTR."""

    total_timesteps: float = arg(40e6, "environment steps of this rank; whole updates only", at_least=0)
    log_interval: int = arg(100, "updates between rows of the logs", at_least=1)
    nprocs: int = arg(32, "most threads that decompose factors side by side; no more than there are cores", at_least=1)
    nsteps: int = arg(20, "steps of each environment in an update", at_least=1)
    ent_coef: Coefficient = arg(0.01, "weight of the policy's entropy in the loss")
    vf_coef: Coefficient = arg(0.5, "weight of the value loss", at_least=0)
    vf_fisher_coef: Coefficient = arg(1.0, "weight of the value's samples in the Fisher matrix", at_least=0)
    lr: Schedule = arg(0.25, "learning rate", at_least=0)
    max_grad_norm: float | None = arg(
        0.5, "bound of the gradient's global norm in the first updates, before K-FAC's; None for none", above=0
    )
    kfac_clip: float = arg(0.001, "bound of an update's KL divergence, estimated from the Fisher matrix", above=0)
    save_interval: int | None = arg(None, "updates between checkpoints; None or 0 for only the last", at_least=0)
    lrschedule: str | Callable[[float], float] = arg(
        "linear",
        "shape of the learning rate over training, unless lr is a schedule itself",
        choices=tuple(FRACTION_SCHEDULES),
    )
    is_async: bool = arg(True, "decompose the factors in the background; False waits, and is repeatable")
    stats_update: int = arg(1, "updates between those from which factors are computed", at_least=1)
    kfac_update: int = arg(1, "updates between decompositions of the factors", at_least=1)

    order: ClassVar = """
        seed total_timesteps gamma log_interval nprocs nsteps ent_coef vf_coef vf_fisher_coef lr max_grad_norm kfac_clip
        save_interval lrschedule load_path is_async stats_update kfac_update value_network normalize_observations
        max_total_reward eval_env comm run
    """
    env_defaults: ClassVar = {"mujoco": {"nsteps": 2500, "value_network": "copy"}}


def objective(policy: Policy, batch: Batch, config: Config) -> Objective:
    """The loss of one rollout, the log-likelihood of its samples, and statistics.

    Args:
        policy: gives the current distribution and values.
        batch: obs, actions, returns, values [B, ...], and noise [B], standard normal, of the values' samples.
        config: the weights.
    """
    outputs = policy.forward(batch["obs"])
    parts = tf.split(outputs.flat, outputs.flat.shape[-1] // policy.head.width, axis=-1)
    distribution, value = policy.head.distribution(tf.concat(parts, axis=-1)), outputs.value
    neglogp, entropy = distribution.neglogp(batch["actions"]), tf.reduce_mean(distribution.entropy())
    advantages = batch["returns"] - batch["values"]
    policy_loss = tf.reduce_mean(advantages * neglogp) - config.ent_coef * entropy
    value_loss = tf.reduce_mean(tf.square(value - batch["returns"]))
    samples = tf.stop_gradient(value + batch["noise"])
    return Objective(
        loss=policy_loss + config.vf_coef * value_loss,
        likelihood=-tf.reduce_mean(neglogp) - config.vf_fisher_coef * tf.reduce_mean(tf.square(value - samples)),
        statistics={"policy_loss": policy_loss, "value_loss": value_loss, "policy_entropy": entropy},
        # The means, or logits, are a layer's output; logstd is a vector that became rows.
        rows=parts[1:],
    )


def make_step(run: OnPolicyRun) -> Kfac:
    """What takes the run's steps, to be closed at its end."""
    config, policy = run.config, run.policy
    vectors = [] if policy.logstd is None else [policy.logstd]
    return Kfac(
        lambda batch: objective(policy, batch, config.at(batch)),
        KroneckerFactors(layers_of(*policy.modules), vectors),
        policy.trainable_variables,
        clip_kl=config.kfac_clip,
        max_grad_norm=config.max_grad_norm,
        factors_every=config.stats_update,
        decompose_every=config.kfac_update,
        is_async=config.is_async,
        threads=min(config.nprocs, mpi.threads_for_rank(run.comm)),
        jit=compile_with_xla(policy, run.plan.steps_per_update),
        comm=run.comm,
    )


@takes(Config)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> PolicyModel:
    """Train a policy with ACKTR."""
    with OnPolicyRun("acktr", network, env, Config.of(kwargs), recurrent=False) as run, make_step(run) as step:
        run.model.optimizer, run.keep_neglogps = step, False
        for rollout in run.rollouts():
            returns = rollout.n_step_returns(run.config.gamma)
            data = rollout.batch(False, returns=returns)
            data["noise"] = run.rng.standard_normal(returns.size, np.float32)
            statistics = run.check(step(data, **run.rates(run.fraction_after_update)))
            run.model.actor.refresh()
            del statistics[FACTORS]
            run.log(statistics | {"explained_variance": explained_variance(rollout.values, returns)})
    return run.model
