"""TRPO: trust region policy optimization (Schulman et al. 2015, arXiv:1502.05477), as in baselines.

This module loads no TensorFlow: it declares the arguments and the algorithm. `learn` is in trpo_mpi.py.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from tfbaselines.config.algorithm import EVERY_KIND, Algorithm
from tfbaselines.config.bases import BatchConfig, TrustRegionConfig
from tfbaselines.config.config import Coefficient, NetworkSpec, arg
from tfbaselines.config.options import RunOptions
from tfbaselines.loading import lazily


@dataclass(kw_only=True)
class Config(TrustRegionConfig, BatchConfig):
    """Arguments of TRPO."""

    total_timesteps: float | None
    timesteps_per_batch: int
    max_kl: float
    cg_iters: int
    gamma: Coefficient
    lam: Coefficient
    seed: int | None
    ent_coef: Coefficient = arg(0.0, "entropy coefficient in the objective")
    cg_damping: float
    vf_stepsize: Coefficient
    vf_iters: int
    max_episodes: int
    max_iters: int
    callback: Callable[[dict[str, Any], dict[str, Any]], Any] | None
    load_path: str | None
    save_interval: int
    value_network: NetworkSpec | None
    normalize_observations: bool
    comm: Any
    run: RunOptions | None

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
    summary="trust region policy optimization (Schulman et al. 2015), baselines' form",
    actions=EVERY_KIND,
    packed_observations=True,
    recurrent=False,
    length_arguments=("max_episodes", "max_iters"),
)

__getattr__ = lazily("tfbaselines.algs.trpo_mpi.trpo_mpi")
