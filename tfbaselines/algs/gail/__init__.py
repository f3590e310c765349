"""GAIL: generative adversarial imitation learning (Ho and Ermon 2016, arXiv:1606.03476), as in baselines.

This half loads no TensorFlow: the arguments, and what the command knows of the algorithm. `learn` is in gail.py.
"""

from dataclasses import dataclass
from typing import ClassVar

from tfbaselines.cli.lazy import lazily
from tfbaselines.config.algorithm import EVERY_KIND, Algorithm
from tfbaselines.config.bases import DemonstrationConfig, TrustRegionConfig
from tfbaselines.config.config import Coefficient, arg
from tfbaselines.errors import bad_argument


@dataclass(frozen=True, kw_only=True)
class Config(DemonstrationConfig, TrustRegionConfig):
    """Arguments of GAIL."""

    g_step: int = arg(3, "steps of the policy in an update", at_least=1)
    d_step: int = arg(1, "steps of the discriminator in an update", at_least=1)
    entcoeff: Coefficient = arg(0.0, "weight of the policy's entropy in its objective")
    adversary_entcoeff: float = arg(1e-3, "weight of the discriminator's entropy in its objective")
    adversary_hidden_size: int = arg(100, "units of each layer of the discriminator", at_least=1)
    d_stepsize: float = arg(3e-4, "learning rate of the discriminator", at_least=0)
    pretrained: bool = arg(False, "begin with behaviour cloning of the demonstrations, unless load_path is given")
    BC_max_iter: int = arg(10000, "the most gradient steps of that", at_least=1)
    max_kl: float = arg(0.01, "KL divergence of a step", above=0)
    cg_damping: float = arg(0.1, "added to the diagonal of the Fisher matrix", at_least=0)
    gamma: Coefficient = arg(0.995, "discount per step", at_least=0, at_most=1)
    lam: Coefficient = arg(0.97, "weight of longer advantage estimates (GAE)", at_least=0, at_most=1)
    vf_stepsize: Coefficient = arg(1e-3, "learning rate of the value function", at_least=0)
    vf_iters: int = arg(5, "passes of the value function over each batch", at_least=0)

    order: ClassVar = """
        demo_path g_step d_step entcoeff adversary_entcoeff adversary_hidden_size timesteps_per_batch max_kl cg_iters
        cg_damping gamma lam vf_iters vf_stepsize d_stepsize pretrained BC_max_iter traj_limitation subsample
        total_timesteps max_episodes max_iters seed callback load_path save_interval value_network
        normalize_observations comm run
    """
    instead: ClassVar = {
        "expert_path": "give demo_path=, the same file",
        "expert_dataset": "give demo_path=, the data set or its file",
        "reward_giver": "its discriminator is made here, see adversary_hidden_size, adversary_entcoeff and d_stepsize",
    }
    env_defaults: ClassVar = {
        "mujoco": {"num_hidden": 100, "num_layers": 2, "normalize_observations": True},
    }

    def check(self) -> None:
        """See Config."""
        super().check()
        if self.d_step > self.timesteps_per_batch:
            accepted = f"at most timesteps_per_batch={self.timesteps_per_batch}"
            raise bad_argument("d_step", self.d_step, accepted)


ALGORITHM = Algorithm(
    name="gail",
    config=Config,
    summary="generative adversarial imitation learning (Ho and Ermon 2016): demonstrations in place of rewards",
    actions=EVERY_KIND,
    recurrent=False,
    values=False,
    normalized_environments=False,
    length_arguments=("max_episodes", "max_iters"),
)

__getattr__ = lazily("tfbaselines.algs.gail.gail")
