"""PPO2: proximal policy optimization with clipped probability ratios (Schulman et al. 2017, arXiv:1707.06347)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from tfbaselines.config.algorithm import EVERY_KIND, Algorithm
from tfbaselines.config.bases import EpisodeLimits, OnPolicyConfig, PolicyConfig, PreviousAction
from tfbaselines.config.config import Coefficient, Schedule, arg
from tfbaselines.config.groups import PretrainingConfig, SignalsConfig
from tfbaselines.errors import bad_argument
from tfbaselines.limits import PASSES
from tfbaselines.loading import lazily


@dataclass(kw_only=True)
class Config(PreviousAction, EpisodeLimits, PretrainingConfig, SignalsConfig, OnPolicyConfig, PolicyConfig):
    """Arguments of PPO2."""

    nsteps: int = 2048
    ent_coef: Coefficient = arg(0.0, "entropy coefficient in the loss", after="nsteps")
    lr: Schedule = arg(3e-4, "learning rate", at_least=0)
    vf_coef: Coefficient = arg(0.5, "coefficient of the value loss", at_least=0)
    max_grad_norm: float | None = arg(0.5, "gradient clipping by the global norm; None for none", above=0)
    lam: Coefficient = arg(0.95, "GAE lambda", at_least=0, at_most=1, after="gamma")
    log_interval: int = 10
    nminibatches: int = arg(
        4, "minibatches in an epoch; for recurrent policies groups of environments", at_least=1, limit=10**5
    )
    noptepochs: int = arg(4, "epochs of training on each rollout", at_least=1, limit=PASSES)
    cliprange: Schedule = arg(0.2, "clip range of the probability ratio around 1", at_least=0)
    model_fn: Callable[..., Any] | None = arg(
        None, "makes the model in place of Model, with train() on minibatches", after="load_path"
    )
    update_fn: Callable[[int], None] | None = arg(None, "function called with the update's number after each update")
    init_fn: Callable[[], None] | None = arg(None, "function called once before training")
    mpi_rank_weight: float = arg(1.0, "this rank's weight when gradients are averaged over ranks", at_least=0)
    use_gae: bool = arg(
        True, "generalized advantage estimation; False for n-step returns minus values", after="normalize_observations"
    )
    cliprange_vf: Schedule | bool = arg(
        True, "clipping range of values around the rollout's; True for cliprange, False for none", at_least=0
    )
    normalize_advantages: bool = arg(True, "standardize the advantages of each minibatch")

    moved: ClassVar = {
        "": "total_timesteps eval_env seed",
        "cliprange": "save_interval",
        "mpi_rank_weight": "comm",
    }
    env_defaults: ClassVar = {
        "atari": {"nsteps": 128, "log_interval": 1, "ent_coef": 0.01, "lr": "linear_2.5e-4", "cliprange": 0.1},
        "mujoco": {
            "nminibatches": 32,
            "noptepochs": 10,
            "log_interval": 1,
            "lr": "linear_3e-4",
            "value_network": "copy",
        },
    }

    def check(self) -> None:
        super().check()
        if self.model_fn is not None and self.signals is not None:
            raise bad_argument("model_fn", self.model_fn, "None with reward_signals, which need ppo2's own Model")
        changing = self.schedules().keys() - {"lr", "cliprange", "cliprange_vf"}
        if self.model_fn is not None and changing:
            name = min(changing)
            raise bad_argument(name, getattr(self, name), "a number with model_fn: train() takes no other schedules")


ALGORITHM = Algorithm(
    Config,
    "proximal policy optimization with clipped probability ratios (Schulman et al. 2017)",
    EVERY_KIND,
    packed_observations=True,
)

__getattr__ = lazily(__name__)
