"""Arguments that several algorithms share.

A family of algorithms has a subclass of `Config`. Arguments of some members only are mixin classes of `Declared`.
Groups of arguments are reward signals (a dict of dicts) and pretraining (a dict), both also as JSON text.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tfbaselines.config.config import (
    DEFAULT_TIMESTEPS,
    Coefficient,
    Config,
    Declared,
    NetworkSpec,
    Schedule,
    arg,
    declared_of,
    mapping_of,
)
from tfbaselines.errors import bad_argument, unknown
from tfbaselines.limits import COUNT, PASSES, ROWS, SEED, STEPS, TIMESTEPS, UNITS

OWN_VALUE_NETWORK = (
    "network of the value function: 'copy' for a second network of the policy's kind, None or 'shared' for a value "
    "head on the policy's network, the name of another network, or a builder"
)


@dataclass(kw_only=True)
class RolloutConfig(Declared):
    """Arguments of on-policy algorithms: discount, value network, normalization of observations."""

    gamma: Coefficient = arg(0.99, "discount factor", at_least=0, at_most=1)
    value_network: NetworkSpec | None = arg(
        None,
        "network of the value function: None or 'shared' for a value head on the policy's network, 'copy' for a second "
        "network of the same kind, the name of another network, or a builder",
    )
    normalize_observations: bool = arg(
        False, "normalize observations by a running mean and standard deviation, saved with the policy"
    )


@dataclass(kw_only=True)
class PolicyConfig(RolloutConfig, Config):
    """Arguments of algorithms that collect rollouts of nsteps steps of each environment."""

    nsteps: int = arg(128, "steps of each environment in a rollout", at_least=1, limit=STEPS)
    log_interval: int = arg(1, "updates between rows of the logs", at_least=1)
    save_interval: int = arg(0, "updates between checkpoints; 0 for only the last", at_least=0)


@dataclass(kw_only=True)
class OnPolicyConfig(Declared):
    """Arguments of algorithms that learn from the latest rollout alone."""

    eval_env: Any = arg(None, "environments for evaluation: the policy also runs in them, for the logs")
    max_total_reward: float | None = arg(
        None, "stop training when the mean return of the latest 100 episodes reaches this value; None to go on"
    )


@dataclass(kw_only=True)
class BatchConfig(RolloutConfig, Config, ABC):
    """Arguments of baselines' algorithms with several limits on a run; the first limit reached ends it."""

    total_timesteps: float | None = arg(
        None,
        "environment steps of this rank; None or 0 for no limit if another limit is given, else None is 1e6",
        at_least=0,
        limit=TIMESTEPS,
    )
    max_episodes: int = arg(0, "largest number of episodes, of all ranks; 0 for no limit", at_least=0)
    max_iters: int = arg(0, "largest number of updates; 0 for no limit", at_least=0)
    lam: Coefficient = arg(1.0, "GAE lambda", at_least=0, at_most=1)
    value_network: NetworkSpec | None = arg("copy", OWN_VALUE_NETWORK)
    save_interval: int = arg(0, "updates between checkpoints; 0 for only the last", at_least=0)
    callback: Callable[[dict[str, Any], dict[str, Any]], Any] | None = arg(
        None, "function called before each update as callback(locals, globals); locals has the run and its counters"
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
    """Arguments of TRPO's policy step in baselines' algorithms, in addition to BatchConfig."""

    timesteps_per_batch: int = arg(
        1024, "steps of all environments of this rank in a policy step", at_least=1, limit=STEPS
    )
    max_kl: float = arg(1e-3, "bound of the mean KL divergence of a policy step", above=0)
    cg_iters: int = arg(10, "conjugate gradient iterations", at_least=1, limit=PASSES)
    cg_damping: float = arg(1e-2, "damping coefficient added to the diagonal of the Fisher matrix", at_least=0)
    vf_stepsize: Coefficient = arg(3e-4, "learning rate of the value function", at_least=0)
    vf_iters: int = arg(3, "epochs of value function training on each batch", at_least=0, limit=COUNT)

    @property
    def batch_steps(self) -> int:
        return self.timesteps_per_batch


@dataclass(kw_only=True)
class EpochConfig(RolloutConfig, Config):
    """Arguments of Spinning Up's on-policy algorithms, with one update per epoch."""

    total_timesteps: float | None = arg(
        None, "environment steps of this rank; None for all epochs", at_least=0, limit=TIMESTEPS
    )
    eval_env: Any = arg(None, "environments for evaluation; the command line makes them itself")
    num_test_episodes: int = arg(10, "evaluation episodes at the end of each epoch; 0 for no evaluation", at_least=0)
    seed: int | None = arg(0, "seed of everything random; None for a different run each time", at_least=0, limit=SEED)
    steps_per_epoch: int = arg(4000, "environment steps of all ranks in an epoch", at_least=1, limit=10**9)
    epochs: int = arg(
        50, "number of epochs, unless total_timesteps (--num_timesteps) is given", at_least=0, limit=10**9
    )
    lam: Coefficient = arg(0.97, "GAE lambda", at_least=0, at_most=1)
    vf_lr: Schedule = arg(1e-3, "learning rate of the value function", at_least=0)
    train_v_iters: int = arg(80, "gradient steps of the value function per epoch", at_least=0, limit=COUNT)
    max_ep_len: int | None = arg(
        1000, "largest number of steps in an episode, then truncated; None for the environment's own limit", at_least=1
    )
    logger_kwargs: dict[str, Any] | None = arg(
        None, "output_dir, output_fname and exp_name of Spinning Up's logger; by default the log directory"
    )
    save_freq: int = arg(10, "epochs between checkpoints; 0 for only the last", at_least=0)
    value_network: NetworkSpec | None = arg("copy", OWN_VALUE_NETWORK)


@dataclass(kw_only=True)
class ReplayConfig(Config):
    """Arguments of algorithms with a replay buffer.

    The run also reads `replay_size`, `start_steps`, `update_after` and `num_test_episodes`. These are arguments, or
    properties where an algorithm has other names for them.
    """

    eval_env: Any = arg(None, "environments for evaluation; the command line makes them itself")
    gamma: float = arg(0.99, "discount factor", at_least=0, at_most=1)
    batch_size: int = arg(100, "minibatch size: transitions, or sequences with memory", at_least=1, limit=ROWS)
    max_ep_len: int | None = arg(
        1000, "largest number of steps in an episode, then truncated; None for the environment's own limit", at_least=1
    )
    save_replay_buffer: bool = arg(True, "save the replay buffer with the checkpoints")


@dataclass(kw_only=True)
class SpinupReplayConfig(Declared):
    """Arguments by Spinning Up's names: size of the replay buffer and start of learning."""

    total_timesteps: float | None = arg(
        None, "environment steps of this rank; None for all epochs", at_least=0, limit=TIMESTEPS
    )
    num_test_episodes: int = arg(10, "evaluation episodes at the end of each epoch; 0 for no evaluation", at_least=0)
    n_step: int = arg(1, "n of n-step returns", at_least=1, limit=PASSES)
    replay_size: float = arg(1e6, "size of the replay buffer in transitions", at_least=1, limit=TIMESTEPS)
    start_steps: int = arg(10000, "environment steps with uniform random actions at the start", at_least=0)
    update_after: int = arg(1000, "transitions in the replay buffer before the first gradient step", at_least=0)

    def check(self) -> None:
        super().check()
        if self.update_after > self.replay_size:
            accepted = f"at most replay_size={int(self.replay_size)}, or nothing is learned"
            raise bad_argument("update_after", self.update_after, accepted)


@dataclass(kw_only=True)
class OffPolicyConfig(SpinupReplayConfig):
    """Arguments by Spinning Up's names: course of a run, actor and critics, offline learning, hindsight replay."""

    seed: int | None = arg(0, "seed of everything random; None for a different run each time", at_least=0, limit=SEED)
    steps_per_epoch: int = arg(4000, "environment steps between tests and rows of the logs", at_least=1, limit=10**9)
    epochs: int = arg(
        100, "number of epochs, unless total_timesteps (--num_timesteps) is given", at_least=0, limit=10**9
    )
    polyak: float = arg(0.995, "Polyak averaging coefficient of the target networks", at_least=0, at_most=1)
    update_every: int = arg(50, "environment steps between blocks of gradient steps", at_least=1, limit=ROWS)
    num_update: int | None = arg(
        None,
        "gradient steps in a block; None for as many as environment steps",
        at_least=0,
        limit=COUNT,
    )
    logger_kwargs: dict[str, Any] | None = arg(
        None, "output_dir, output_fname and exp_name of Spinning Up's logger; by default the log directory"
    )
    save_freq: int = arg(1, "epochs between checkpoints; 0 for only the last", at_least=0)
    memory_size: int | None = arg(
        None,
        "size of the recurrent state of actor and critics, twice the units of the LSTM; None for no memory",
        limit=UNITS,
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
    offline: str | None = arg(
        None,
        "data set to learn from without environment steps, with a gradient step for each step of the run: a file of "
        "`python -m tfbaselines.record`, baselines' expert npz, or minari:ID",
    )
    replay: str = arg(
        "uniform",
        "replay strategy: 'uniform', or 'hindsight' to relabel most transitions with a goal that the episode achieves "
        "later (environments with goals)",
        choices=("uniform", "hindsight"),
    )
    replay_k: float | None = arg(
        None,
        "ratio of relabeled to original transitions with replay='hindsight'; None for 4",
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
    """Arguments of algorithms with iterations of whole episodes."""

    total_timesteps: float | None = arg(
        None,
        "environment steps of this rank, after which no iteration starts; None for all iterations",
        at_least=0,
        limit=TIMESTEPS,
    )
    eval_env: Any = arg(None, "environments for evaluation; the command line makes them itself")
    num_iterations: int = arg(
        1000, "number of iterations, unless total_timesteps (--num_timesteps) is given", at_least=0
    )
    test_every: int = arg(10, "iterations between evaluations; another one follows at the end", at_least=1)
    num_test_episodes: int = arg(5, "episodes of an evaluation; 0 for no evaluation", at_least=0)
    stop_max_score: float | None = arg(
        None,
        "stop training when the mean return of an evaluation, or without evaluations of the latest 100 episodes, "
        "reaches this value; None to go on",
    )
    max_ep_len: int | None = arg(
        None, "largest number of steps in an episode, then truncated; None for the environment's own limit", at_least=1
    )
    log_interval: int = arg(1, "updates between rows of the logs", at_least=1)
    save_interval: int = arg(0, "updates between checkpoints; 0 for only the last", at_least=0)


@dataclass(kw_only=True)
class DemonstrationConfig(Declared):
    """Arguments of algorithms that learn from demonstrations."""

    demo_path: str | None = arg(
        None, "demonstrations: a file of `python -m tfbaselines.record`, baselines' expert npz, or minari:ID"
    )
    traj_limitation: int | None = arg(
        None, "number of demonstrated episodes to use, from the first; None for all", at_least=1
    )
    subsample: int = arg(1, "use every n-th step of a demonstrated episode", at_least=1)


@dataclass(kw_only=True)
class Signal(Declared):
    """Arguments of every signal."""

    strength: float = arg(1.0, "weight of the signal's advantages or values in the policy's objective", at_least=0)
    gamma: float = arg(0.99, "discount factor of the signal's returns", at_least=0, at_most=1)


@dataclass(kw_only=True)
class Extrinsic(Signal):
    """The environment's rewards."""


@dataclass(kw_only=True)
class LearntSignal(Signal):
    """Arguments of every signal with networks."""

    encoding_size: int = arg(64, "units of each layer of the signal's networks", at_least=1, limit=UNITS)
    learning_rate: float = arg(3e-4, "learning rate of the signal's networks", at_least=0)


@dataclass(kw_only=True)
class Rnd(LearntSignal):
    """Random network distillation: the error of a network that predicts the output of a random network."""


@dataclass(kw_only=True)
class Curiosity(LearntSignal):
    """Curiosity: the error of a model that predicts the encoding of the next observation."""


@dataclass(kw_only=True)
class Gail(LearntSignal):
    """Imitation: the logits of a discriminator between the agent's steps and demonstrations."""

    demo_path: str | None = arg(None, "demonstrations, as gail's --demo_path")
    use_actions: bool = arg(False, "the discriminator gets actions as well as observations")

    def check(self) -> None:
        if not self.demo_path:
            raise bad_argument("demo_path", self.demo_path, "a file of demonstrations, or minari:ID")


SIGNALS: dict[str, type[Signal]] = {"extrinsic": Extrinsic, "curiosity": Curiosity, "gail": Gail, "rnd": Rnd}

EXAMPLE = '{"extrinsic": {"strength": 1.0, "gamma": 0.99}, "rnd": {"strength": 0.1}}'


@dataclass(kw_only=True)
class SignalsConfig(Declared):
    """Arguments of algorithms that learn from reward signals."""

    reward_signals: str | dict[str, Any] | None = arg(
        None,
        f"reward signals by name ({', '.join(SIGNALS)}) with their arguments, as a dict or as JSON, such as {EXAMPLE}; "
        "None for the environment's rewards alone",
    )
    reward_signal_num_update: int | None = arg(
        None,
        "gradient steps of each signal in an update; None for as many as the policy's",
        at_least=1,
        limit=COUNT,
    )

    def check(self) -> None:
        super().check()
        if self.signals is None and self.reward_signal_num_update is not None:
            raise bad_argument("reward_signal_num_update", self.reward_signal_num_update, "needs reward_signals")

    @property
    def signals(self) -> dict[str, Signal] | None:
        """The signals by name; None for the environment's rewards alone, with one value function."""
        return None if self.reward_signals is None else parse_signals(self.reward_signals)


def parse_signals(given: Any) -> dict[str, Signal]:
    """Parse and check reward signals.

    Args:
        given: dict of the signals' arguments by the signals' names, or the same as JSON.
    """
    signals = mapping_of("reward_signals", given, EXAMPLE)
    return {name: _parse_signal(name, arguments) for name, arguments in signals.items()}


def reads_demonstrations(given: Any) -> bool:
    """Return True if reward signals name a file of demonstrations."""
    try:
        return given is not None and any(hasattr(signal, "demo_path") for signal in parse_signals(given).values())
    except ValueError:
        return False


def _parse_signal(name: Any, arguments: Any) -> Signal:
    if name not in SIGNALS:
        raise unknown("reward signal", str(name), SIGNALS)
    if not isinstance(arguments, Mapping):
        raise bad_argument(f"reward_signals: {name}", arguments, 'a dict of its arguments, such as {"strength": 1.0}')
    return declared_of(SIGNALS[name], name, arguments, "reward_signals: ")


CLONING_EXAMPLE = '{"demo_path": "demo.npz", "strength": 1.0, "steps": 20000}'


@dataclass(kw_only=True)
class Pretraining(Declared):
    """Arguments of behavior cloning in addition to reinforcement learning."""

    demo_path: str | None = arg(None, "demonstrations, as bc's --demo_path")
    strength: float = arg(1.0, "learning rate of cloning as a fraction of the policy's learning rate", at_least=0)
    steps: int = arg(
        0, "environment steps over which the strength decays linearly to 0; 0 for a constant strength", at_least=0
    )
    batch_size: int = arg(128, "demonstrated steps in a minibatch", at_least=1, limit=ROWS)
    sequence_length: int = arg(64, "length of the training sequences of a recurrent policy", at_least=1, limit=COUNT)

    def check(self) -> None:
        if not self.demo_path:
            raise bad_argument("demo_path", self.demo_path, "a file of demonstrations, or minari:ID")


@dataclass(kw_only=True)
class PretrainingConfig(Declared):
    """Arguments of algorithms that can learn from demonstrations and rewards."""

    pretraining: str | dict[str, Any] | None = arg(
        None,
        f"behavior cloning in addition to the algorithm's own updates, as a dict or as JSON, such as "
        f"{CLONING_EXAMPLE}; None for none",
    )

    def check(self) -> None:
        super().check()
        _ = self.cloning

    @property
    def cloning(self) -> Pretraining | None:
        """Arguments of the group; None without cloning."""
        if self.pretraining is None:
            return None
        return declared_of(Pretraining, "pretraining", mapping_of("pretraining", self.pretraining, CLONING_EXAMPLE), "")
