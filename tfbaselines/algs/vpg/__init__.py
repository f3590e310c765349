"""VPG: vanilla policy gradient with GAE, as in Spinning Up (Schulman et al. 2016, arXiv:1506.02438).

This half loads no TensorFlow: the arguments, and what the command knows of the algorithm. `learn` is in vpg.py.
"""

from dataclasses import dataclass
from typing import ClassVar

from tfbaselines.cli.lazy import lazily
from tfbaselines.config.algorithm import EVERY_KIND, Algorithm
from tfbaselines.config.bases import EpochConfig
from tfbaselines.config.config import Schedule, arg


@dataclass(frozen=True, kw_only=True)
class Config(EpochConfig):
    """Arguments of Spinning Up's VPG."""

    pi_lr: Schedule = arg(3e-4, "the policy's learning rate", at_least=0)

    order: ClassVar = """
        seed steps_per_epoch epochs gamma pi_lr vf_lr train_v_iters lam max_ep_len logger_kwargs save_freq
        total_timesteps eval_env num_test_episodes value_network normalize_observations load_path comm run
    """
    env_defaults: ClassVar = {
        "all": {"network": "dense", "hidden_sizes": [64, 64], "activation": "tanh"},
        "atari": {"network": "cnn"},
        "retro": {"network": "cnn"},
    }


ALGORITHM = Algorithm(
    name="vpg",
    config=Config,
    summary="vanilla policy gradient with generalised advantage estimates, Spinning Up's form",
    actions=EVERY_KIND,
    packed_observations=True,
    normalized_environments=False,
    length_arguments=("epochs",),
)

__getattr__ = lazily("tfbaselines.algs.vpg.vpg")
