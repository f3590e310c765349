"""TRPO: trust region policy optimization (Schulman et al. 2015, arXiv:1502.05477), as in baselines.

With advantages A from GAE, standardized over the batch, each update takes the step that maximizes, to first order,

    E[A * ratio] + ent_coef * H[pi],   ratio = pi(a|s) / pi_old(a|s),   subject to E[KL(pi_old || pi)] <= max_kl,

along F^-1 g from conjugate gradient, with the Hessian F of the KL on every fifth row. The step is halved until the KL
is at most 1.5 max_kl and the objective has not fallen. The value function then descends (V - R)^2 by Adam. gail takes
the same step.
"""

from typing import Any

import tensorflow as tf

from tfbaselines.algs.trpo_mpi import ALGORITHM, Config
from tfbaselines.config.algorithm import takes
from tfbaselines.config.bases import TrustRegionConfig
from tfbaselines.config.config import NetworkSpec
from tfbaselines.envs.vec import VecEnv
from tfbaselines.learn.engine import Batch
from tfbaselines.learn.losses import squared_value_loss, with_outputs
from tfbaselines.learn.natural_gradient import LineSearch, NaturalGradient
from tfbaselines.learn.optimizers import Adam
from tfbaselines.logs import logger
from tfbaselines.policy.layers import compile_with_xla
from tfbaselines.policy.policy import Policy
from tfbaselines.rollout.rollout import Rollout, explained_variance, minibatches, standardized
from tfbaselines.training.model import PolicyModel
from tfbaselines.training.on_policy import BatchRun

VALUE_BATCH = 64
EPISODES_IN_MEAN = 40
ADAM_EPSILON = 1e-8
# Every fifth row estimates the Fisher matrix.
FISHER_EVERY = 5
# Most halvings of a step, and the largest KL divergence after it in units of max_kl.
TRIES = 10
KL_MARGIN = 1.5


def measure(policy: Policy, batch: Batch) -> dict[str, tf.Tensor]:
    """Return the objective, the KL divergence from the policy that acted, and the terms of the objective.

    The batch has obs and actions [B, ...], advantages [B], `flat` [B, P], the parameters of the policy that acted, and
    the number ent_coef.
    """
    now = policy.head.distribution(policy.forward(batch["obs"]).flat)
    old = policy.head.distribution(batch["flat"])
    ratio = tf.exp(now.logp(batch["actions"]) - old.logp(batch["actions"]))
    gain, entropy = tf.reduce_mean(ratio * batch["advantages"]), tf.reduce_mean(now.entropy())
    bonus = batch["ent_coef"] * entropy
    return {
        "optimgain": gain + bonus,
        "meankl": tf.reduce_mean(old.kl(now)),
        "entloss": bonus,
        "surrgain": gain,
        "entropy": entropy,
    }


def make_step(policy: Policy, config: TrustRegionConfig, comm: Any = None) -> NaturalGradient:
    """Make the step of the policy."""
    return NaturalGradient(
        lambda batch: measure(policy, batch),
        policy.acting_variables,
        cg_iters=config.cg_iters,
        damping=config.cg_damping,
        search=LineSearch(tries=TRIES, shrink=0.5, margin=KL_MARGIN),
        prepare=lambda batch: with_outputs(policy, batch),
        every=FISHER_EVERY,
        jit=compile_with_xla(policy, config.timesteps_per_batch),
        comm=comm,
    )


class TrustRegionUpdate:
    """Take steps of a run's policy and value function on each rollout; `optimizer` is the value function's.

    Args:
        run: run of a TrustRegionConfig.
        ent_coef: name of the argument with the weight of the entropy in the objective.
        value_batch: rows of a minibatch of the value function.
    """

    def __init__(self, run: BatchRun, ent_coef: str, value_batch: int) -> None:
        config = run.config
        policy = run.policy
        self._run = run
        self._value_batch = value_batch
        self._ent_coef = ent_coef
        self._step = make_step(policy, config, run.comm)
        self.optimizer = Adam(epsilon=ADAM_EPSILON)
        self._fit = run.gradient_steps(
            lambda batch: squared_value_loss(policy, batch), self.optimizer, variables=policy.value_variables
        )
        if config.timesteps_per_batch < value_batch:
            logger.warn(f"the value function learns from batches of {value_batch}: timesteps_per_batch is too small")

    def __call__(self, rollout: Rollout) -> dict[str, float]:
        """Take the steps, and return the statistics after the policy's step."""
        run = self._run
        config = run.config
        advantages = rollout.advantages(config.gamma, config.lam)
        returns = advantages + rollout.values
        data = rollout.batch(False, returns=returns, advantages=standardized(advantages))
        batch = {name: data[name] for name in ("obs", "actions", "advantages")}
        taken = self._step(batch, config.max_kl, ent_coef=getattr(config, self._ent_coef))
        run.check(taken.before)
        rows = minibatches(run.rng, len(data["returns"]), self._value_batch, config.vf_iters)
        if rows.size:
            self._fit({name: data[name] for name in ("obs", "returns")}, rows, lr=config.vf_stepsize)
        return taken.last | {"ev_tdlam_before": explained_variance(rollout.values.ravel(), returns.ravel())}


@takes(ALGORITHM)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> PolicyModel:
    """Train a policy with TRPO."""
    config = Config.of(kwargs)
    with BatchRun(ALGORITHM, network, env, config, EPISODES_IN_MEAN) as run:
        improve = TrustRegionUpdate(run, "ent_coef", VALUE_BATCH)
        model = PolicyModel(run.policy, improve.optimizer)
        for rollout in run.rollouts(model):
            run.log(improve(rollout))
    return model
