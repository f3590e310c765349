"""Arguments that several algorithms share.

A family has a Config below `Config`; what only some of its members take is a class of its own beside it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tfbaselines.config.config import DEFAULT_TIMESTEPS, Coefficient, Config, Declared, NetworkSpec, Schedule, arg
from tfbaselines.errors import bad_argument
from tfbaselines.limits import COUNT, PASSES, ROWS, SEED, STEPS, UNITS

OWN_VALUE_NETWORK = (
    "'copy' for a network of its own of the policy's kind, None or 'shared' for a value head on the policy's "
    "network, another network's name, or a builder"
)


@dataclass(kw_only=True)
class RolloutConfig(Declared):
    """Arguments of algorithms with a policy and a value function, whose updates begin with a rollout."""

    gamma: Coefficient = arg(0.99, "discount per step", at_least=0, at_most=1)
    value_network: NetworkSpec | None = arg(
        None,
        "None or 'shared' for a value head on the policy's network, 'copy' for a network of its own of the same kind, "
        "another network's name, or a builder",
    )
    normalize_observations: bool = arg(
        False, "scale observations by a running mean and deviation kept inside the policy"
    )


@dataclass(kw_only=True)
class PolicyConfig(RolloutConfig, Config):
    """Arguments of algorithms whose rollouts have nsteps steps of each environment."""

    nsteps: int = arg(128, "steps of each environment in an update", at_least=1, limit=STEPS)
    log_interval: int = arg(1, "updates between rows of the logs", at_least=1)
    save_interval: int = arg(0, "updates between checkpoints; 0 for only the last", at_least=0)


@dataclass(kw_only=True)
class OnPolicyConfig(Declared):
    """Arguments of those that learn from these rollouts alone."""

    eval_env: Any = arg(None, "environments on which the policy is also run, for the logs")
    max_total_reward: float | None = arg(
        None, "mean return of the latest 100 episodes at which training stops; None for no such bound"
    )


@dataclass(kw_only=True)
class BatchConfig(RolloutConfig, Config, ABC):
    """Arguments of baselines' algorithms whose updates take a batch; the first limit ends a run."""

    total_timesteps: float | None = arg(
        None,
        "environment steps of this rank; None or 0 for no limit where there is another; None alone: 1e6",
        at_least=0,
    )
    max_episodes: int = arg(0, "episodes of all ranks after which the run ends; 0 for no limit", at_least=0)
    max_iters: int = arg(0, "updates after which the run ends; 0 for no limit", at_least=0)
    lam: Coefficient = arg(1.0, "weight of longer advantage estimates (GAE)", at_least=0, at_most=1)
    value_network: NetworkSpec | None = arg("copy", OWN_VALUE_NETWORK)
    save_interval: int = arg(0, "updates between checkpoints; 0 for only the last", at_least=0)
    callback: Callable[[dict[str, Any], dict[str, Any]], Any] | None = arg(
        None, "called before each update as callback(locals, globals), with the run and its counters by name in locals"
    )

    @property
    @abstractmethod
    def batch_steps(self) -> int:
        """Environment steps of this rank in an update."""

    @property
    def seconds(self) -> float:
        """Seconds after which the run ends; 0 for no limit."""
        return 0.0

    @property
    def timesteps(self) -> float | None:
        """Environment steps of this rank, as given."""
        return self.total_timesteps

    def most_timesteps(self, steps_per_update: int) -> int | None:
        """Return the environment steps of this rank after which the run ends; None for no limit.

        Args:
            steps_per_update: environment steps of this rank in an update.
        """
        others = self.max_episodes or self.max_iters or self.seconds
        if self.timesteps is None and not others:
            return int(DEFAULT_TIMESTEPS)
        limits = [int(self.timesteps)] if self.timesteps or not others else []
        return min([*limits, *([self.max_iters * steps_per_update] if self.max_iters else [])], default=None)


