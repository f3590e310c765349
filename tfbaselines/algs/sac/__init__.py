"""SAC: soft actor-critic (Haarnoja et al. 2018, arXiv:1801.01290, arXiv:1812.05905)."""

import math
from dataclasses import dataclass
from typing import ClassVar

from tfbaselines.config.algorithm import Algorithm
from tfbaselines.config.bases import EpisodeReturn, OffPolicyConfig, PreviousAction
from tfbaselines.config.config import Coefficient, Schedule, arg
from tfbaselines.config.groups import ExplorationConfig, PretrainingConfig, SignalsConfig
from tfbaselines.config.schedules import is_schedule, parse_schedule
from tfbaselines.errors import bad_argument
from tfbaselines.limits import ROWS
from tfbaselines.loading import lazily

# Critic steps per step of the actor (Bhatt et al. 2024).
CROSSQ_DELAY = 3


@dataclass(kw_only=True)
class Config(ExplorationConfig, PreviousAction, EpisodeReturn, PretrainingConfig, SignalsConfig, OffPolicyConfig):
    """Arguments of SAC."""

    lr: Schedule = arg(1e-3, "learning rate", at_least=0, after="polyak")
    alpha: Coefficient | str = arg(0.2, "entropy coefficient; 'auto' learns it from 1, 'auto_0.1' from 0.1", at_least=0)
    target_entropy: float | None = arg(
        None,
        "target entropy of alpha='auto'; None for minus the number of continuous actions, or for 0.2 times the largest "
        "entropy of discrete actions",
        after="save_freq",
    )
    train_interval: int | None = arg(
        None, "ML-Agents' name for update_every", at_least=1, limit=ROWS, after="num_update"
    )
    buffer_init_steps: int | None = arg(None, "ML-Agents' name for start_steps and update_after in one", at_least=0)
    cql_weight: float | None = arg(
        None,
        "offline: weight of the critics' penalty, or its initial value if it is learned; None for 5",
        at_least=0,
        after="pretraining",
    )
    cql_threshold: float | None = arg(None, "offline: penalty for which its weight is learned; None for a fixed weight")
    cql_actions: int | None = arg(
        None,
        "offline: uniform actions, and as many of the policy, that estimate the penalty; None for 10",
        at_least=1,
        limit=10**4,
    )

    critic: str = arg(
        "plain",
        "kind of critics: 'plain'; 'tqc': quantiles, of which the targets drop the largest; 'crossq': batch "
        "renormalization in place of targets; 'tqc_crossq': both",
        choices=("plain", "tqc", "crossq", "tqc_crossq"),
    )
    num_quantiles: int = arg(25, "quantiles of each critic with critic='tqc' or 'tqc_crossq'", at_least=1, limit=10**4)
    drop_quantiles: int = arg(2, "largest quantiles that the targets drop, times the number of critics", at_least=0)
    critic_dropout: float = arg(
        0.0, "dropout rate of the critics' hidden layers; DroQ: 0.01 with critic_layer_norm", at_least=0, at_most=0.9
    )
    policy_delay: int | None = arg(
        None, "critic steps per step of actor and temperature; None for 3 without targets, else 1", at_least=1
    )
    weight_decay: float = arg(
        0.0,
        "decay of the networks' weight matrices: each step multiplies them by 1 - lr * weight_decay; SimBa: 0.01",
        at_least=0,
        after="prev_action",
    )
    reset_interval: int | None = arg(
        None,
        "environment steps of each rank after which networks and optimizers begin anew, while the replay stays; never "
        "in the last interval of a run",
        at_least=1,
        limit=ROWS,
    )

    moved: ClassVar = {"reward_signal_num_update": "offline"}
    env_defaults: ClassVar = OffPolicyConfig.env_defaults | {
        # A game is longer than max_ep_len, and has so many frames that fewer gradient steps suffice.
        "atari": {
            "network": "cnn",
            "max_ep_len": None,
            "replay_size": 1e5,
            "lr": 3e-4,
            "num_update": 5,
            "alpha": "auto",
        },
    }

    def check(self) -> None:
        # ML-Agents' names replace the names of Spinning Up.
        if self.buffer_init_steps is not None:
            if self.buffer_init_steps > self.replay_size:
                accepted = f"at most replay_size={int(self.replay_size)}, or nothing is learned"
                raise bad_argument("buffer_init_steps", self.buffer_init_steps, accepted)
            self.start_steps = self.buffer_init_steps
            self.update_after = self.buffer_init_steps
        if self.train_interval is not None:
            self.update_every = self.train_interval
        super().check()
        if not 0.0 <= self.first_alpha < math.inf or (self.learns_alpha and self.first_alpha == 0):
            raise bad_argument("alpha", self.alpha, "a number of at least 0, 'auto', or such as 'auto_0.1'")
        if self.signals is not None and self.n_step != 1:
            raise bad_argument("n_step", self.n_step, "1 with reward_signals, which are discounted step by step")
        self._check_critics()
        self._check_resets()
        if self.signals is not None and self.critics != 2:
            raise bad_argument("critics", self.critics, "2 with reward_signals: a pair for each")
        if self.offline is not None and self.signals is not None:
            raise bad_argument("reward_signals", self.reward_signals, "None with offline: the data set has its rewards")
        if self.offline is None:
            self.check_needs("offline", "cql_weight", "cql_threshold", "cql_actions")
        if self.cql_threshold is not None and self.cql_weight == 0:
            raise bad_argument("cql_weight", self.cql_weight, "above 0 with cql_threshold, which multiplies it")

    def _check_critics(self) -> None:
        if self.policy_delay is None:
            self.policy_delay = CROSSQ_DELAY if self.joint else 1
        if not self.quantiles:
            self.check_needs("critic='tqc' or 'tqc_crossq'", "num_quantiles", "drop_quantiles")
        elif self.drop_quantiles >= self.num_quantiles:
            raise bad_argument("drop_quantiles", self.drop_quantiles, f"below num_quantiles={self.num_quantiles}")
        if self.joint:
            if self.memory_size is not None:
                raise bad_argument("critic", self.critic, "'plain' or 'tqc' with memory_size")
            self.check_needs("critic='plain' or 'tqc'", "critic_dropout", "critic_layer_norm")
        if self.signals is not None or self.offline is not None:
            self.check_needs("neither reward_signals nor offline", "critic", "critic_dropout")

    def _check_resets(self) -> None:
        if self.signals is not None or self.offline is not None:
            self.check_needs("neither reward_signals nor offline", "reset_interval")
        if self.reset_interval is not None and 0 < self.run_steps < 2 * self.reset_interval:
            accepted = f"at most half of the run's {self.run_steps} steps, or the networks never begin anew"
            raise bad_argument("reset_interval", self.reset_interval, accepted)

    @property
    def quantiles(self) -> bool:
        """The critics have quantiles."""
        return self.critic in ("tqc", "tqc_crossq")

    @property
    def joint(self) -> bool:
        """The critics have batch renormalization, and one joint pass in place of targets."""
        return self.critic in ("crossq", "tqc_crossq")

    @property
    def learns_alpha(self) -> bool:
        """True if the temperature is learned."""
        return isinstance(self.alpha, str) and self.alpha.startswith("auto")

    @property
    def first_alpha(self) -> float:
        """The initial temperature; NaN if alpha is not valid."""
        if is_schedule(self.alpha):
            return parse_schedule(self.alpha, "alpha")(1.0)
        try:
            return float(str(self.alpha).removeprefix("auto").removeprefix("_") or 1.0)
        except ValueError:
            return math.nan


ALGORITHM = Algorithm(
    Config,
    "soft actor-critic (Haarnoja et al. 2018)",
    ("bounded Box", "Discrete", "MultiDiscrete"),
    normalized_environments=False,
    dict_observations=True,
    action_masks=True,
)

__getattr__ = lazily(__name__)
