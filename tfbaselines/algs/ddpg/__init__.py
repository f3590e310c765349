"""DDPG: deep deterministic policy gradient (Lillicrap et al. 2016, arXiv:1509.02971)."""

from dataclasses import dataclass
from typing import ClassVar

from tfbaselines.config.algorithm import Algorithm
from tfbaselines.config.bases import EpisodeReturn, SpinupReplayConfig
from tfbaselines.config.config import Coefficient, Schedule, arg
from tfbaselines.errors import bad_argument
from tfbaselines.limits import COUNT, ROWS, TIMESTEPS
from tfbaselines.loading import lazily


@dataclass(kw_only=True)
class Config(EpisodeReturn, SpinupReplayConfig):
    """Arguments of DDPG in baselines and in Spinning Up."""

    total_timesteps: float | None = arg(
        None, "environment steps of this rank; None for all epochs", at_least=0, limit=TIMESTEPS
    )
    nb_epochs: int | None = arg(
        None, "number of epochs; None for 500, unless total_timesteps is given", at_least=0, limit=10**9
    )
    nb_epoch_cycles: int = arg(20, "cycles in an epoch, with a row of the logs at the end", at_least=1, limit=10**9)
    nb_rollout_steps: int = arg(100, "steps of each environment in a cycle", at_least=1)
    reward_scale: float = arg(1.0, "factor of the rewards in learning")
    render: bool = arg(False, "render the training environments")
    render_eval: bool = arg(False, "render eval_env")
    noise_type: str | None = arg(
        "adaptive-param_0.2",
        "adaptive-param_X, ou_X, normal_X or none, or several with commas; X: standard deviation in units of the "
        "actions' bounds",
    )
    normalize_returns: bool = arg(False, "critics predict returns in units of running statistics")
    normalize_observations: bool = arg(True, "normalize Box observations by a running mean and standard deviation")
    critic_l2_reg: float = arg(1e-2, "coefficient of the L2 penalty of the critics' hidden kernels", at_least=0)
    actor_lr: Schedule = arg(1e-4, "learning rate of the actor (Spinning Up's pi_lr)", at_least=0)
    critic_lr: Schedule = arg(1e-3, "learning rate of the critics (Spinning Up's q_lr)", at_least=0)
    popart: bool = arg(
        False,
        "with normalize_returns: rescale the critics when the statistics change, so that predictions stay the same",
    )
    clip_norm: float | None = arg(None, "gradient clipping by the norm of each variable; None for none", above=0)
    nb_train_steps: int = arg(50, "gradient steps in a cycle", at_least=0, limit=COUNT)
    nb_eval_steps: int = arg(100, "steps of eval_env in a cycle", at_least=0)
    tau: float = arg(0.01, "soft update coefficient of the target networks", at_least=0, at_most=1, after="batch_size")
    param_noise_adaption_interval: int = arg(
        50, "gradient steps between adaptations of parameter noise", at_least=1, after="eval_env"
    )
    return_range: tuple[float, float] | None = arg(None, "range to which the critics' predictions are clipped")
    act_noise: float | None = arg(
        None, "Spinning Up's noise_type=normal_X, in units of the actions' bounds", at_least=0, after="replay_size"
    )
    polyak: float | None = arg(
        None,
        "Spinning Up's Polyak coefficient, 1 - tau; the critic then steps before the actor, not with it",
        at_least=0,
        at_most=1,
    )
    start_steps: int = 0
    update_after: int = 0
    update_every: int | None = arg(
        None,
        "Spinning Up's cycle: environment steps, and gradient steps; None for nb_rollout_steps and nb_train_steps",
        at_least=1,
        limit=ROWS,
    )
    num_test_episodes: int = arg(
        0, "evaluation episodes of the deterministic policy at the end of each epoch; 0 for none", at_least=0
    )
    save_interval: int = arg(0, "epochs between checkpoints; 0 for only the last", at_least=0, after="max_ep_len")
    twin_q: bool = arg(False, "clipped double Q-learning: two critics, and the smaller value in the targets (TD3)")
    delay_policy_update: int = arg(1, "critic steps per step of the actor and the targets (TD3 has 2)", at_least=1)
    target_noise: Coefficient = arg(
        0.0,
        "standard deviation of the target policy's smoothing noise, in units of the actions' bounds (TD3: 0.2)",
        at_least=0,
    )
    noise_clip: Coefficient = arg(0.5, "clip range of the target policy's smoothing noise", at_least=0)
    critic_layer_norm: bool = arg(False, "layer normalization in the critics' hidden layers", after="run")

    update_arguments: ClassVar = ("nb_rollout_steps", "update_every")
    moved: ClassVar = {"popart": "gamma"}
    length_arguments: ClassVar = ("nb_epochs",)

    def check(self) -> None:
        super().check()
        if self.nb_epochs is not None and self.total_timesteps is not None:
            accepted = "total_timesteps (--num_timesteps) was given too: give one of them"
            raise bad_argument("nb_epochs", self.nb_epochs, accepted)
        if self.popart and not self.normalize_returns:
            raise bad_argument("popart", self.popart, "needs normalize_returns=True")
        ends = self.return_range
        if ends is not None and not (len(ends) == 2 and ends[0] < ends[1]):
            raise bad_argument("return_range", ends, "two numbers, the lower one first")


ALGORITHM = Algorithm(
    Config,
    "deep deterministic policy gradient (Lillicrap et al. 2016), baselines' and Spinning Up's",
    ("bounded Box",),
    encodes_images=True,
)

__getattr__ = lazily(__name__)
