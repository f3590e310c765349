"""TRPO: trust region policy optimisation (Schulman et al. 2015, arXiv:1502.05477), as in baselines.

With advantages A from GAE, standardised over the batch, each update takes the step that maximises, to first order,

    E[A * ratio] + ent_coef * H[pi],   ratio = pi(a|s) / pi_old(a|s),   subject to E[KL(pi_old || pi)] <= max_kl,

along F^-1 g from conjugate gradient, F being the Hessian of the KL on every fifth row. The step is halved until the KL
is at most 1.5 max_kl and the objective has not fallen. The value function then descends (V - R)^2 by Adam. The step is
in training/trust_region.py.
"""

from typing import Any

from tfbaselines.algs.trpo_mpi import Config
from tfbaselines.config.config import NetworkSpec
from tfbaselines.config.takes import takes
from tfbaselines.envs.vec import VecEnv
from tfbaselines.training.model import PolicyModel
from tfbaselines.training.on_policy import BatchRun
from tfbaselines.training.trust_region import TrustRegionUpdate

VALUE_BATCH = 64
EPISODES_IN_MEAN = 40


@takes(Config)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> PolicyModel:
    """Train a policy with TRPO."""
    config = Config.of(kwargs)
    with BatchRun("trpo_mpi", network, env, config, EPISODES_IN_MEAN) as run:
        improve = TrustRegionUpdate(run, "ent_coef", VALUE_BATCH)
        for rollout in run.rollouts():
            run.log(improve(rollout))
    return run.model
