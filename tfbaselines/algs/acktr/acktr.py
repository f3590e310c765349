"""ACKTR: actor-critic with Kronecker-factored trust region (Wu et al. 2017, arXiv:1708.05144).

Each update collects nsteps from every environment with the current policy and takes one step of K-FAC down

    L = E[-A log pi(a|s)] - ent_coef * H[pi] + vf_coef * E[(V(s) - R)^2],   A = R - V_old(s)

where R is the discounted return to the episode's end, or to the value of the observation after the last step. The
Fisher matrix has two parts: the policy's, with the actions as samples, and a Gaussian's around the value, with weight
vf_fisher_coef. Its factors come from the gradients of

    E[log pi(a|s)] - vf_fisher_coef * E[(V(s) - v)^2],   v ~ N(V(s), 1) held fixed
"""

from typing import Any

import numpy as np
import tensorflow as tf

from tfbaselines.algs.acktr import ALGORITHM, Config
from tfbaselines.algs.acktr.kfac import FACTORS, Kfac, Objective
from tfbaselines.algs.acktr.kronecker import KroneckerFactors
from tfbaselines.config.algorithm import takes
from tfbaselines.config.config import NetworkSpec
from tfbaselines.envs.vec import VecEnv
from tfbaselines.learn.engine import Batch
from tfbaselines.parallel import mpi
from tfbaselines.policy.layers import compile_with_xla, layers_of
from tfbaselines.policy.policy import Policy
from tfbaselines.rollout.rollout import explained_variance
from tfbaselines.training.model import PolicyModel
from tfbaselines.training.on_policy import OnPolicyRun


def objective(policy: Policy, batch: Batch, config: Config) -> Objective:
    """Compute the loss of one rollout, the log-likelihood of its samples, and statistics.

    The batch has obs, actions, returns, values [B, ...], and standard normal noise [B] for samples of values.
    """
    outputs = policy.forward(batch["obs"])
    parts = tf.split(outputs.flat, outputs.flat.shape[-1] // policy.head.width, axis=-1)
    distribution = policy.head.distribution(tf.concat(parts, axis=-1))
    value = outputs.value
    neglogp = distribution.neglogp(batch["actions"])
    entropy = tf.reduce_mean(distribution.entropy())
    advantages = batch["returns"] - batch["values"]
    policy_loss = tf.reduce_mean(advantages * neglogp) - config.ent_coef * entropy
    value_loss = tf.reduce_mean(tf.square(value - batch["returns"]))
    samples = tf.stop_gradient(value + batch["noise"])
    return Objective(
        loss=policy_loss + config.vf_coef * value_loss,
        likelihood=-tf.reduce_mean(neglogp) - config.vf_fisher_coef * tf.reduce_mean(tf.square(value - samples)),
        statistics={"policy_loss": policy_loss, "value_loss": value_loss, "policy_entropy": entropy},
        # Means and logits are the output of a layer; logstd is a vector that became rows.
        rows=parts[1:],
    )


def make_step(run: OnPolicyRun) -> Kfac:
    """Make the run's steps; the caller closes them."""
    config, policy = run.config, run.policy
    vectors = [] if policy.logstd is None else [policy.logstd]
    factors = KroneckerFactors(layers_of(*policy.modules), vectors)
    observed = policy.over(factors.observed)
    return Kfac(
        lambda batch: objective(observed, batch, config.at(batch)),
        factors,
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


@takes(ALGORITHM)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> PolicyModel:
    """Train a policy with ACKTR."""
    with OnPolicyRun(ALGORITHM, network, env, Config.of(kwargs), keep_neglogps=False) as run, make_step(run) as step:
        model = PolicyModel(run.policy, step)
        for rollout in run.rollouts(model):
            returns = rollout.n_step_returns(run.config.gamma)
            data = rollout.batch(False, returns=returns)
            data["noise"] = run.rng.standard_normal(returns.size, np.float32)
            statistics = run.check(step(data, **run.rates(run.clock.fraction_after_update)))
            del statistics[FACTORS]
            run.log(statistics | {"explained_variance": explained_variance(rollout.values, returns)})
    return model
