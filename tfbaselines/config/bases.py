"""Arguments that several algorithms share.

A family of algorithms has a subclass of `Config`. Arguments of some members only are mixin classes of `Declared`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from tfbaselines.config.config import DEFAULT_TIMESTEPS, Coefficient, Config, Declared, NetworkSpec, Schedule, arg
from tfbaselines.config.schedules import FRACTION_SCHEDULES
from tfbaselines.errors import bad_argument
from tfbaselines.limits import COUNT, PASSES, ROWS, STEPS, TIMESTEPS, UNITS

MAX_EP_LEN = "largest number of steps in an episode, then truncated; None for the environment's own limit"


@dataclass(kw_only=True)
class EpisodeReturn(Declared):
    """A limit of an episode's return."""

    max_ep_reward: float | None = arg(
        None, "return at which an episode is truncated, rlib's max_total_reward of an episode; None for no such limit"
    )


@dataclass(kw_only=True)
class EpisodeLimits(EpisodeReturn):
    """Limits of an episode's return and length, for algorithms that the originals gave neither."""

    max_ep_len: int | None = arg(None, MAX_EP_LEN, at_least=1)


@dataclass(kw_only=True)
class PreviousAction(Declared):
    """The previous action as an input of memory."""

    prev_action: bool = arg(
        False,
        "the previous action is an input of the networks, for policies with memory; zeros at an episode's start",
    )


@dataclass(kw_only=True)
class RolloutConfig(Config):
    """Arguments of on-policy algorithms: discount, value network, normalization of observations."""

    gamma: Coefficient = arg(0.99, "discount factor", at_least=0, at_most=1, after="total_timesteps")
    value_network: NetworkSpec | None = arg(
        None,
        "network of the value function: None or 'shared' for a value head on the policy's network, 'copy' for a second "
        "network of the same kind, the name of another network, or a builder",
        after="load_path",
    )
    normalize_observations: bool = arg(
        False, "normalize observations by a running mean and standard deviation, saved with the policy"
    )
    init_logstd: float = arg(0.0, "initial log standard deviation of Gaussian actions", after="run")
    ortho_init: bool = arg(
        True, "orthogonal initialization of the networks; False for uniform weights within 1 / sqrt(inputs), as PyTorch"
    )

    moved: ClassVar = {"": "seed"}


@dataclass(kw_only=True)
class PolicyConfig(RolloutConfig):
    """Arguments of algorithms that collect rollouts of nsteps steps of each environment."""

    nsteps: int = arg(128, "steps of each environment in a rollout", at_least=1, limit=STEPS, after="seed")
    log_interval: int = arg(1, "updates between rows of the logs", at_least=1, after="gamma")
    save_interval: int = arg(0, "updates between checkpoints; 0 for only the last", at_least=0, after="load_path")

    update_arguments: ClassVar = ("nsteps",)


@dataclass(kw_only=True)
class OnPolicyConfig(Declared):
    """Arguments of algorithms that learn from the latest rollout alone."""

    max_total_reward: float | None = arg(
        None,
        "stop training when the mean return of the latest 100 episodes reaches this value; None to go on",
        after="normalize_observations",
    )
    eval_env: Any = arg(None, "environments for evaluation: the policy also runs in them, for the logs")


@dataclass(kw_only=True)
class ActorCriticConfig(PolicyConfig):
    """Arguments of A2C, ACER and ACKTR."""

    total_timesteps: float = 80e6
    ent_coef: Coefficient = arg(0.01, "entropy coefficient in the loss")
    max_grad_norm: float | None = arg(0.5, "gradient clipping by the global norm; None for none", above=0)
    lr: Schedule = arg(7e-4, "learning rate", at_least=0)
    lrschedule: str | Callable[[float], float] = arg(
        "linear", "schedule of the learning rate, unless lr is a schedule itself", choices=tuple(FRACTION_SCHEDULES)
    )
    log_interval: int = 100


