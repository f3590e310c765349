"""ACER: actor-critic with experience replay (Wang et al. 2017, arXiv:1611.01224)."""

from dataclasses import dataclass
from typing import ClassVar

from tfbaselines.config.algorithm import Algorithm
from tfbaselines.config.bases import ActorCriticConfig, EpisodeLimits, PreviousAction
from tfbaselines.config.config import Coefficient, arg
from tfbaselines.errors import UsageError, bad_argument
from tfbaselines.limits import COUNT, ROWS, STEPS, TIMESTEPS
from tfbaselines.loading import lazily

# Default number of traces in a batch.
BATCH_SIZE = 32


@dataclass(kw_only=True)
class Config(PreviousAction, EpisodeLimits, ActorCriticConfig):
    """Arguments of ACER."""

    nsteps: int = arg(20, "steps of each environment in a rollout, and in a replayed sequence", at_least=1, limit=STEPS)
    total_timesteps: float = arg(80e6, "environment steps of this rank, over all workers", at_least=0, limit=TIMESTEPS)
    q_coef: Coefficient = arg(0.5, "coefficient of the loss of Q", at_least=0, after="total_timesteps")
    max_grad_norm: float | None = 10.0
    rprop_epsilon: float = arg(1e-5, "RMSProp's epsilon, inside the square root", at_least=0, after="lrschedule")
    rprop_alpha: float = arg(0.99, "decay rate of RMSProp's mean square", at_least=0, at_most=1)
    log_interval: int = arg(100, "on-policy updates between rows of the logs", at_least=1)
    buffer_size: int = arg(50000, "size of the replay buffer in steps of each environment", at_least=1)
    replay_ratio: float = arg(4, "mean number of off-policy updates per on-policy update", at_least=0, limit=10**4)
    replay_start: int = arg(10000, "steps of each environment in the replay buffer before it is used", at_least=0)
    c: Coefficient = arg(10.0, "truncation of the importance weights, with bias correction", at_least=0)
    trust_region: bool | str = arg(
        True,
        "True or 'efficient' bounds the gradient by the outputs' distance to the averaged policy; 'exact' shortens "
        "each step until the mean KL divergence from that policy is within delta; False leaves it unbounded",
        choices=("efficient", "exact", "True", "False"),
    )
    alpha: float = arg(0.99, "averaging coefficient of the averaged policy", at_least=0, at_most=1)
    delta: float = arg(1.0, "bound of the trust region", at_least=0)
    reward_clip: float | None = arg(
        None, "bound of the rewards' magnitude; None for no clipping", at_least=0, after="normalize_observations"
    )
    buffer_len: int | None = arg(
        None, "size of the replay buffer in episodes, in place of buffer_size (trace mode)", at_least=1
    )
    batch_size: int = arg(BATCH_SIZE, "minibatch size in traces (trace mode)", at_least=1, limit=ROWS)
    trace_length: int | None = arg(
        None, "steps of a trace, cut from an episode; None for whole episodes", at_least=1, limit=COUNT
    )
    num_workers: int = arg(
        1,
        "workers that collect and train one model; runs with several are not reproducible bit by bit",
        at_least=1,
        limit=256,
    )
    lock: bool = arg(True, "workers compute gradients one at a time; False for no lock")
    lock_update: bool | None = arg(
        None,
        "workers change the parameters one at a time; None as lock, so that lock=False is Hogwild",
        after="max_ep_len",
    )
    worker_kind: str = arg(
        "threads",
        "threads of this process, or processes that share the parameters in memory",
        choices=("threads", "processes"),
    )
    random_start: bool = arg(True, "cut traces from a random step of the episode; False from its first (trace mode)")

    env_defaults: ClassVar = {
        "atari": {"lrschedule": "constant"},
        # Continuous control, which the original lacks, needs a separate critic and larger steps.
        "mujoco": {
            "value_network": "copy",
            "lr": 3e-3,
            "lrschedule": "constant",
            "ent_coef": 0.0,
            "c": 5.0,
            "replay_start": 1000,
        },
    }

    def check(self) -> None:
        if self.buffer_len is None and (self.trace_length is not None or self.batch_size != BATCH_SIZE):
            raise UsageError("batch_size and trace_length need buffer_len, the number of episodes to keep")
        if not self.random_start and self.trace_length is None:
            raise bad_argument("random_start", False, "needs trace_length, the steps of a trace")
        if self.replay_ratio and self.buffer_len is None and self.replay_start > self.buffer_size:
            accepted = f"at most buffer_size={self.buffer_size}, or nothing is replayed"
            raise bad_argument("replay_start", self.replay_start, accepted)


ALGORITHM = Algorithm(
    Config, "actor-critic with experience replay (Wang et al. 2017)", ("Discrete", "Box"), packed_observations=True
)

__getattr__ = lazily(__name__)
