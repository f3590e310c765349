"""DQN: deep Q-learning (Mnih et al. 2015), with the parts of Rainbow (Hessel et al. 2018, arXiv:1710.02298)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tfbaselines.config.algorithm import Algorithm
from tfbaselines.config.bases import BufferConfig, EpisodeReturn
from tfbaselines.config.config import Schedule, arg
from tfbaselines.config.schedules import LinearSchedule
from tfbaselines.errors import bad_argument
from tfbaselines.limits import COUNT, PASSES, TIMESTEPS, UNITS
from tfbaselines.loading import lazily

ATARI: dict[str, Any] = {
    "network": "conv_only",
    "lr": 1e-4,
    "buffer_size": 10_000,
    "exploration_fraction": 0.1,
    "exploration_final_eps": 0.01,
    "train_freq": 4,
    "learning_starts": 10_000,
    "target_network_update_freq": 1000,
    "gamma": 0.99,
    "prioritized_replay": True,
    "prioritized_replay_alpha": 0.6,
    "dueling": True,
}


Callback = Callable[[dict[str, Any], dict[str, Any]], Any]


@dataclass(kw_only=True)
class Config(EpisodeReturn, BufferConfig):
    """Arguments of DQN as in baselines, then arguments of Rainbow."""

    lr: Schedule = arg(5e-4, "learning rate", at_least=0, after="seed")
    total_timesteps: float = arg(1e5, "environment steps of this rank", at_least=0, limit=TIMESTEPS)
    buffer_size: float = 5e4
    exploration_fraction: float = arg(
        0.1,
        "fraction of the run over which epsilon decays from epsilon_start; 0 starts with its final value",
        at_least=0,
        at_most=1,
    )
    exploration_final_eps: float = arg(0.02, "final value of epsilon", at_least=0, at_most=1)
    train_freq: int = arg(1, "environment steps between trainings", at_least=1)
    batch_size: int = 32
    print_freq: int | None = arg(100, "episodes between rows of the logs; None for one row at the end", at_least=1)
    checkpoint_freq: int | None = arg(
        10_000,
        "environment steps between comparisons of the mean return of the latest 100 episodes with the best so far; "
        "learn returns the best parameters; None for the last parameters",
        at_least=1,
    )
    checkpoint_path: str | None = arg(
        None, "directory for the best model; training starts from a model that is there already"
    )
    learning_starts: int = arg(1000, "environment steps before the first gradient step", at_least=0)
    gamma: float = 1.0
    target_network_update_freq: int = arg(500, "environment steps between copies to the target network", at_least=1)
    prioritized_replay: bool = arg(False, "draw transitions with large TD errors more often")
    prioritized_replay_alpha: float = arg(0.6, "exponent alpha of the priorities, 0 for uniform sampling", at_least=0)
    prioritized_replay_beta0: float = arg(0.4, "initial exponent beta of the importance weights", at_least=0, at_most=1)
    prioritized_replay_beta_iters: int | None = arg(
        None, "environment steps over which that exponent rises to 1; None for the whole run", at_least=1
    )
    prioritized_replay_eps: float = arg(1e-6, "constant added to the TD errors in the priorities", above=0)
    param_noise: bool = arg(False, "explore by parameter noise that changes actions as much as epsilon would")
    callback: Callback | None = arg(
        None,
        "function callback(locals, globals), called before each step with t, episode_rewards and others in locals; "
        "training stops when it returns True",
    )
    hiddens: Sequence[int] = arg((256,), "hidden layers of each branch above the network", limit=UNITS)
    dueling: bool = arg(True, "separate branches for the state's value and the actions' advantages")
    layer_norm: bool = arg(False, "layer normalization in these hidden layers")
    double_q: bool = arg(
        True, "double DQN: select the next action with the online network, evaluate it with the target network"
    )
    grad_norm_clipping: float | None = arg(
        10.0, "gradient clipping by the norm of each variable; None for none", above=0
    )
    adam_epsilon: float = arg(1e-8, "Adam's epsilon", above=0)
    n_step: int = arg(1, "n of n-step returns", at_least=1, limit=PASSES)
    distributional: str | None = arg(
        None,
        "learn distributions of returns: categorical (C51) or quantile (QR-DQN); None for expectations",
        choices=("categorical", "quantile"),
    )
    num_atoms: int | None = arg(
        None,
        "number of points of a distribution; None for 51 (categorical) or 200 (quantile)",
        at_least=1,
        limit=PASSES,
    )
    v_min: float = arg(-10.0, "smallest return with distributional='categorical'")
    v_max: float = arg(10.0, "largest return with distributional='categorical'")
    noisy: bool = arg(
        False,
        "noise of learned size in the weights above the network; set exploration_final_eps and exploration_fraction "
        "to 0 to explore by it alone",
    )
    vis_encode_type: str = arg(
        "simple", "image encoder in front of a dense network", choices=("simple", "nature_cnn", "resnet")
    )
    num_test_episodes: int = arg(
        0,
        "evaluation episodes of the greedy policy at each row of the logs; 0 for no evaluation",
        at_least=0,
        after="eval_env",
    )
    gradient_steps: int = arg(
        1,
        "gradient steps of a training, in one compiled call: for a small network, train_freq=8 with gradient_steps=8 "
        "is several times as fast as 1 with 1",
        at_least=1,
        limit=COUNT,
        after="save_replay_buffer",
    )

    normalize_observations: bool = arg(
        False,
        "normalize observations by a running mean and standard deviation, saved with the policy",
        after="max_ep_reward",
    )
    epsilon_start: float = arg(1.0, "epsilon of the first step", at_least=0, at_most=1)
    epsilon_decay: float | None = arg(
        None,
        "factor of epsilon after each environment step, down to exploration_final_eps, as in rlib; None for the linear "
        "decay over exploration_fraction",
        above=0,
        at_most=1,
    )

    update_arguments: ClassVar = ("train_freq",)
    moved: ClassVar = {"callback": "load_path"}
    env_defaults: ClassVar = {"atari": ATARI, "retro": ATARI}
    own_names: ClassVar = ("layer_norm",)

    def check(self) -> None:
        self.hiddens = tuple(self.hiddens)
        if self.distributional == "categorical" and not self.v_min < self.v_max:
            raise bad_argument("v_min", self.v_min, f"below v_max={self.v_max}")
        for name in ("v_min", "v_max"):
            value = getattr(self, name)
            if self.distributional != "categorical" and value != getattr(Config, name):
                raise bad_argument(name, value, "it bounds the returns of distributional='categorical'")
        if self.num_atoms is not None and self.distributional is None:
            raise bad_argument("num_atoms", self.num_atoms, "needs distributional='categorical' or 'quantile'")
        if self.epsilon_decay is not None and self.exploration_fraction != Config.exploration_fraction:
            accepted = "None with exploration_fraction, which is another decay"
            raise bad_argument("epsilon_decay", self.epsilon_decay, accepted)
        if self.noisy and self.param_noise:
            raise bad_argument("noisy", True, "param_noise=True is given too: give only one of them")

    @property
    def update_after(self) -> int:
        """Name of learning_starts in OffPolicyRun."""
        return self.learning_starts

    def epsilon(self, t: int) -> float:
        """Compute the probability of a random action at step t."""
        final = self.exploration_final_eps
        if self.epsilon_decay is not None:
            return max(self.epsilon_start * self.epsilon_decay**t, final)
        steps = int(self.exploration_fraction * self.total_timesteps)
        return LinearSchedule(steps, final, self.epsilon_start).value(t) if steps else final

    def beta(self, t: int) -> float:
        """Compute the exponent of the importance weights at step t."""
        steps = self.prioritized_replay_beta_iters or self.total_timesteps
        return LinearSchedule(steps, 1.0, self.prioritized_replay_beta0).value(t)


ALGORITHM = Algorithm(
    Config,
    "deep Q-learning (Mnih et al. 2015), with Rainbow's parts (Hessel et al. 2018)",
    ("Discrete",),
    recurrent=False,
    dict_observations=True,
    action_masks=True,
)

__getattr__ = lazily(__name__, "buffers")
