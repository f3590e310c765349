"""TD3: twin delayed deep deterministic policy gradient (Fujimoto et al. 2018, arXiv:1802.09477).

This file declares the arguments and loads no TensorFlow. `learn` is in td3.py.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from tfbaselines.config.algorithm import Algorithm
from tfbaselines.config.bases import OffPolicyConfig, ReplayConfig
from tfbaselines.config.config import Coefficient, Schedule, arg
from tfbaselines.config.options import RunOptions
from tfbaselines.loading import lazily


@dataclass(kw_only=True)
class Config(OffPolicyConfig, ReplayConfig):
    """Arguments of TD3."""

    seed: int | None
    total_timesteps: float | None
    eval_env: Any
    steps_per_epoch: int
    epochs: int
    replay_size: float
    gamma: float
    polyak: float
    pi_lr: Schedule = arg(1e-3, "learning rate of the actor", at_least=0)
    q_lr: Schedule = arg(1e-3, "learning rate of the critics", at_least=0)
    batch_size: int
    start_steps: int
    update_after: int
    update_every: int
    act_noise: Coefficient = arg(0.1, "standard deviation of the exploration noise", at_least=0)
    target_noise: Coefficient = arg(0.2, "standard deviation of the target policy's smoothing noise", at_least=0)
    noise_clip: Coefficient = arg(0.5, "clip range of the target policy's smoothing noise", at_least=0)
    policy_delay: int = arg(2, "critic steps per step of the actor and the targets", at_least=1)
    num_test_episodes: int
    max_ep_len: int | None
    logger_kwargs: dict[str, Any] | None
    save_freq: int
    num_update: int | None
    n_step: int
    memory_size: int | None
    sequence_length: int
    vis_encode_type: str
    normalize_observations: bool | None = arg(
        None,
        "normalize observations by running mean and standard deviation, offline by the data set's; None: only offline",
    )
    save_replay_buffer: bool
    load_path: str | None
    comm: Any
    run: RunOptions | None
    replay: str
    replay_k: float | None
    offline: str | None
    bc_alpha: float | None = arg(
        None, "offline: weight of values against the distance from the data's actions; None for 2.5", at_least=0
    )

    env_defaults: ClassVar = {"all": {"network": "dense"}}

    def check(self) -> None:
        super().check()
        self.check_offline("bc_alpha")
        if self.normalize_observations is None:
            self.normalize_observations = self.offline is not None


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
