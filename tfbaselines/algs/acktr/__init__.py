"""ACKTR: actor-critic with Kronecker-factored trust region (Wu et al. 2017, arXiv:1708.05144).

This module loads no TensorFlow: it has the arguments and the registry entry. `learn` is in acktr.py.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from tfbaselines.config.algorithm import EVERY_KIND, Algorithm
from tfbaselines.config.bases import OnPolicyConfig, PolicyConfig
from tfbaselines.config.config import Coefficient, NetworkSpec, Schedule, arg
from tfbaselines.config.options import RunOptions
from tfbaselines.config.schedules import FRACTION_SCHEDULES
from tfbaselines.limits import STEPS, TIMESTEPS
from tfbaselines.loading import lazily


@dataclass(kw_only=True)
class Config(OnPolicyConfig, PolicyConfig):
    """Arguments of ACKTR."""

    seed: int | None
    total_timesteps: float = arg(40e6, "environment steps of this rank, in whole updates", at_least=0, limit=TIMESTEPS)
    gamma: Coefficient
    log_interval: int = arg(100, "updates between rows of the logs", at_least=1)
    nprocs: int = arg(
        32, "largest number of threads that decompose factors in parallel, at most one per core", at_least=1
    )
    nsteps: int = arg(20, "steps of each environment in a rollout", at_least=1, limit=STEPS)
    ent_coef: Coefficient = arg(0.01, "entropy coefficient in the loss")
    vf_coef: Coefficient = arg(0.5, "coefficient of the value loss", at_least=0)
    vf_fisher_coef: Coefficient = arg(1.0, "coefficient of the value function's part of the Fisher matrix", at_least=0)
    lr: Schedule = arg(0.25, "learning rate", at_least=0)
    max_grad_norm: float | None = arg(
        0.5, "gradient clipping by the global norm in the first updates, before K-FAC; None for none", above=0
    )
    kfac_clip: float = arg(0.001, "bound of the KL divergence of an update, estimated from the Fisher matrix", above=0)
    save_interval: int | None = arg(None, "updates between checkpoints; None or 0 for only the last", at_least=0)
    lrschedule: str | Callable[[float], float] = arg(
        "linear",
        "schedule of the learning rate, unless lr is a schedule itself",
        choices=tuple(FRACTION_SCHEDULES),
    )
    load_path: str | None
    is_async: bool = arg(True, "decompose the factors in the background; False waits, which is reproducible")
    stats_update: int = arg(1, "updates between updates of the factors' statistics", at_least=1)
    kfac_update: int = arg(1, "updates between decompositions of the factors", at_least=1)
    value_network: NetworkSpec | None
    normalize_observations: bool
    max_total_reward: float | None
    eval_env: Any
    comm: Any
    run: RunOptions | None

    env_defaults: ClassVar = {"mujoco": {"nsteps": 2500, "value_network": "copy"}}


ALGORITHM = Algorithm(
    name="acktr",
    config=Config,
    summary="actor-critic with Kronecker-factored trust region (Wu et al. 2017)",
    actions=EVERY_KIND,
    packed_observations=True,
    recurrent=False,
)

__getattr__ = lazily("tfbaselines.algs.acktr.acktr")
