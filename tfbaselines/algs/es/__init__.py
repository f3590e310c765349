"""ES: evolution strategies (Salimans et al. 2017, arXiv:1703.03864)."""

from dataclasses import dataclass

from tfbaselines.config.algorithm import Algorithm
from tfbaselines.config.bases import EpisodeReturn, SearchConfig
from tfbaselines.config.config import Coefficient, Schedule, arg
from tfbaselines.errors import bad_argument
from tfbaselines.limits import COUNT
from tfbaselines.loading import lazily


@dataclass(kw_only=True)
class Config(EpisodeReturn, SearchConfig):
    """Arguments of evolution strategies."""

    num_agents: int = arg(30, "members of the population over all ranks", at_least=2, limit=COUNT, after="")
    num_iterations: int = 300
    lr: Schedule = arg(0.03, "learning rate", at_least=0)
    sigma: Coefficient = arg(0.1, "standard deviation of the members' noise", above=0)
    test_every: int = 50
    normalize_observations: bool = arg(
        False,
        "normalize observations by a running mean and standard deviation, saved with the policy",
        after="stop_max_score",
    )
    mirrored: bool = arg(
        True,
        "mirrored sampling: every second member has the negative noise of the member before it",
        after="save_interval",
    )
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
    Config,
    "evolution strategies: a population searches parameters without gradients (Salimans et al. 2017)",
    ("Box", "Discrete", "MultiDiscrete", "MultiBinary"),
    values=False,
    normalized_environments=False,
    packed_observations=True,
)

__getattr__ = lazily(__name__)
