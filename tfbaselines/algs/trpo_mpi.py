"""TRPO: trust region policy optimisation (Schulman et al. 2015, arXiv:1502.05477), as in baselines.

With advantages A from GAE, standardised over the batch, each update takes the step that maximises, to first order,

    E[A * ratio] + ent_coef * H[pi],   ratio = pi(a|s) / pi_old(a|s),   subject to E[KL(pi_old || pi)] <= max_kl,

along F^-1 g from conjugate gradient, F being the Hessian of the KL on every fifth row. The step is halved until the KL
is at most 1.5 max_kl and the objective has not fallen. The value function then descends (V - R)^2 by Adam. The step is
in running/trust_region.py.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from tfbaselines.envs.vec import VecEnv
from tfbaselines.running.batch_run import BatchRun
from tfbaselines.running.model import PolicyModel
from tfbaselines.running.trust_region import TrustRegionUpdate
from tfbaselines.settings.bases import TrustRegionConfig
from tfbaselines.settings.config import Coefficient, NetworkSpec, arg
from tfbaselines.settings.takes import takes

VALUE_BATCH = 64
EPISODES_IN_MEAN = 40


@dataclass(frozen=True, kw_only=True)
class Config(TrustRegionConfig):
    """Arguments of TRPO."""

    ent_coef: Coefficient = arg(0.0, "weight of the policy's entropy in the objective")

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


@takes(Config)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> PolicyModel:
    """Train a policy with TRPO."""
    config = Config.of(kwargs)
    with BatchRun("trpo_mpi", network, env, config, EPISODES_IN_MEAN) as run:
        improve = TrustRegionUpdate(run, "ent_coef", VALUE_BATCH)
        for rollout in run.rollouts():
            run.log(improve(rollout))
    return run.model
