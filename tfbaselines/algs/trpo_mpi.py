"""TRPO: trust region policy optimisation (Schulman et al. 2015, arXiv:1502.05477), as in baselines.

With advantages A from GAE, standardised over the batch, each update takes the step that maximises, to first order,

    E[A * ratio] + ent_coef * H[pi],   ratio = pi(a|s) / pi_old(a|s),   subject to E[KL(pi_old || pi)] <= max_kl,

along F^-1 g from conjugate gradient, F being the Hessian of the KL on every fifth row. The step is halved until the KL
is at most 1.5 max_kl and the objective has not fallen. The value function then descends (V - R)^2 by Adam.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import tensorflow as tf

from tfbaselines.envs.vec import VecEnv
from tfbaselines.experience.returns import explained_variance, standardized
from tfbaselines.logs import logger
from tfbaselines.losses.policy_gradient import squared_value_loss, with_outputs
from tfbaselines.optim.natural_gradient import LineSearch, NaturalGradient
from tfbaselines.optim.optimizers import Adam
from tfbaselines.optim.update import Batch
from tfbaselines.policy.policy import Policy
from tfbaselines.policy.precision import compile_with_xla
from tfbaselines.running.batch_run import BatchRun
from tfbaselines.running.model import PolicyModel
from tfbaselines.running.on_policy import minibatches
from tfbaselines.settings.bases import BatchConfig
from tfbaselines.settings.config import NetworkSpec, arg
from tfbaselines.settings.takes import takes

ADAM_EPSILON = 1e-8
VALUE_BATCH = 64
# The Fisher matrix is estimated from every fifth row.
FISHER_EVERY = 5
EPISODES_IN_MEAN = 40
# Halvings of the step, and by how much its KL may pass max_kl.
TRIES, KL_MARGIN = 10, 1.5


@dataclass(frozen=True, kw_only=True)
class Config(BatchConfig):
    """Arguments of TRPO."""

    timesteps_per_batch: int = arg(1024, "steps of all environments of this rank in an update", at_least=1)
    max_kl: float = arg(1e-3, "KL divergence of an update", above=0)
    cg_iters: int = arg(10, "iterations of the conjugate gradient", at_least=1)
    ent_coef: float = arg(0.0, "weight of the policy's entropy in the objective")
    cg_damping: float = arg(1e-2, "added to the diagonal of the Fisher matrix", at_least=0)
    vf_stepsize: float = arg(3e-4, "learning rate of the value function", at_least=0)
    vf_iters: int = arg(3, "passes of the value function over each batch", at_least=0)

    order: ClassVar = """
        total_timesteps timesteps_per_batch max_kl cg_iters gamma lam seed ent_coef cg_damping vf_stepsize vf_iters
        max_episodes max_iters callback load_path save_interval value_network normalize_observations comm run
    """
    env_defaults: ClassVar = {
        "atari": {
            "network": "cnn_small",
            "timesteps_per_batch": 512,
            "cg_damping": 1e-3,
            "gamma": 0.98,
            "vf_stepsize": 1e-4,
        },
        "mujoco": {
            "num_hidden": 32,
            "num_layers": 2,
            "max_kl": 0.01,
            "cg_damping": 0.1,
            "lam": 0.98,
            "vf_iters": 5,
            "vf_stepsize": 1e-3,
            "normalize_observations": True,
        },
    }

    @property
    def batch_steps(self) -> int:
        """See BatchConfig."""
        return self.timesteps_per_batch


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


def make_step(policy: Policy, config: Config, comm: Any = None) -> NaturalGradient:
    """The policy's step.

    Args:
        policy: what changes.
        config: the arguments.
        comm: the ranks that train together.
    """
    return NaturalGradient(
        lambda batch: measure(policy, batch, config.ent_coef),
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


@takes(Config)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> PolicyModel:
    """Train a policy with TRPO."""
    config = Config.of(kwargs)
    with BatchRun("trpo_mpi", network, env, config, EPISODES_IN_MEAN) as run:
        policy = run.policy
        step = make_step(policy, config, run.comm)
        fit = run.gradient_steps(
            lambda batch, _: squared_value_loss(policy, batch),
            Adam(epsilon=ADAM_EPSILON),
            variables=policy.value_variables,
        )
        if run.plan.steps_per_update < VALUE_BATCH:
            logger.warn(f"the value function learns from batches of {VALUE_BATCH}: timesteps_per_batch is too small")
        for rollout in run.rollouts():
            advantages = rollout.advantages(config.gamma, config.lam)
            returns = advantages + rollout.values
            data = rollout.batch(False, returns=returns, advantages=standardized(advantages))
            taken = step({name: data[name] for name in ("obs", "actions", "advantages")})
            run.check(taken.before)
            rows = minibatches(run.rng, len(data["returns"]), VALUE_BATCH, config.vf_iters)
            if rows.size:
                fit({name: data[name] for name in ("obs", "returns")}, rows, lr=config.vf_stepsize)
            run.model.actor.refresh()
            run.log(taken.last | {"ev_tdlam_before": explained_variance(rollout.values.ravel(), returns.ravel())})
    return run.model
