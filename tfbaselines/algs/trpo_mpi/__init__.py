"""TRPO: trust region policy optimisation (Schulman et al. 2015, arXiv:1502.05477), as in baselines.

This half loads no TensorFlow: the arguments, and what the command knows of the algorithm. `learn` is in trpo_mpi.py.
"""

from dataclasses import dataclass
from typing import ClassVar

from tfbaselines.cli.lazy import lazily
from tfbaselines.config.algorithm import EVERY_KIND, Algorithm
from tfbaselines.config.bases import TrustRegionConfig
from tfbaselines.config.config import Coefficient, arg


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


ALGORITHM = Algorithm(
    name="trpo_mpi",
    config=Config,
    summary="trust region policy optimisation (Schulman et al. 2015), baselines' form",
    actions=EVERY_KIND,
    packed_observations=True,
    recurrent=False,
    length_arguments=("max_episodes", "max_iters"),
)

__getattr__ = lazily("tfbaselines.algs.trpo_mpi.trpo_mpi")
