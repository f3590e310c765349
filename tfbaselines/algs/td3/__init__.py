"""TD3: twin delayed deep deterministic policy gradient (Fujimoto et al. 2018, arXiv:1802.09477)."""

from dataclasses import dataclass

from tfbaselines.config.algorithm import Algorithm
from tfbaselines.config.bases import EpisodeReturn, OffPolicyConfig, PreviousAction
from tfbaselines.config.config import Coefficient, Schedule, arg
from tfbaselines.config.groups import ExplorationConfig
from tfbaselines.errors import bad_argument
from tfbaselines.loading import lazily


@dataclass(kw_only=True)
class Config(ExplorationConfig, PreviousAction, EpisodeReturn, OffPolicyConfig):
    """Arguments of TD3."""

    pi_lr: Schedule = arg(1e-3, "learning rate of the actor", at_least=0, after="polyak")
    q_lr: Schedule = arg(1e-3, "learning rate of the critics", at_least=0)
    act_noise: Coefficient = arg(0.1, "standard deviation of the exploration noise", at_least=0, after="update_every")
    target_noise: Coefficient = arg(0.2, "standard deviation of the target policy's smoothing noise", at_least=0)
    noise_clip: Coefficient = arg(0.5, "clip range of the target policy's smoothing noise", at_least=0)
    policy_delay: int = arg(2, "critic steps per step of the actor and the targets", at_least=1)
    normalize_observations: bool | None = arg(
        None,
        "normalize observations by running mean and standard deviation, offline by the data set's; None: only offline",
    )
    bc_alpha: float | None = arg(
        None,
        "offline: weight of values against the distance from the data's actions; None for 2.5",
        at_least=0,
        after="offline",
    )

    critic: str = arg(
        "plain",
        "kind of critics: 'plain'; 'crossq': batch renormalization in place of targets",
        choices=("plain", "crossq"),
        after="noise_correlation",
    )

    def check(self) -> None:
        super().check()
        if self.critic == "crossq":
            if self.memory_size is not None:
                raise bad_argument("critic", self.critic, "'plain' with memory_size")
            self.check_needs("critic='plain'", "critic_layer_norm")
        if self.offline is None:
            self.check_needs("offline", "bc_alpha")
        else:
            self.check_needs("no offline", "critic")
        if self.normalize_observations is None:
            self.normalize_observations = self.offline is not None


ALGORITHM = Algorithm(
    Config,
    "twin delayed deep deterministic policy gradient (Fujimoto et al. 2018)",
    ("bounded Box",),
    normalized_environments=False,
    dict_observations=True,
)

__getattr__ = lazily(__name__)
