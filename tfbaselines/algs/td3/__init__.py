"""TD3: twin delayed deep deterministic policy gradient (Fujimoto et al. 2018, arXiv:1802.09477).

This half loads no TensorFlow: the arguments, and what the command knows of the algorithm. `learn` is in td3.py.
"""

from dataclasses import dataclass
from typing import ClassVar

from tfbaselines.cli.lazy import lazily
from tfbaselines.config.algorithm import Algorithm
from tfbaselines.config.bases import OffPolicyConfig
from tfbaselines.config.config import Coefficient, Schedule, arg


@dataclass(frozen=True, kw_only=True)
class Config(OffPolicyConfig):
    """Arguments of TD3."""

    pi_lr: Schedule = arg(1e-3, "the actor's learning rate", at_least=0)
    q_lr: Schedule = arg(1e-3, "the critics' learning rate", at_least=0)
    act_noise: Coefficient = arg(0.1, "standard deviation of the noise on actions", at_least=0)
    target_noise: Coefficient = arg(0.2, "standard deviation of the noise on the target's actions", at_least=0)
    noise_clip: Coefficient = arg(0.5, "bound of the target's noise", at_least=0)
    policy_delay: int = arg(2, "critic steps for each step of the actor and the targets", at_least=1)
    bc_alpha: float | None = arg(None, "offline: weight of values beside the data's actions; None for 2.5", at_least=0)
    normalize_observations: bool | None = arg(
        None, "scale observations by a running mean and deviation, offline by the data's; None: offline only"
    )

    order: ClassVar = """
        seed total_timesteps eval_env steps_per_epoch epochs replay_size gamma polyak pi_lr q_lr batch_size
        start_steps update_after update_every act_noise target_noise noise_clip policy_delay num_test_episodes
        max_ep_len logger_kwargs save_freq num_update n_step memory_size sequence_length vis_encode_type
        normalize_observations save_replay_buffer load_path comm run replay replay_k
    """
    env_defaults: ClassVar = {"all": {"network": "dense"}}

    def check(self) -> None:
        """See Config."""
        super().check()
        self.check_offline("bc_alpha")
        if self.normalize_observations is None:
            object.__setattr__(self, "normalize_observations", self.offline is not None)


ALGORITHM = Algorithm(
    name="td3",
    config=Config,
    summary="twin delayed deep deterministic policy gradient (Fujimoto et al. 2018)",
    actions=("bounded Box",),
    normalized_environments=False,
    dict_observations=True,
    length_arguments=("epochs",),
)

__getattr__ = lazily("tfbaselines.algs.td3.td3")
