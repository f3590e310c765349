"""VPG: vanilla policy gradient with GAE, as in Spinning Up (Schulman et al. 2016, arXiv:1506.02438).

This module loads no TensorFlow: it declares the arguments and the algorithm. `learn` is in vpg.py.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from tfbaselines.config.algorithm import EVERY_KIND, Algorithm
from tfbaselines.config.bases import EpochConfig
from tfbaselines.config.config import Coefficient, NetworkSpec, Schedule, arg
from tfbaselines.config.options import RunOptions
from tfbaselines.loading import lazily


@dataclass(kw_only=True)
class Config(EpochConfig):
    """Arguments of Spinning Up's VPG."""

    seed: int | None
    steps_per_epoch: int
    epochs: int
    gamma: Coefficient
    pi_lr: Schedule = arg(3e-4, "learning rate of the policy", at_least=0)
    vf_lr: Schedule
    train_v_iters: int
    lam: Coefficient
    max_ep_len: int | None
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
    name="vpg",
    config=Config,
    summary="vanilla policy gradient with generalized advantage estimates, Spinning Up's form",
    actions=EVERY_KIND,
    packed_observations=True,
    normalized_environments=False,
    length_arguments=("epochs",),
)

__getattr__ = lazily("tfbaselines.algs.vpg.vpg")
