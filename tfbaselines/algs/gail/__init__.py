"""GAIL: generative adversarial imitation learning (Ho and Ermon 2016, arXiv:1606.03476), as in baselines."""

from dataclasses import dataclass
from typing import ClassVar

from tfbaselines.config.algorithm import EVERY_KIND, Algorithm
from tfbaselines.config.bases import DemonstrationConfig, EpisodeLimits, TrustRegionConfig
from tfbaselines.config.config import Coefficient, arg
from tfbaselines.errors import bad_argument
from tfbaselines.limits import COUNT, UNITS
from tfbaselines.loading import lazily


@dataclass(kw_only=True)
class Config(EpisodeLimits, DemonstrationConfig, TrustRegionConfig):
    """Arguments of GAIL."""

    g_step: int = arg(3, "policy steps in an update", at_least=1, limit=COUNT, after="demo_path")
    d_step: int = arg(1, "discriminator steps in an update", at_least=1, limit=COUNT)
    entcoeff: Coefficient = arg(0.0, "entropy coefficient of the policy's objective")
    adversary_entcoeff: float = arg(1e-3, "entropy coefficient of the discriminator's loss")
    adversary_hidden_size: int = arg(100, "units of each hidden layer of the discriminator", at_least=1, limit=UNITS)
    max_kl: Coefficient = 0.01
    cg_damping: float = 0.1
    gamma: Coefficient = 0.995
    lam: Coefficient = 0.97
    vf_iters: int = 5
    vf_stepsize: Coefficient = 1e-3
    d_stepsize: float = arg(3e-4, "learning rate of the discriminator", at_least=0, after="vf_stepsize")
    pretrained: bool = arg(False, "pretrain the policy by behavior cloning, unless load_path is given")
    BC_max_iter: int = arg(10000, "largest number of gradient steps of that pretraining", at_least=1)

    moved: ClassVar = {"BC_max_iter": "traj_limitation subsample", "lam": "vf_iters"}
    instead: ClassVar = {
        "expert_path": "give demo_path=, the same file",
        "expert_dataset": "give demo_path=, the data set or its file",
        "reward_giver": "gail makes its discriminator: give adversary_hidden_size, adversary_entcoeff and d_stepsize",
    }
    env_defaults: ClassVar = {
        "mujoco": {"num_hidden": 100, "num_layers": 2, "normalize_observations": True},
    }

    def check(self) -> None:
        super().check()
        if self.d_step > self.timesteps_per_batch:
            accepted = f"at most timesteps_per_batch={self.timesteps_per_batch}"
            raise bad_argument("d_step", self.d_step, accepted)


ALGORITHM = Algorithm(
    Config,
    "generative adversarial imitation learning (Ho and Ermon 2016): demonstrations in place of rewards",
    EVERY_KIND,
    recurrent=False,
    values=False,
    normalized_environments=False,
)

__getattr__ = lazily(__name__)
