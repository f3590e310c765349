"""The update of trpo_mpi and of gail's policy: TRPO's step of the policy, then Adam's steps of the value function."""

from typing import Any

import tensorflow as tf

from tfbaselines.config.bases import TrustRegionConfig
from tfbaselines.errors import given
from tfbaselines.learn.engine import Batch
from tfbaselines.learn.losses import squared_value_loss, with_outputs
from tfbaselines.learn.natural_gradient import LineSearch, NaturalGradient
from tfbaselines.learn.optimizers import Adam
from tfbaselines.logs import logger
from tfbaselines.policy.policy import Policy
from tfbaselines.policy.precision import compile_with_xla
from tfbaselines.rollout.returns import explained_variance, standardized
from tfbaselines.rollout.rollout import Rollout, minibatches
from tfbaselines.training.on_policy import BatchRun

ADAM_EPSILON = 1e-8
# The Fisher matrix is estimated from every fifth row.
FISHER_EVERY = 5
# Halvings of the step, and by how much its KL may pass max_kl.
TRIES, KL_MARGIN = 10, 1.5


def measure(policy: Policy, batch: Batch, ent_coef: float) -> dict[str, tf.Tensor]:
    """The objective, the KL divergence from the policy that acted, and the objective's parts.

    Args:
        policy: as it is now.
        batch: obs and actions [B, ...], advantages [B], and `flat` [B, P], the parameters of the policy that acted.
        ent_coef: weight of the entropy.
    """
    now = policy.head.distribution(policy.forward(batch["obs"]).flat)
    old = policy.head.distribution(batch["flat"])
    ratio = tf.exp(now.logp(batch["actions"]) - old.logp(batch["actions"]))
    gain, entropy = tf.reduce_mean(ratio * batch["advantages"]), tf.reduce_mean(now.entropy())
    return {
        "optimgain": gain + ent_coef * entropy,
        "meankl": tf.reduce_mean(old.kl(now)),
        "entloss": ent_coef * entropy,
        "surrgain": gain,
        "entropy": entropy,
    }


def make_step(policy: Policy, config: TrustRegionConfig, ent_coef: float = 0.0, comm: Any = None) -> NaturalGradient:
    """The policy's step.

    Args:
        policy: what changes.
        config: the arguments.
        ent_coef: weight of the entropy.
        comm: the ranks that train together.
    """
    return NaturalGradient(
        lambda batch: measure(policy, batch, batch.get("ent_coef", ent_coef)),
        policy.acting_variables,
        max_kl=config.max_kl,
        cg_iters=config.cg_iters,
        damping=config.cg_damping,
        search=LineSearch(tries=TRIES, shrink=0.5, most_kl=KL_MARGIN * config.max_kl),
        prepare=lambda batch: with_outputs(policy, batch),
        every=FISHER_EVERY,
        jit=compile_with_xla(policy, config.timesteps_per_batch),
        comm=comm,
    )


class TrustRegionUpdate:
    """Steps of a run's policy and value function on each rollout.

    Args:
        run: of a TrustRegionConfig.
        ent_coef: name of the argument that is the weight of the entropy in the objective.
        value_batch: rows of a minibatch of the value function.
    """

    def __init__(self, run: BatchRun, ent_coef: str, value_batch: int) -> None:
        config, policy = run.config, run.policy
        self._run, self._value_batch, self._ent_coef = run, value_batch, ent_coef
        self._step = make_step(policy, config, getattr(config, ent_coef), run.comm)
        self._fit = run.gradient_steps(
            lambda batch: squared_value_loss(policy, batch),
            Adam(epsilon=ADAM_EPSILON),
            variables=policy.value_variables,
        )
        if config.timesteps_per_batch < value_batch:
            logger.warn(f"the value function learns from batches of {value_batch}: timesteps_per_batch is too small")

    def __call__(self, rollout: Rollout) -> dict[str, float]:
        """Take them; statistics after the policy's step."""
        run, config = self._run, self._run.config
        advantages = rollout.advantages(config.gamma, config.lam)
        returns = advantages + rollout.values
        data = rollout.batch(False, returns=returns, advantages=standardized(advantages))
        weight = given(ent_coef=run.rates().get(self._ent_coef))
        taken = self._step({name: data[name] for name in ("obs", "actions", "advantages")}, **weight)
        run.check(taken.before)
        rows = minibatches(run.rng, len(data["returns"]), self._value_batch, config.vf_iters)
        if rows.size:
            self._fit({name: data[name] for name in ("obs", "returns")}, rows, lr=config.vf_stepsize)
        run.model.actor.refresh()
        return taken.last | {"ev_tdlam_before": explained_variance(rollout.values.ravel(), returns.ravel())}