@dataclass(kw_only=True)
class BatchConfig(RolloutConfig, ABC):
    """Arguments of baselines' algorithms with several limits on a run; the first limit reached ends it."""

    total_timesteps: float | None = arg(
        None,
        "environment steps of this rank; None or 0 for no limit if another limit is given, else None is 1e6",
        at_least=0,
        limit=TIMESTEPS,
    )
    max_episodes: int = arg(0, "largest number of episodes, of all ranks; 0 for no limit", at_least=0)
    max_iters: int = arg(0, "largest number of updates; 0 for no limit", at_least=0)
    callback: Callable[[dict[str, Any], dict[str, Any]], Any] | None = arg(
        None, "function called before each update as callback(locals, globals); locals has the run and its counters"
    )
    lam: Coefficient = arg(1.0, "GAE lambda", at_least=0, at_most=1)
    value_network: NetworkSpec | None = "copy"
    save_interval: int = arg(0, "updates between checkpoints; 0 for only the last", at_least=0, after="load_path")

    moved: ClassVar = {"": "gamma lam", "max_iters": "seed"}
    length_arguments: ClassVar = ("max_episodes", "max_iters")

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
class TrustRegionConfig(BatchConfig):
    """Arguments of TRPO's policy step in baselines' algorithms."""

    timesteps_per_batch: int = arg(
        1024, "steps of all environments of this rank in a policy step", at_least=1, limit=STEPS, after=""
    )
    max_kl: Coefficient = arg(1e-3, "bound of the mean KL divergence of a policy step", above=0)
    cg_iters: int = arg(10, "conjugate gradient iterations", at_least=1, limit=PASSES)
    cg_damping: float = arg(1e-2, "damping coefficient added to the diagonal of the Fisher matrix", at_least=0)
    vf_stepsize: Coefficient = arg(3e-4, "learning rate of the value function", at_least=0, after="lam")
    vf_iters: int = arg(3, "epochs of value function training on each batch", at_least=0, limit=COUNT)

    update_arguments: ClassVar = ("timesteps_per_batch",)

    @property
    def batch_steps(self) -> int:
        return self.timesteps_per_batch


@dataclass(kw_only=True)
class EvaluatedConfig(Config):
    """Arguments of algorithms that evaluate the policy in whole episodes."""

    eval_env: Any = arg(
        None, "environments for evaluation; the command line makes them itself", after="total_timesteps"
    )
    max_ep_len: int | None = arg(None, MAX_EP_LEN, at_least=1)

    moved: ClassVar = {"": "seed"}


@dataclass(kw_only=True)
class SpinupConfig(EvaluatedConfig):
    """Arguments of a run in epochs, by Spinning Up's names."""

    seed: int | None = 0
    total_timesteps: float | None = arg(
        None, "environment steps of this rank; None for all epochs", at_least=0, limit=TIMESTEPS
    )
    steps_per_epoch: int = arg(
        4000, "environment steps between tests and rows of the logs", at_least=1, limit=10**9, after="eval_env"
    )
    epochs: int = arg(
        100, "number of epochs, unless total_timesteps (--num_timesteps) is given", at_least=0, limit=10**9
    )
    num_test_episodes: int = arg(10, "evaluation episodes at the end of each epoch; 0 for no evaluation", at_least=0)
    max_ep_len: int | None = 1000
    logger_kwargs: dict[str, Any] | None = arg(
        None, "output_dir, output_fname and exp_name of Spinning Up's logger; by default the log directory"
    )
    save_freq: int = arg(1, "epochs between checkpoints; 0 for only the last", at_least=0)

    length_arguments: ClassVar = ("epochs",)


