"""PPO as in Spinning Up: clipped ratios, early stopping by KL divergence (Schulman et al. 2017, arXiv:1707.06347)."""

from dataclasses import dataclass

from tfbaselines.config.algorithm import EVERY_KIND, Algorithm
from tfbaselines.config.bases import EpisodeReturn, EpochConfig, PreviousAction
from tfbaselines.config.config import Coefficient, Schedule, arg
from tfbaselines.limits import COUNT
from tfbaselines.loading import lazily


@dataclass(kw_only=True)
class Config(PreviousAction, EpisodeReturn, EpochConfig):
    """Arguments of Spinning Up's PPO."""

    clip_ratio: Coefficient = arg(0.2, "clip range of the probability ratio around 1", at_least=0, after="gamma")
    pi_lr: Schedule = arg(3e-4, "learning rate of the policy", at_least=0)
    train_pi_iters: int = arg(
        80, "largest number of gradient steps of the policy per epoch", at_least=1, limit=COUNT, after="vf_lr"
    )
    target_kl: float = arg(
        0.01,
        "early stopping: the policy's steps of an epoch end when the KL divergence exceeds 1.5 times this value",
        at_least=0,
        after="max_ep_len",
    )


ALGORITHM = Algorithm(
    Config,
    "proximal policy optimization stopped early by the KL divergence, Spinning Up's form",
    EVERY_KIND,
    packed_observations=True,
    normalized_environments=False,
)

__getattr__ = lazily(__name__)
