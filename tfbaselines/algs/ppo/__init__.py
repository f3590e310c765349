"""PPO as in Spinning Up: clipped ratios, stopped early by the KL divergence (Schulman et al. 2017, arXiv:1707.06347).

This module loads no TensorFlow: it declares the arguments and the algorithm. `learn` is in ppo.py.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from tfbaselines.config.algorithm import EVERY_KIND, Algorithm
from tfbaselines.config.bases import EpochConfig
from tfbaselines.config.config import Coefficient, NetworkSpec, Schedule, arg
from tfbaselines.config.options import RunOptions
from tfbaselines.limits import COUNT
from tfbaselines.loading import lazily


@dataclass(kw_only=True)
class Config(EpochConfig):
    """Arguments of Spinning Up's PPO."""

    seed: int | None
    steps_per_epoch: int
    epochs: int
    gamma: Coefficient
    clip_ratio: Coefficient = arg(0.2, "clip range of the probability ratio around 1", at_least=0)
    pi_lr: Schedule = arg(3e-4, "learning rate of the policy", at_least=0)
    vf_lr: Schedule
    train_pi_iters: int = arg(80, "largest number of gradient steps of the policy per epoch", at_least=1, limit=COUNT)
    train_v_iters: int
    lam: Coefficient
    max_ep_len: int | None
    target_kl: float = arg(
        0.01,
        "early stopping: the policy's steps of an epoch end when the KL divergence exceeds 1.5 times this value",
        at_least=0,
    )
    logger_kwargs: dict[str, Any] | None
    save_freq: int
    total_timesteps: float | None
    eval_env: Any
    num_test_episodes: int
    value_network: NetworkSpec | None
    normalize_observations: bool
    load_path: str | None
    comm: Any
    run: RunOptions | None

    env_defaults: ClassVar = {
        "all": {"network": "dense", "hidden_sizes": [64, 64], "activation": "tanh"},
        "atari": {"network": "cnn"},
        "retro": {"network": "cnn"},
    }


ALGORITHM = Algorithm(
    name="ppo",
    config=Config,
    summary="proximal policy optimization stopped early by the KL divergence, Spinning Up's form",
    actions=EVERY_KIND,
    packed_observations=True,
    normalized_environments=False,
    length_arguments=("epochs",),
)

__getattr__ = lazily("tfbaselines.algs.ppo.ppo")
