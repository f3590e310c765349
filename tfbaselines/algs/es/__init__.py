"""ES: evolution strategies (Salimans et al. 2017, arXiv:1703.03864).

This module declares the arguments and the registry entry without loading TensorFlow; es.py holds learn().
"""

from dataclasses import dataclass
from typing import Any

from tfbaselines.config.algorithm import Algorithm
from tfbaselines.config.bases import SearchConfig
from tfbaselines.config.config import Coefficient, Schedule, arg
from tfbaselines.config.options import RunOptions
from tfbaselines.errors import bad_argument
from tfbaselines.limits import COUNT
from tfbaselines.loading import lazily


@dataclass(kw_only=True)
class Config(SearchConfig):
    """Arguments of evolution strategies."""

    num_agents: int = arg(30, "members of the population over all ranks", at_least=2, limit=COUNT)
    num_iterations: int = arg(
        300, "number of iterations, unless total_timesteps (--num_timesteps) is given", at_least=0
    )
    lr: Schedule = arg(0.03, "learning rate", at_least=0)
    sigma: Coefficient = arg(0.1, "standard deviation of the members' noise", above=0)
    test_every: int = arg(50, "iterations between evaluations; another one follows at the end", at_least=1)
    num_test_episodes: int
    max_ep_len: int | None
    stop_max_score: float | None
    normalize_observations: bool = arg(
        False, "normalize observations by a running mean and standard deviation, saved with the policy"
    )
    seed: int | None
    total_timesteps: float | None
    load_path: str | None
    comm: Any
    run: RunOptions | None
    eval_env: Any
    log_interval: int
    save_interval: int
    mirrored: bool = arg(True, "mirrored sampling: every second member has the negative noise of the member before it")
    returns: str = arg(
        "standardised",
        "weights of the members' noise: standardized returns, or ranks",
        choices=("standardised", "ranks"),
    )
    optimizer: str = arg("sgd", "plain gradient ascent, or Adam", choices=("sgd", "adam"))
    weight_decay: float = arg(
        0.0, "weight decay: fraction of the parameters that a step of size 1 removes", at_least=0, at_most=1
    )

    def check(self) -> None:
        if self.mirrored and self.num_agents % 2:
            raise bad_argument("num_agents", self.num_agents, "an even number, or give mirrored=False")


ALGORITHM = Algorithm(
    name="es",
    config=Config,
    summary="evolution strategies: a population searches parameters without gradients (Salimans et al. 2017)",
    actions=("Box", "Discrete", "MultiDiscrete", "MultiBinary"),
    values=False,
    normalized_environments=False,
    packed_observations=True,
    length_arguments=("num_iterations",),
)

__getattr__ = lazily("tfbaselines.algs.es.es")
