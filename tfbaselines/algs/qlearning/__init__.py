"""Q-learning with a table (Watkins and Dayan 1992)."""

from dataclasses import dataclass
from typing import ClassVar

from tfbaselines.config.algorithm import Algorithm
from tfbaselines.config.bases import EpisodeReturn, SearchConfig
from tfbaselines.config.config import Schedule, arg
from tfbaselines.limits import COUNT
from tfbaselines.loading import lazily

NETWORK = "table"


@dataclass(kw_only=True)
class Config(EpisodeReturn, SearchConfig):
    """Arguments of Q-learning."""

    num_iterations: int = arg(
        1000, "number of episodes of this rank, unless total_timesteps (--num_timesteps) is given", at_least=0
    )
    lr: Schedule = arg(0.03, "learning rate", at_least=0)
    discount: float = arg(0.99, "discount factor", at_least=0, at_most=1)
    epsilon_greedy: float = arg(0.9, "probability of a random action in the first episode", at_least=0, at_most=1)
    epsilon_decay: float = arg(0.9999, "factor of that probability after each episode", at_least=0, at_most=1)
    epsilon_min: float = arg(0.01, "smallest probability of a random action", at_least=0, at_most=1)
    grid_size: int | list = arg(
        20, "cells along each dimension of Box observations, or a list for each", at_least=1, limit=COUNT
    )
    log_interval: int = 10
    low: float | list | None = arg(
        None,
        "start of the grid, one number or a list with one per dimension; None for the observation space's bounds",
        after="save_interval",
    )
    high: float | list | None = arg(None, "end of the grid, in the same form as low")
    bounds_steps: int = arg(
        1000, "random steps of each environment; their range bounds unbounded dimensions", at_least=1
    )
    initial_value: float = arg(0.0, "value of untried actions; a large value makes the policy try every action")

    env_defaults: ClassVar = {"all": {"network": NETWORK}}


ALGORITHM = Algorithm(
    Config,
    "Q-learning with a table, for discrete observations or a grid (Watkins and Dayan 1992)",
    ("Discrete",),
    recurrent=False,
    tabular=True,
    normalized_environments=False,
    packed_observations=True,
)

__getattr__ = lazily(__name__)