@dataclass(kw_only=True)
class EpochConfig(SpinupConfig, RolloutConfig):
    """Arguments of Spinning Up's on-policy algorithms, with one update per epoch."""

    steps_per_epoch: int = arg(4000, "environment steps of all ranks in an epoch", at_least=1, limit=10**9)
    epochs: int = 50
    vf_lr: Schedule = arg(1e-3, "learning rate of the value function", at_least=0)
    train_v_iters: int = arg(80, "gradient steps of the value function per epoch", at_least=0, limit=COUNT)
    lam: Coefficient = arg(0.97, "GAE lambda", at_least=0, at_most=1)
    save_freq: int = 10
    value_network: NetworkSpec | None = "copy"
    init_logstd: float = -0.5

    update_arguments: ClassVar = ("steps_per_epoch",)
    moved: ClassVar = {
        "epochs": "gamma",
        "save_freq": "total_timesteps eval_env num_test_episodes value_network normalize_observations",
    }
    env_defaults: ClassVar = {
        "all": {"network": "dense", "hidden_sizes": [64, 64], "activation": "tanh"},
        "atari": {"network": "cnn"},
        "retro": {"network": "cnn"},
    }


@dataclass(kw_only=True)
class ReplayConfig(EvaluatedConfig):
    """Arguments of algorithms with a replay buffer.

    The run also reads `replay_size`, `start_steps`, `update_after` and `num_test_episodes`. These are arguments, or
    properties where an algorithm has other names for them.
    """

    batch_size: int = arg(64, "minibatch size in transitions", at_least=1, limit=ROWS, after="total_timesteps")
    gamma: float = arg(0.99, "discount factor", at_least=0, at_most=1)
    save_replay_buffer: bool = arg(True, "save the replay buffer with the checkpoints", after="max_ep_len")


@dataclass(kw_only=True)
class BufferConfig(ReplayConfig):
    """Size of the replay buffer by baselines' name."""

    buffer_size: float = arg(
        1e6, "size of the replay buffer in transitions", at_least=1, limit=TIMESTEPS, after="total_timesteps"
    )

    @property
    def replay_size(self) -> float:
        """Name of buffer_size in OffPolicyRun."""
        return self.buffer_size

    @property
    def start_steps(self) -> int:
        """Uniform random steps at the start: none, the algorithm explores from the first step."""
        return 0


@dataclass(kw_only=True)
class SpinupReplayConfig(ReplayConfig):
    """Size of the replay buffer and start of learning by Spinning Up's names."""

    replay_size: float = arg(
        1e6, "size of the replay buffer in transitions", at_least=1, limit=TIMESTEPS, after="eval_env"
    )
    start_steps: int = arg(10000, "environment steps with uniform random actions at the start", at_least=0)
    update_after: int = arg(1000, "transitions in the replay buffer before the first gradient step", at_least=0)
    n_step: int = arg(1, "n of n-step returns", at_least=1, limit=PASSES, after="max_ep_len")

    def check(self) -> None:
        super().check()
        if self.update_after > self.replay_size:
            accepted = f"at most replay_size={int(self.replay_size)}, or nothing is learned"
            raise bad_argument("update_after", self.update_after, accepted)


