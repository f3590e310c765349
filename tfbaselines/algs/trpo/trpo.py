"""TRPO and natural policy gradient as in Spinning Up (Schulman et al. 2015, arXiv:1502.05477; Kakade 2001).

With advantages A from GAE, normalized over all ranks, each epoch takes one step against LossPi = -E[A * ratio],

    theta <- theta + sqrt(2 delta / x.Hx) x,   x = H^-1 g by conjugate gradient,   H = Hessian of the KL + damping_coeff

'trpo' shortens it by backtrack_coeff until the KL is at most delta and LossPi has not risen; 'npg' takes all of it. The
value function then descends (V - R)^2 by train_v_iters steps of Adam on the whole epoch.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from tfbaselines.algs.trpo import ALGORITHM, Config
from tfbaselines.config.algorithm import takes
from tfbaselines.config.config import NetworkSpec
from tfbaselines.envs.vec import VecEnv
from tfbaselines.learn.engine import Batch
from tfbaselines.learn.losses import squared_value_loss, with_outputs
from tfbaselines.learn.natural_gradient import LineSearch, NaturalGradient
from tfbaselines.learn.optimizers import Adam
from tfbaselines.policy.distributions import Distribution, GaussianHead
from tfbaselines.policy.layers import compile_with_xla
from tfbaselines.policy.policy import Policy
from tfbaselines.training.epochs import EpochRun
from tfbaselines.training.model import PolicyModel

ADAM_EPSILON = 1e-8
# Added to denominators of the conjugate gradient and of the step's size.
EPSILON = 1e-8

STATISTICS = ("LossPi", "LossV", "DeltaLossPi", "DeltaLossV", "KL")


def divergence(policy: Policy, now: Distribution, old: Distribution) -> tf.Tensor:
    """Return the mean KL divergence in Spinning Up's direction: KL(now || old) of Gaussians, else KL(old || now)."""
    return tf.reduce_mean(now.kl(old) if isinstance(policy.head, GaussianHead) else old.kl(now))


def measure(policy: Policy, batch: Batch) -> dict[str, tf.Tensor]:
    """Return E[A * ratio] and the KL divergence from the policy that acted.

    The batch has obs, actions [B, ...], advantages, neglogpacs [B], and `flat` [B, P], the parameters that acted.
    """
    now, old = (policy.head.distribution(flat) for flat in (policy.forward(batch["obs"]).flat, batch["flat"]))
    ratio = tf.exp(now.logp(batch["actions"]) + batch["neglogpacs"])
    return {"gain": tf.reduce_mean(ratio * batch["advantages"]), "KL": divergence(policy, now, old)}


def make_step(policy: Policy, config: Config, comm: Any = None) -> NaturalGradient:
    """Make the step of the policy."""
    search = LineSearch(tries=config.backtrack_iters, shrink=config.backtrack_coeff)
    return NaturalGradient(
        lambda batch: measure(policy, batch),
        policy.acting_variables,
        cg_iters=config.cg_iters,
        damping=config.damping_coeff,
        search=search if config.algo == "trpo" else None,
        prepare=lambda batch: with_outputs(policy, batch),
        tolerance=0.0,
        epsilon=EPSILON,
        jit=compile_with_xla(policy, config.steps_per_epoch),
        comm=comm,
    )


def policy_step(step: NaturalGradient, data: dict[str, np.ndarray], delta: float) -> dict[str, float]:
    """Take the step of make_step on the batch of `measure`, and return its statistics under Spinning Up's names."""
    taken = step({name: array for name, array in data.items() if name not in ("returns", "values")}, delta)
    reached = taken.last if taken.part else taken.before
    gain = taken.before["gain"]
    row = {"LossPi": -gain, "DeltaLossPi": gain - reached["gain"], "KL": reached["KL"]}
    return row if step.search is None else row | {"BacktrackIters": taken.tried - 1}


@takes(ALGORITHM)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> PolicyModel:
    """Train a policy with Spinning Up's TRPO or natural policy gradient."""
    config = Config.of(kwargs)
    statistics = STATISTICS + (("BacktrackIters",) if config.algo == "trpo" else ())
    with EpochRun(ALGORITHM, network, env, config, statistics) as run:
        policy, optimizer = run.policy, Adam(epsilon=ADAM_EPSILON)
        step = make_step(policy, config, run.comm)
        fit = run.gradient_steps(
            lambda batch: squared_value_loss(policy, batch), optimizer, variables=policy.value_variables
        )
        model = PolicyModel(policy, optimizer)
        for rollout in run.rollouts(model):
            data = run.batch(rollout)
            row = run.check(policy_step(step, data, run.config.delta))

            whole = np.tile(np.arange(len(data["obs"]), dtype=np.int32), (config.train_v_iters, 1))
            error = np.mean(np.square(data["values"] - data["returns"]))
            if config.train_v_iters:
                fit({name: data[name] for name in ("obs", "returns")}, whole, lr=run.rates()["vf_lr"])
            model.actor.refresh()
            change = np.mean(np.square(model.value(data["obs"]) - data["returns"])) - error
            run.table.store(VVals=rollout.values, LossV=error, DeltaLossV=change, **row)
    return model