@dataclass(kw_only=True)
class TrustRegionConfig(Declared):
    """Arguments of TRPO's step in baselines' algorithms, beside BatchConfig."""

    timesteps_per_batch: int = arg(
        1024, "steps of all environments of this rank in a step of the policy", at_least=1, limit=STEPS
    )
    max_kl: float = arg(1e-3, "KL divergence of a step", above=0)
    cg_iters: int = arg(10, "iterations of the conjugate gradient", at_least=1, limit=PASSES)
    cg_damping: float = arg(1e-2, "added to the diagonal of the Fisher matrix", at_least=0)
    vf_stepsize: Coefficient = arg(3e-4, "learning rate of the value function", at_least=0)
    vf_iters: int = arg(3, "passes of the value function over each batch", at_least=0, limit=COUNT)

    @property
    def batch_steps(self) -> int:
        return self.timesteps_per_batch


@dataclass(kw_only=True)
class EpochConfig(RolloutConfig, Config):
    """Arguments of Spinning Up's on-policy algorithms, which learn once an epoch."""

    total_timesteps: float | None = arg(None, "environment steps of this rank; None for all epochs", at_least=0)
    eval_env: Any = arg(None, "environments for tests; the command line makes them itself")
    num_test_episodes: int = arg(10, "episodes of a test at an epoch's end; 0 for no tests", at_least=0)
    seed: int | None = arg(0, "seed of everything random; None for a different run each time", at_least=0, limit=SEED)
    steps_per_epoch: int = arg(4000, "environment steps of all ranks in an epoch", at_least=1, limit=10**9)
    epochs: int = arg(
        50, "number of epochs, unless total_timesteps (--num_timesteps) is given", at_least=0, limit=10**9
    )
    lam: Coefficient = arg(0.97, "weight of longer advantage estimates (GAE)", at_least=0, at_most=1)
    vf_lr: Schedule = arg(1e-3, "learning rate of the value function", at_least=0)
    train_v_iters: int = arg(80, "gradient steps of the value function in an epoch", at_least=0, limit=COUNT)
    max_ep_len: int | None = arg(
        1000, "steps after which an episode is truncated; None for the environment's own limit", at_least=1
    )
    logger_kwargs: dict[str, Any] | None = arg(
        None, "output_dir, output_fname and exp_name of Spinning Up's table; by default the log directory"
    )
    save_freq: int = arg(10, "epochs between checkpoints; 0 for only the last", at_least=0)
    value_network: NetworkSpec | None = arg("copy", OWN_VALUE_NETWORK)


@dataclass(kw_only=True)
class ReplayConfig(Config):
    """Arguments of algorithms that learn from a replay of single steps.

    The run also reads `replay_size`, `start_steps`, `update_after` and `num_test_episodes`: arguments, or properties
    where an algorithm has other names for them.
    """

    eval_env: Any = arg(None, "environments for tests; the command line makes them itself")
    gamma: float = arg(0.99, "discount per step", at_least=0, at_most=1)
    batch_size: int = arg(100, "transitions, or sequences, in a gradient step", at_least=1, limit=ROWS)
    max_ep_len: int | None = arg(
        1000, "steps after which an episode is truncated; None for the environment's own limit", at_least=1
    )
    save_replay_buffer: bool = arg(True, "save the replay beside the checkpoints")


@dataclass(kw_only=True)
class SpinupReplayConfig(Declared):
    """Spinning Up's names for the replay's size and for when learning begins, beside ReplayConfig."""

    total_timesteps: float | None = arg(None, "environment steps of this rank; None for all epochs", at_least=0)
    num_test_episodes: int = arg(10, "episodes of a test at an epoch's end; 0 for no tests", at_least=0)
    n_step: int = arg(1, "steps of reward in a return before it bootstraps", at_least=1, limit=PASSES)
    replay_size: float = arg(1e6, "transitions kept in the replay", at_least=1)
    start_steps: int = arg(10000, "environment steps with random actions", at_least=0)
    update_after: int = arg(1000, "transitions in the replay before the first gradient step", at_least=0)

    def check(self) -> None:
        super().check()
        if self.update_after > self.replay_size:
            accepted = f"at most replay_size={int(self.replay_size)}, or nothing is learned"
            raise bad_argument("update_after", self.update_after, accepted)


