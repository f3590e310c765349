"""HER: hindsight experience replay (Andrychowicz et al. 2017, arXiv:1707.01495) with DDPG, as in baselines."""

from dataclasses import dataclass
from typing import Any, ClassVar

from tfbaselines.config.algorithm import Algorithm
from tfbaselines.config.bases import BufferConfig
from tfbaselines.config.config import Coefficient, Schedule, arg
from tfbaselines.errors import bad_argument, unknown
from tfbaselines.limits import COUNT, LAYERS, ROWS, UNITS
from tfbaselines.loading import lazily


@dataclass(kw_only=True)
class Config(BufferConfig):
    """Arguments of HER and of its DDPG, which are parameters in baselines."""

    replay_strategy: str = arg(
        "future",
        "'future': goals that the episode achieves later; 'none': no new goals",
        choices=("future", "none"),
        after="eval_env",
    )
    policy_save_interval: int = arg(5, "epochs between checkpoints; 0 for only the last", at_least=0)
    clip_return: bool = arg(True, "the critic's targets are at least -1 / (1 - gamma)")
    demo_file: str | None = arg(None, "npz file of demonstrations, for bc_loss")
    override_params: dict[str, Any] | None = arg(None, "arguments by name; they replace arguments given otherwise")
    save_path: str | None = arg(
        None, "file for the model with the best success rate; on the command line for the last model"
    )
    gamma: float | None = arg(None, "discount factor; None for 1 - 1 / steps of an episode", at_least=0, at_most=1)
    batch_size: int = 256
    layers: int = arg(
        3,
        "hidden layers of 'dense' and 'mlp', unless their own arguments are given",
        at_least=1,
        limit=LAYERS,
        after="save_replay_buffer",
    )
    hidden: int = arg(256, "units of each hidden layer", at_least=1, limit=UNITS)
    Q_lr: Schedule = arg(1e-3, "learning rate of the critic", at_least=0)
    pi_lr: Schedule = arg(1e-3, "learning rate of the actor", at_least=0)
    polyak: float = arg(
        0.95, "Polyak averaging coefficient of the target networks, updated after each cycle", at_least=0, at_most=1
    )
    action_l2: float = arg(1.0, "coefficient of the L2 penalty of the actor's actions", at_least=0)
    clip_obs: float = arg(200.0, "bound of observations and goals before normalization", above=0)
    relative_goals: bool = arg(False, "give the networks the desired goal minus the achieved goal")
    n_cycles: int | None = arg(
        None, "cycles in an epoch; None for 50, or for 10 with FetchReach", at_least=1, limit=COUNT
    )
    rollout_batch_size: int | None = arg(
        None,
        "environments, with one episode each in a cycle; None for all that are given, on the command line 2",
        at_least=1,
        limit=10**4,
    )
    n_batches: int = arg(40, "gradient steps in a cycle", at_least=0, limit=COUNT)
    n_test_rollouts: int = arg(
        10, "evaluation episodes of each environment at the end of each epoch; 0 for none", at_least=0
    )
    test_with_polyak: bool = arg(False, "evaluate the target actor")
    random_eps: Coefficient = arg(0.3, "probability of a uniform random action", at_least=0, at_most=1)
    noise_eps: Coefficient = arg(
        0.2, "standard deviation of the noise on the other actions, in units of their bounds", at_least=0
    )
    replay_k: float = arg(4, "ratio of relabeled to original transitions", at_least=0, limit=COUNT)
    norm_eps: float = arg(0.01, "smallest standard deviation in the normalization", above=0)
    norm_clip: float = arg(5.0, "bound of normalized numbers", above=0)
    bc_loss: bool = arg(False, "learn from the demonstrations of demo_file too")
    q_filter: bool = arg(False, "only from demonstrated actions that the critic prefers to the actor's")
    num_demo: int = arg(100, "episodes read from demo_file", at_least=1, limit=COUNT)
    demo_batch_size: int = arg(128, "demonstrations in a batch", at_least=1, limit=ROWS)
    prm_loss_weight: float = arg(0.001, "weight of the actor's losses but for the cloning loss", at_least=0)
    aux_loss_weight: float = arg(0.0078, "weight of the cloning loss", at_least=0)
    clip_pos_returns: bool = arg(True, "the critic's targets are at most 0, for rewards of -1 and 0")

    update_arguments: ClassVar = ("max_ep_len",)
    moved: ClassVar = {
        "": "total_timesteps seed eval_env",
        "override_params": "load_path save_path comm run gamma batch_size max_ep_len save_replay_buffer",
        "pi_lr": "buffer_size",
    }
    env_defaults: ClassVar = {"all": {"network": "dense"}}
    sizes_networks: ClassVar = True

    def check(self) -> None:
        for name, value in (self.override_params or {}).items():
            if name not in self.arguments():
                raise unknown("parameter of override_params", name, self.arguments())
            setattr(self, name, self.arguments()[name].checked(value))
        super().check()
        if self.q_filter and not self.bc_loss:
            raise bad_argument("q_filter", self.q_filter, "needs bc_loss=True")
        if self.bc_loss and self.demo_batch_size >= self.batch_size:
            raise bad_argument("demo_batch_size", self.demo_batch_size, f"less than batch_size={self.batch_size}")

    @property
    def update_after(self) -> int:
        return 0

    @property
    def num_test_episodes(self) -> int:
        return self.n_test_rollouts * (self.rollout_batch_size or 1)


ALGORITHM = Algorithm(
    Config,
    "hindsight experience replay with DDPG, for environments with goals (Andrychowicz et al. 2017)",
    ("bounded Box",),
    recurrent=False,
    normalized_environments=False,
    dict_observations=True,
    goals=True,
    num_env=2,
)

__getattr__ = lazily(__name__)
