"""ACER: actor-critic with experience replay (Wang et al. 2017, arXiv:1611.01224).

This module declares the arguments and the registry entry without loading TensorFlow; acer.py holds learn().
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from tfbaselines.config.algorithm import Algorithm
from tfbaselines.config.bases import PolicyConfig
from tfbaselines.config.config import Coefficient, NetworkSpec, Schedule, arg
from tfbaselines.config.options import RunOptions
from tfbaselines.config.schedules import FRACTION_SCHEDULES
from tfbaselines.errors import UsageError, bad_argument
from tfbaselines.limits import COUNT, ROWS, STEPS, TIMESTEPS
from tfbaselines.loading import lazily

# Default number of traces in a batch.
BATCH_SIZE = 32


@dataclass(kw_only=True)
class Config(PolicyConfig):
    """Arguments of ACER."""

    seed: int | None
    nsteps: int = arg(20, "steps of each environment in a rollout, and in a replayed sequence", at_least=1, limit=STEPS)
    total_timesteps: float = arg(80e6, "environment steps of this rank, over all workers", at_least=0, limit=TIMESTEPS)
    q_coef: Coefficient = arg(0.5, "coefficient of the loss of Q", at_least=0)
    ent_coef: Coefficient = arg(0.01, "entropy coefficient")
    max_grad_norm: float | None = arg(10.0, "gradient clipping by the global norm; None for none", above=0)
    lr: Schedule = arg(7e-4, "learning rate", at_least=0)
    lrschedule: str | Callable[[float], float] = arg(
        "linear",
        "schedule of the learning rate, unless lr is a schedule itself",
        choices=tuple(FRACTION_SCHEDULES),
    )
    rprop_epsilon: float = arg(1e-5, "RMSProp's epsilon, inside the square root", at_least=0)
    rprop_alpha: float = arg(0.99, "decay rate of RMSProp's mean square", at_least=0, at_most=1)
    gamma: Coefficient
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
    load_path: str | None
    save_interval: int
    value_network: NetworkSpec | None
    normalize_observations: bool
    reward_clip: float | None = arg(None, "bound of the rewards' magnitude; None for no clipping", at_least=0)
    buffer_len: int | None = arg(
        None, "size of the replay buffer in episodes, in place of buffer_size (trace mode)", at_least=1
    )
    batch_size: int = arg(BATCH_SIZE, "minibatch size in traces (trace mode)", at_least=1, limit=ROWS)
    trace_length: int | None = arg(
        None, "steps of a trace, cut from an episode; None for whole episodes", at_least=1, limit=COUNT
    )
    num_workers: int = arg(
        1,
        "threads that collect and train one model; runs with several are not reproducible bit by bit",
        at_least=1,
        limit=256,
    )
    lock: bool = arg(True, "workers change the parameters one at a time; False for no lock (Hogwild)")
    comm: Any
    run: RunOptions | None

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
        if self.replay_ratio and self.buffer_len is None and self.replay_start > self.buffer_size:
            accepted = f"at most buffer_size={self.buffer_size}, or nothing is replayed"
            raise bad_argument("replay_start", self.replay_start, accepted)


ALGORITHM = Algorithm(
    name="acer",
    config=Config,
    summary="actor-critic with experience replay (Wang et al. 2017)",
    actions=("Discrete", "Box"),
    packed_observations=True,
)

__getattr__ = lazily("tfbaselines.algs.acer.acer")