@dataclass(kw_only=True)
class OffPolicyConfig(SpinupReplayConfig):
    """Spinning Up's names for the course of a run, and what actor and critics are built from."""

    seed: int | None = arg(0, "seed of everything random; None for a different run each time", at_least=0, limit=SEED)
    steps_per_epoch: int = arg(4000, "environment steps between tests and rows of the logs", at_least=1, limit=10**9)
    epochs: int = arg(
        100, "number of epochs, unless total_timesteps (--num_timesteps) is given", at_least=0, limit=10**9
    )
    polyak: float = arg(0.995, "share of the targets kept in each of their steps", at_least=0, at_most=1)
    update_every: int = arg(50, "environment steps between blocks of gradient steps", at_least=1, limit=ROWS)
    num_update: int | None = arg(
        None,
        "gradient steps in a block; None for as many as there were environment steps",
        at_least=0,
        limit=COUNT,
    )
    logger_kwargs: dict[str, Any] | None = arg(
        None, "output_dir, output_fname and exp_name of Spinning Up's table; by default the log directory"
    )
    save_freq: int = arg(1, "epochs between checkpoints; 0 for only the last", at_least=0)
    memory_size: int | None = arg(
        None,
        "width of the memory of the actor and of the critics, two for every unit of an LSTM; None for no memory",
        limit=UNITS,
    )
    sequence_length: int = arg(64, "steps of the replayed sequences, with memory", at_least=1, limit=COUNT)
    vis_encode_type: str = arg(
        "simple", "encoder of images below a dense network", choices=("simple", "nature_cnn", "resnet")
    )
    normalize_observations: bool = arg(
        False,
        "scale observations by a running mean and deviation kept inside the policy; offline by those of the data set",
    )
    offline: str | None = arg(
        None,
        "learn from a data set alone, a gradient step in place of every environment step: a file of `python -m "
        "tfbaselines.record`, baselines' expert npz, or minari:ID",
    )
    replay: str = arg(
        "uniform",
        "'uniform', or 'hindsight' for environments with goals: most transitions with one that the episode achieves "
        "later",
        choices=("uniform", "hindsight"),
    )
    replay_k: float | None = arg(
        None,
        "of replay='hindsight': transitions with a new goal for each with its own; None for 4",
        at_least=0,
        limit=COUNT,
    )

    def check(self) -> None:
        super().check()
        if self.replay_k is not None and self.replay != "hindsight":
            raise bad_argument("replay_k", self.replay_k, "needs replay='hindsight'")
        if self.replay == "hindsight" and self.offline is not None:
            raise bad_argument("replay", self.replay, "'uniform' with offline: data sets have no goals")
        if self.replay == "hindsight" and self.n_step != 1:
            raise bad_argument("n_step", self.n_step, "1 with replay='hindsight', which changes rewards step by step")

    def check_offline(self, *names: str) -> None:
        """Refuse arguments that only count offline when they are given without it; None means not given."""
        for name in names:
            if self.offline is None and getattr(self, name) is not None:
                raise bad_argument(name, getattr(self, name), "needs offline")


@dataclass(kw_only=True)
class SearchConfig(Config):
    """Arguments of algorithms whose iterations are whole episodes."""

    total_timesteps: float | None = arg(
        None, "environment steps of this rank, after which no iteration begins; None for all iterations", at_least=0
    )
    eval_env: Any = arg(None, "environments for tests; the command line makes them itself")
    num_iterations: int = arg(
        1000, "number of iterations, unless total_timesteps (--num_timesteps) is given", at_least=0
    )
    test_every: int = arg(10, "iterations between tests; another test comes at the end", at_least=1)
    num_test_episodes: int = arg(5, "episodes of a test; 0 for no tests", at_least=0)
    stop_max_score: float | None = arg(
        None,
        "mean return of a test, or without tests of the latest 100 episodes, at which training stops; None for no "
        "such bound",
    )
    max_ep_len: int | None = arg(
        None, "steps after which an episode is truncated; None for the environment's own limit", at_least=1
    )
    log_interval: int = arg(1, "updates between rows of the logs", at_least=1)
    save_interval: int = arg(0, "updates between checkpoints; 0 for only the last", at_least=0)


@dataclass(kw_only=True)
class DemonstrationConfig(Declared):
    """Arguments of algorithms that learn from demonstrations."""

    demo_path: str | None = arg(
        None, "demonstrations: a file of `python -m tfbaselines.record`, baselines' expert npz, or minari:ID"
    )
    traj_limitation: int | None = arg(None, "the first episodes of it that are used; None for all", at_least=1)
    subsample: int = arg(1, "every how many steps of an episode one is used", at_least=1)
