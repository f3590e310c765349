"""PPO1: proximal policy optimization as in baselines' first form (Schulman et al. 2017, arXiv:1707.06347)."""

from dataclasses import dataclass
from typing import ClassVar

from tfbaselines.config.algorithm import EVERY_KIND, Algorithm
from tfbaselines.config.bases import BatchConfig, EpisodeLimits
from tfbaselines.config.config import Coefficient, arg
from tfbaselines.errors import bad_argument
from tfbaselines.limits import PASSES, ROWS, STEPS, TIMESTEPS
from tfbaselines.loading import lazily


@dataclass(kw_only=True)
class Config(EpisodeLimits, BatchConfig):
    """Arguments of PPO1."""

    timesteps_per_actorbatch: int = arg(
        2048, "steps of all environments of this rank in a batch", at_least=1, limit=STEPS, after=""
    )
    clip_param: float = arg(0.2, "clip range of the probability ratio around 1", at_least=0)
    entcoeff: Coefficient = arg(0.0, "entropy coefficient in the loss")
    optim_epochs: int = arg(10, "epochs of training on each batch", at_least=1, limit=PASSES)
    optim_stepsize: float = arg(3e-4, "learning rate", at_least=0)
    optim_batchsize: int = arg(64, "minibatch size of this rank", at_least=1, limit=ROWS)
    lam: Coefficient = 0.95
    max_timesteps: float = arg(
        0, "the original's name of total_timesteps; 0 for total_timesteps", at_least=0, limit=TIMESTEPS
    )
    max_seconds: float = arg(
        0.0, "largest number of seconds; 0 for no limit", at_least=0, limit=TIMESTEPS, after="max_iters"
    )
    adam_epsilon: float = arg(1e-5, "Adam's epsilon", above=0, after="callback")
    schedule: str = arg(
        "linear",
        "schedule of optim_stepsize and clip_param: 'linear' decays to 0 over training",
        choices=("linear", "constant"),
    )

    update_arguments: ClassVar = ("timesteps_per_actorbatch",)
    moved: ClassVar = {"schedule": "total_timesteps seed"}
    length_arguments: ClassVar = ("max_timesteps", "max_episodes", "max_iters", "max_seconds")

    @property
    def batch_steps(self) -> int:
        return self.timesteps_per_actorbatch

    @property
    def seconds(self) -> float:
        return self.max_seconds

    @property
    def timesteps(self) -> float | None:
        return self.max_timesteps or self.total_timesteps

    def check(self) -> None:
        if self.schedule == "linear" and self.most_timesteps(1) is None:
            accepted = "needs total_timesteps, max_timesteps or max_iters to end at; take 'constant'"
            raise bad_argument("schedule", self.schedule, accepted)
        most = self.timesteps_per_actorbatch
        if self.optim_batchsize > most:
            raise bad_argument("optim_batchsize", self.optim_batchsize, f"at most timesteps_per_actorbatch={most}")


ALGORITHM = Algorithm(
    Config,
    "proximal policy optimization, baselines' earlier form (Schulman et al. 2017)",
    EVERY_KIND,
    packed_observations=True,
    recurrent=False,
)

__getattr__ = lazily(__name__)
