"""VPG: vanilla policy gradient with GAE, as in Spinning Up (Schulman et al. 2016, arXiv:1506.02438)."""

from dataclasses import dataclass

from tfbaselines.config.algorithm import EVERY_KIND, Algorithm
from tfbaselines.config.bases import EpisodeReturn, EpochConfig, PreviousAction
from tfbaselines.config.config import Schedule, arg
from tfbaselines.loading import lazily


@dataclass(kw_only=True)
class Config(PreviousAction, EpisodeReturn, EpochConfig):
    """Arguments of Spinning Up's VPG."""

    pi_lr: Schedule = arg(3e-4, "learning rate of the policy", at_least=0, after="gamma")


ALGORITHM = Algorithm(
    Config,
    "vanilla policy gradient with generalized advantage estimates, Spinning Up's form",
    EVERY_KIND,
    packed_observations=True,
    normalized_environments=False,
)

__getattr__ = lazily(__name__)
