"""GAIL: generative adversarial imitation learning (Ho and Ermon 2016, arXiv:1606.03476), as in baselines.

This module loads no TensorFlow: it declares the arguments and the algorithm. `learn` is in gail.py.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from tfbaselines.config.algorithm import EVERY_KIND, Algorithm
from tfbaselines.config.bases import BatchConfig, DemonstrationConfig, TrustRegionConfig
from tfbaselines.config.config import Coefficient, NetworkSpec, arg
from tfbaselines.config.options import RunOptions
from tfbaselines.errors import bad_argument
from tfbaselines.limits import COUNT, UNITS
from tfbaselines.loading import lazily


@dataclass(kw_only=True)
class Config(DemonstrationConfig, TrustRegionConfig, BatchConfig):
    """Arguments of GAIL."""

    demo_path: str | None
    g_step: int = arg(3, "policy steps in an update", at_least=1, limit=COUNT)
    d_step: int = arg(1, "discriminator steps in an update", at_least=1, limit=COUNT)
    entcoeff: Coefficient = arg(0.0, "entropy coefficient of the policy's objective")
    adversary_entcoeff: float = arg(1e-3, "entropy coefficient of the discriminator's loss")
    adversary_hidden_size: int = arg(100, "units of each hidden layer of the discriminator", at_least=1, limit=UNITS)
    timesteps_per_batch: int
    max_kl: float = arg(0.01, "bound of the mean KL divergence of a policy step", above=0)
    cg_iters: int
    cg_damping: float = arg(0.1, "damping coefficient added to the diagonal of the Fisher matrix", at_least=0)
    gamma: Coefficient = arg(0.995, "discount factor", at_least=0, at_most=1)
    lam: Coefficient = arg(0.97, "GAE lambda", at_least=0, at_most=1)
    vf_iters: int = arg(5, "epochs of value function training on each batch", at_least=0, limit=COUNT)
    vf_stepsize: Coefficient = arg(1e-3, "learning rate of the value function", at_least=0)
    d_stepsize: float = arg(3e-4, "learning rate of the discriminator", at_least=0)
    pretrained: bool = arg(False, "pretrain the policy by behavior cloning, unless load_path is given")
    BC_max_iter: int = arg(10000, "largest number of gradient steps of that pretraining", at_least=1)
    traj_limitation: int | None
    subsample: int
    total_timesteps: float | None
    max_episodes: int
    max_iters: int
    seed: int | None
    callback: Callable[[dict[str, Any], dict[str, Any]], Any] | None
    load_path: str | None
    save_interval: int
    value_network: NetworkSpec | None
    normalize_observations: bool
    comm: Any
    run: RunOptions | None

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
