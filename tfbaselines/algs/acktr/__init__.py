"""ACKTR: actor-critic with Kronecker-factored trust region (Wu et al. 2017, arXiv:1708.05144)."""

from dataclasses import dataclass
from typing import ClassVar

from tfbaselines.config.algorithm import EVERY_KIND, Algorithm
from tfbaselines.config.bases import ActorCriticConfig, EpisodeLimits, OnPolicyConfig
from tfbaselines.config.config import Coefficient, Schedule, arg
from tfbaselines.loading import lazily


@dataclass(kw_only=True)
class Config(EpisodeLimits, OnPolicyConfig, ActorCriticConfig):
    """Arguments of ACKTR."""

    total_timesteps: float = 40e6
    nprocs: int = arg(
        32, "largest number of threads that decompose factors in parallel, at most one per core", at_least=1
    )
    nsteps: int = 20
    vf_coef: Coefficient = arg(0.5, "coefficient of the value loss", at_least=0)
    vf_fisher_coef: Coefficient = arg(1.0, "coefficient of the value function's part of the Fisher matrix", at_least=0)
    lr: Schedule = 0.25
    max_grad_norm: float | None = arg(
        0.5, "gradient clipping by the global norm in the first updates, before K-FAC; None for none", above=0
    )
    kfac_clip: float = arg(0.001, "bound of the KL divergence of an update, estimated from the Fisher matrix", above=0)
    save_interval: int | None = arg(None, "updates between checkpoints; None or 0 for only the last", at_least=0)
    is_async: bool = arg(
        True, "decompose the factors in the background; False waits, which is reproducible", after="load_path"
    )
    stats_update: int = arg(1, "updates between updates of the factors' statistics", at_least=1)
    kfac_update: int = arg(1, "updates between decompositions of the factors", at_least=1)

    moved: ClassVar = {
        "log_interval": "nprocs nsteps ent_coef vf_coef vf_fisher_coef lr",
        "lr": "max_grad_norm kfac_clip save_interval lrschedule",
    }
    env_defaults: ClassVar = {"mujoco": {"nsteps": 2500, "value_network": "copy"}}


ALGORITHM = Algorithm(
    Config,
    "actor-critic with Kronecker-factored trust region (Wu et al. 2017)",
    EVERY_KIND,
    packed_observations=True,
    recurrent=False,
)

__getattr__ = lazily(__name__)
