"""BC: behavior cloning (Pomerleau 1991): the policy maximizes the likelihood of demonstrations."""

from dataclasses import dataclass
from typing import ClassVar

from tfbaselines.config.algorithm import EVERY_KIND, Algorithm
from tfbaselines.config.bases import DemonstrationConfig, SearchConfig
from tfbaselines.config.config import Schedule, arg
from tfbaselines.limits import COUNT, ROWS, TIMESTEPS
from tfbaselines.loading import lazily


@dataclass(kw_only=True)
class Config(DemonstrationConfig, SearchConfig):
    """Arguments of behavior cloning."""

    num_iterations: int = arg(
        500, "epochs over the demonstrations, unless total_timesteps (--num_timesteps) is given", at_least=0
    )
    lr: Schedule = arg(1e-3, "learning rate", at_least=0)
    batch_size: int = arg(128, "minibatch size in demonstrated steps", at_least=1, limit=ROWS)
    held_out: float = arg(0.1, "fraction of the demonstrations for validation", at_least=0, at_most=0.5)
    patience: int = arg(
        20, "early stopping: epochs without improvement of the validation loss; 0 for no early stopping", at_least=0
    )
    weight_decay: float = arg(
        0.0, "weight decay: coefficient of half the squared parameters in the loss", at_least=0, at_most=1
    )
    normalize_observations: bool = arg(
        False, "normalize observations by the mean and standard deviation of the demonstrations, saved with the policy"
    )
    total_timesteps: float | None = arg(
        None,
        "demonstrated steps of training, after which no epoch starts; None for all epochs",
        at_least=0,
        limit=TIMESTEPS,
    )
    test_every: int = arg(50, "epochs between evaluations; another one follows at the end", at_least=1)
    num_test_episodes: int = 10
    sequence_length: int = arg(
        64, "length of the training sequences of a recurrent policy", at_least=1, limit=COUNT, after="save_interval"
    )

    moved: ClassVar = {"eval_env": "test_every num_test_episodes stop_max_score max_ep_len"}
    env_defaults: ClassVar = {"mujoco": {"normalize_observations": True}}


ALGORITHM = Algorithm(
    Config,
    "behavior cloning: the policy imitates demonstrations (Pomerleau 1991)",
    EVERY_KIND,
    values=False,
    normalized_environments=False,
)

__getattr__ = lazily(__name__)
