"""TRPO: trust region policy optimization (Schulman et al. 2015, arXiv:1502.05477), as in baselines."""

from dataclasses import dataclass
from typing import ClassVar

from tfbaselines.config.algorithm import EVERY_KIND, Algorithm
from tfbaselines.config.bases import EpisodeLimits, TrustRegionConfig
from tfbaselines.config.config import Coefficient, arg
from tfbaselines.loading import lazily


@dataclass(kw_only=True)
class Config(EpisodeLimits, TrustRegionConfig):
    """Arguments of TRPO."""

    ent_coef: Coefficient = arg(0.0, "entropy coefficient in the objective", after="lam")

    moved: ClassVar = {"": "total_timesteps", "lam": "seed", "ent_coef": "cg_damping"}
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
    Config,
    "trust region policy optimization (Schulman et al. 2015), baselines' form",
    EVERY_KIND,
    packed_observations=True,
    recurrent=False,
)

__getattr__ = lazily(__name__)