@dataclass(kw_only=True)
class OffPolicyConfig(SpinupConfig, SpinupReplayConfig):
    """Arguments of SAC and TD3: actor and critics, offline learning, hindsight replay."""

    batch_size: int = arg(100, "minibatch size: transitions, or sequences with memory", at_least=1, limit=ROWS)
    polyak: float = arg(0.995, "Polyak averaging coefficient of the target networks", at_least=0, at_most=1)
    update_every: int = arg(50, "environment steps between blocks of gradient steps", at_least=1, limit=ROWS)
    num_update: int | None = arg(
        None,
        "gradient steps in a block; None for as many as environment steps",
        at_least=0,
        limit=COUNT,
        after="save_freq",
    )
    memory_size: int | None = arg(
        None,
        "size of the recurrent state of actor and critics, twice the units of the LSTM; None for no memory",
        limit=UNITS,
        after="n_step",
    )
    sequence_length: int = arg(64, "length of the replayed sequences with memory", at_least=1, limit=COUNT)
    vis_encode_type: str = arg(
        "simple", "image encoder in front of a dense network", choices=("simple", "nature_cnn", "resnet")
    )
    normalize_observations: bool = arg(
        False,
        "normalize observations by a running mean and standard deviation, saved with the policy; offline by those of "
        "the data set",
    )
    replay: str = arg(
        "uniform",
        "replay strategy: 'uniform', or 'hindsight' to relabel most transitions with a goal that the episode achieves "
        "later (environments with goals)",
        choices=("uniform", "hindsight"),
        after="run",
    )
    replay_k: float | None = arg(
        None, "ratio of relabeled to original transitions with replay='hindsight'; None for 4", at_least=0, limit=COUNT
    )
    offline: str | None = arg(
        None,
        "data set to learn from without environment steps, with a gradient step for each step of the run: a file of "
        "`python -m tfbaselines.record`, baselines' expert npz, a directory of such files, or minari:ID",
    )
    critics: int = arg(2, "number of critics; targets and actor take their minimum", at_least=1, limit=COUNT)
    critic_layer_norm: bool = arg(False, "layer normalization in the critics' hidden layers")

    update_arguments: ClassVar = ("update_every",)
    moved: ClassVar = {"replay_size": "gamma polyak batch_size", "update_after": "update_every num_test_episodes"}
    env_defaults: ClassVar = {"all": {"network": "dense"}}

    def check(self) -> None:
        super().check()
        if self.replay_k is not None and self.replay != "hindsight":
            raise bad_argument("replay_k", self.replay_k, "needs replay='hindsight'")
        if self.replay == "hindsight" and self.offline is not None:
            raise bad_argument("replay", self.replay, "'uniform' with offline: data sets have no goals")
        if self.replay == "hindsight" and self.n_step != 1:
            raise bad_argument("n_step", self.n_step, "1 with replay='hindsight', which changes rewards step by step")

    @property
    def run_steps(self) -> int:
        """Environment steps of each rank in the run."""
        return int(self.epochs * self.steps_per_epoch if self.total_timesteps is None else self.total_timesteps)

    def check_needs(self, what: str, *names: str) -> None:
        """Refuse values of arguments, other than the defaults, that need something else."""
        for name in names:
            if getattr(self, name) != self.arguments()[name].default:
                raise bad_argument(name, getattr(self, name), f"needs {what}")


@dataclass(kw_only=True)
class SearchConfig(EvaluatedConfig):
    """Arguments of algorithms with iterations of whole episodes."""

    total_timesteps: float | None = arg(
        None,
        "environment steps of this rank, after which no iteration starts; None for all iterations",
        at_least=0,
        limit=TIMESTEPS,
    )
    num_iterations: int = arg(
        1000, "number of iterations, unless total_timesteps (--num_timesteps) is given", at_least=0, after=""
    )
    test_every: int = arg(10, "iterations between evaluations; another one follows at the end", at_least=1)
    num_test_episodes: int = arg(5, "episodes of an evaluation; 0 for no evaluation", at_least=0)
    stop_max_score: float | None = arg(
        None,
        "stop training when the mean return of an evaluation, or without evaluations of the latest 100 episodes, "
        "reaches this value; None to go on",
    )
    log_interval: int = arg(1, "updates between rows of the logs", at_least=1, after="run")
    save_interval: int = arg(0, "updates between checkpoints; 0 for only the last", at_least=0)

    moved: ClassVar = {"num_test_episodes": "max_ep_len", "run": "eval_env"}
    length_arguments: ClassVar = ("num_iterations",)


@dataclass(kw_only=True)
class DemonstrationConfig(Declared):
    """Arguments of algorithms that learn from demonstrations."""

    demo_path: str | None = arg(
        None,
        "demonstrations: a file of `python -m tfbaselines.record`, baselines' expert npz, a directory of such files, "
        "or minari:ID",
        after="",
    )
    traj_limitation: int | None = arg(
        None, "number of demonstrated episodes to use, from the first; None for all", at_least=1
    )
    subsample: int = arg(1, "use every n-th step of a demonstrated episode", at_least=1)
