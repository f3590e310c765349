"""TRPO and natural policy gradient as in Spinning Up (Schulman et al. 2015, arXiv:1502.05477; Kakade 2001).

This module loads no TensorFlow: it declares the arguments and the algorithm. `learn` is in trpo.py.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from tfbaselines.config.algorithm import EVERY_KIND, Algorithm
from tfbaselines.config.bases import EpochConfig
from tfbaselines.config.config import Coefficient, NetworkSpec, Schedule, arg
from tfbaselines.config.options import RunOptions
from tfbaselines.limits import PASSES
from tfbaselines.loading import lazily


@dataclass(kw_only=True)
class Config(EpochConfig):
    """Arguments of Spinning Up's TRPO."""

    seed: int | None
    steps_per_epoch: int
    epochs: int
    gamma: Coefficient
    delta: float = arg(0.01, "bound of the mean KL divergence of an update", above=0)
    vf_lr: Schedule
    train_v_iters: int
    damping_coeff: float = arg(0.1, "damping coefficient added to the diagonal of the Hessian", at_least=0)
    cg_iters: int = arg(10, "conjugate gradient iterations", at_least=1, limit=PASSES)
    backtrack_iters: int = arg(10, "largest number of steps of the backtracking line search", at_least=1, limit=PASSES)
    backtrack_coeff: float = arg(0.8, "step size decay of the backtracking line search", above=0, at_most=1)
    lam: Coefficient
    max_ep_len: int | None
    logger_kwargs: dict[str, Any] | None
    save_freq: int
    algo: str = arg(
        "trpo", "'trpo' with a line search, or 'npg' (natural policy gradient) without", choices=("trpo", "npg")
    )
    total_timesteps: float | None
    value_network: NetworkSpec | None
    normalize_observations: bool
    load_path: str | None
    comm: Any
    run: RunOptions | None
    eval_env: Any
    num_test_episodes: int

    env_defaults: ClassVar = {
        "all": {"network": "dense", "hidden_sizes": [64, 64], "activation": "tanh"},
        "atari": {"network": "cnn"},
        "retro": {"network": "cnn"},
    }


ALGORITHM = Algorithm(
    name="trpo",
    config=Config,
    summary="trust region policy optimization and natural policy gradient, Spinning Up's form",
    actions=EVERY_KIND,
    packed_observations=True,
    recurrent=False,
    normalized_environments=False,
    length_arguments=("epochs",),
)

__getattr__ = lazily("tfbaselines.algs.trpo.trpo")
