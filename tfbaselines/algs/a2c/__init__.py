"""A2C: advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783), all environments in step."""

from dataclasses import dataclass

from tfbaselines.config.algorithm import EVERY_KIND, Algorithm
from tfbaselines.config.bases import ActorCriticConfig, EpisodeLimits, OnPolicyConfig, PreviousAction
from tfbaselines.config.config import Coefficient, arg
from tfbaselines.config.groups import SignalsConfig
from tfbaselines.loading import lazily


@dataclass(kw_only=True)
class Config(PreviousAction, EpisodeLimits, SignalsConfig, OnPolicyConfig, ActorCriticConfig):
    """Arguments of A2C."""

    nsteps: int = 5
    vf_coef: Coefficient = arg(0.5, "coefficient of the value loss", at_least=0, after="total_timesteps")
    epsilon: float = arg(1e-5, "RMSProp's epsilon, inside the square root", at_least=0, after="lrschedule")
    alpha: float = arg(0.99, "decay rate of RMSProp's mean square", at_least=0, at_most=1)
    normalize_advantages: bool = arg(False, "standardize the advantages of each update", after="normalize_observations")
    lam: Coefficient = arg(1.0, "GAE lambda; 1 for n-step returns", at_least=0, at_most=1, after="prev_action")


ALGORITHM = Algorithm(
    Config, "advantage actor-critic, synchronous (Mnih et al. 2016)", EVERY_KIND, packed_observations=True
)

__getattr__ = lazily(__name__)
