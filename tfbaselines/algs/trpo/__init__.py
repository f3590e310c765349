"""TRPO and natural policy gradient as in Spinning Up (Schulman et al. 2015, arXiv:1502.05477; Kakade 2001)."""

from dataclasses import dataclass
from typing import ClassVar

from tfbaselines.config.algorithm import EVERY_KIND, Algorithm
from tfbaselines.config.bases import EpisodeReturn, EpochConfig
from tfbaselines.config.config import Coefficient, arg
from tfbaselines.limits import PASSES
from tfbaselines.loading import lazily


@dataclass(kw_only=True)
class Config(EpisodeReturn, EpochConfig):
    """Arguments of Spinning Up's TRPO."""

    delta: Coefficient = arg(0.01, "bound of the mean KL divergence of an update", above=0, after="gamma")
    damping_coeff: float = arg(
        0.1, "damping coefficient added to the diagonal of the Hessian", at_least=0, after="train_v_iters"
    )
    cg_iters: int = arg(10, "conjugate gradient iterations", at_least=1, limit=PASSES)
    backtrack_iters: int = arg(10, "largest number of steps of the backtracking line search", at_least=1, limit=PASSES)
    backtrack_coeff: float = arg(0.8, "step size decay of the backtracking line search", above=0, at_most=1)
    algo: str = arg(
        "trpo",
        "'trpo' with a line search, or 'npg' (natural policy gradient) without",
        choices=("trpo", "npg"),
        after="save_freq",
    )

    moved: ClassVar = {"run": "eval_env num_test_episodes"}


ALGORITHM = Algorithm(
    Config,
    "trust region policy optimization and natural policy gradient, Spinning Up's form",
    EVERY_KIND,
    packed_observations=True,
    recurrent=False,
    normalized_environments=False,
)

__getattr__ = lazily(__name__)
