"""A2C: advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783), all environments in step.

This module loads no TensorFlow: it declares the arguments and the algorithm. `learn` is in a2c.py.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tfbaselines.config.algorithm import EVERY_KIND, Algorithm
from tfbaselines.config.bases import OnPolicyConfig, PolicyConfig, SignalsConfig
from tfbaselines.config.config import Coefficient, NetworkSpec, Schedule, arg
from tfbaselines.config.options import RunOptions
from tfbaselines.config.schedules import FRACTION_SCHEDULES
from tfbaselines.limits import STEPS, TIMESTEPS
from tfbaselines.loading import lazily


@dataclass(kw_only=True)
class Config(SignalsConfig, OnPolicyConfig, PolicyConfig):
    """Arguments of A2C."""

    seed: int | None
    nsteps: int = arg(5, "steps of each environment in a rollout", at_least=1, limit=STEPS)
    total_timesteps: float = arg(80e6, "environment steps of this rank, in whole updates", at_least=0, limit=TIMESTEPS)
    vf_coef: Coefficient = arg(0.5, "coefficient of the value loss", at_least=0)
    ent_coef: Coefficient = arg(0.01, "entropy coefficient in the loss")
    max_grad_norm: float | None = arg(0.5, "gradient clipping by the global norm; None for none", above=0)
    lr: Schedule = arg(7e-4, "learning rate", at_least=0)
    lrschedule: str | Callable[[float], float] = arg(
        "linear",
        "schedule of the learning rate, unless lr is a schedule itself",
        choices=tuple(FRACTION_SCHEDULES),
    )
    epsilon: float = arg(1e-5, "RMSProp's epsilon, inside the square root", at_least=0)
    alpha: float = arg(0.99, "decay rate of RMSProp's mean square", at_least=0, at_most=1)
    gamma: Coefficient
    log_interval: int = arg(100, "updates between rows of the logs", at_least=1)
    load_path: str | None
    save_interval: int
    value_network: NetworkSpec | None
    normalize_observations: bool
    normalize_advantages: bool = arg(False, "standardize the advantages of each update")
    max_total_reward: float | None
    eval_env: Any
    comm: Any
    run: RunOptions | None
    reward_signals: str | dict[str, Any] | None
    reward_signal_num_update: int | None


ALGORITHM = Algorithm(
    name="a2c",
    config=Config,
    summary="advantage actor-critic, synchronous (Mnih et al. 2016)",
    actions=EVERY_KIND,
    packed_observations=True,
)

__getattr__ = lazily("tfbaselines.algs.a2c.a2c")
