"""Learnt reward signals, such as curiosity or a discriminator's, added to the environment's rewards or in their place.

A run without signals has no RewardSignals, and its rewards stay as the environment gave them.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from tfbaselines.errors import UsageError
from tfbaselines.rollout.rollout import Rollout


class RewardSignal(Protocol):
    """A reward that is computed from transitions and learnt beside the policy.

    Attributes:
        name: prefix of its statistics, key of its state; unique in a run.
        statistics: names of what `update` gives.
        strength: factor of its rewards.
        gamma: discount of its returns, for algorithms that estimate a value of each signal.
        ends: what the end of an episode does to such returns, one of rollout.ENDS.
    """

    name: str
    statistics: tuple[str, ...]
    strength: float
    gamma: float
    ends: str

    def rewards(self, obs: Any, actions: np.ndarray, next_obs: Any, episode_start: np.ndarray | None) -> np.ndarray:
        """Rewards [..] of transitions, before the factor `strength`.

        Args:
            obs: [.., *observation shape] before the steps.
            actions: [.., *action shape].
            next_obs: as obs, after the steps; at an episode's end the real last observation.
            episode_start: [..] whether obs is the first of an episode; None for single transitions of a replay.
        """

    def take_in(self, batch: dict[str, Any]) -> None:
        """Merge new experience, whose rewards are computed next, into running statistics; every rank calls it.

        Args:
            batch: obs, actions and next_obs [B, ...].
        """

    def update(self, batch: dict[str, Any], indices: np.ndarray | None = None) -> dict[str, float]:
        """Learn from a batch; statistics.

        Args:
            batch: arrays [B, ...].
            indices: [M, b], the rows of each of M gradient steps; None for one step on all rows.
        """

    def state(self) -> dict[str, Any]:
        """Everything learnt, for a checkpoint."""

    def restore(self, state: dict[str, Any]) -> None:
        """Load what `state` returned."""


class RewardSignals:
    """The reward signals of a run.

    Args:
        signals: with unique names.
        extrinsic_strength: factor of the environment's own rewards; 0 replaces them.
    """

    def __init__(self, signals: Sequence[RewardSignal], extrinsic_strength: float = 1.0) -> None:
        self._signals = {signal.name: signal for signal in signals}
        if len(self._signals) < len(signals):
            raise UsageError(f"reward signals need unique names, not {[signal.name for signal in signals]}")
        self._extrinsic_strength = extrinsic_strength

    def apply_to_rollout(self, rollout: Rollout) -> dict[str, float]:
        """Replace a rollout's rewards by the weighted sum of all signals; the mean reward of each.

        Args:
            rollout: of a Runner with keep_next_obs.
        """
        steps = rollout.obs, rollout.actions, rollout.next_obs, rollout.episode_start
        total, means = np.float32(self._extrinsic_strength) * rollout.rewards, {}
        for name, signal in self._signals.items():
            learnt = np.float32(signal.strength) * signal.rewards(*steps)
            total += learnt
            means[f"{name}/reward"] = float(np.mean(learnt))
        rollout.rewards[...] = total
        return means

    def update(self, batch: dict[str, Any], indices: np.ndarray | None = None) -> dict[str, float]:
        """Let every signal learn from a batch; their statistics as 'signal/statistic'. Arguments as for a signal."""
        return {
            f"{name}/{statistic}": value
            for name, signal in self._signals.items()
            for statistic, value in signal.update(batch, indices).items()
        }

    def state(self) -> dict[str, Any]:
        """The state of every signal, by name."""
        return {name: signal.state() for name, signal in self._signals.items()}

    def restore(self, state: dict[str, Any]) -> None:
        """Load what `state` returned."""
        for name, signal in self._signals.items():
            signal.restore(state[name])
