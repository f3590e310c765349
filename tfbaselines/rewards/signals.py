"""Learned reward signals, such as curiosity or a discriminator's, added to the environment's rewards or replacing them.

A run without signals has no RewardSignals, and its rewards stay as the environment gave them.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from tfbaselines.config.signals import Signal
from tfbaselines.envs.normalize import VecNormalize
from tfbaselines.envs.vec import VecEnv, find_wrapper
from tfbaselines.envs.vec.packed import PackedSpace
from tfbaselines.errors import UsageError
from tfbaselines.parallel import mpi
from tfbaselines.policy.base import BasePolicy
from tfbaselines.rollout.rollout import Rollout

if TYPE_CHECKING:
    from tfbaselines.rewards.learned import LearnedSignal

# Name of the environment's own rewards among the signals.
EXTRINSIC = "extrinsic"
# Entropy weight of the discriminator, as in gail.
ENTROPY_WEIGHT = 1e-3


class RewardSignals:
    """The reward signals of a run.

    Args:
        signals: with unique names.
        extrinsic_strength: factor of the environment's own rewards; 0 replaces them.
    """

    def __init__(self, signals: Sequence["LearnedSignal"], extrinsic_strength: float = 1.0) -> None:
        self._signals = {signal.name: signal for signal in signals}
        if len(self._signals) < len(signals):
            raise UsageError(f"reward signals need unique names, not {[signal.name for signal in signals]}")
        self._extrinsic_strength = extrinsic_strength

    def apply_to_rollout(self, rollout: Rollout) -> dict[str, float]:
        """Replace a rollout's rewards by the weighted sum of all signals; return the mean reward of each.

        Args:
            rollout: of a Runner with keep_next_obs.
        """
        steps = rollout.obs, rollout.actions, rollout.next_obs, rollout.episode_start
        total = np.float32(self._extrinsic_strength) * rollout.rewards
        means = {}
        for name, signal in self._signals.items():
            rewards = np.float32(signal.strength) * signal.rewards(*steps)
            total += rewards
            means[f"{name}/reward"] = float(np.mean(rewards))
        rollout.rewards[...] = total
        return means

    def update(self, batch: dict[str, Any], indices: np.ndarray | None = None) -> dict[str, float]:
        """Let every signal learn from a batch; return statistics as 'signal/statistic'. See LearnedSignal."""
        return {
            f"{name}/{statistic}": value
            for name, signal in self._signals.items()
            for statistic, value in signal.update(batch, indices).items()
        }


def make_signals(
    arguments: Mapping[str, Signal],
    policy: BasePolicy,
    env: VecEnv,
    rng: np.random.Generator,
    comm: mpi.Communicator | None = None,
) -> "list[LearnedSignal]":
    """Make all signals except the environment's rewards, in their order.

    Args:
        arguments: of each signal, by name.
        policy: has the spaces.
        env: normalizes demonstrations like observations.
        rng: generator that draws demonstrated steps.
        comm: communicator of the ranks that train together.
    """
    # Runs without signals do not load them.
    from tfbaselines.rewards.novelty import Curiosity, Rnd

    signals = []
    for name, own in arguments.items():
        if name == "gail":
            signals.append(_make_adversary(own, policy, env, rng, comm))
        elif name != EXTRINSIC:
            signals.append({Curiosity.name: Curiosity, Rnd.name: Rnd}[name](policy, own, comm))
    return signals


def _make_adversary(
    arguments: Any, policy: BasePolicy, env: VecEnv, rng: np.random.Generator, comm: mpi.Communicator | None
) -> "LearnedSignal":
    from tfbaselines.demos.demonstrations import load_demonstrations
    from tfbaselines.rewards.adversary import Adversary, Discriminator

    observation_space, action_space = policy.observation_space, policy.action_space
    if isinstance(observation_space, PackedSpace | spaces.Dict):
        raise UsageError("reward_signals: gail takes neither action masks nor observations of several parts")
    normalizing = find_wrapper(env, VecNormalize)
    return Adversary(
        Discriminator(observation_space, action_space, arguments.encoding_size, comm, arguments.use_actions),
        load_demonstrations(arguments.demo_path, observation_space, action_space),
        action_space,
        entcoeff=ENTROPY_WEIGHT,
        lr=arguments.learning_rate,
        rng=rng,
        comm=comm,
        strength=arguments.strength,
        gamma=arguments.gamma,
        **({} if normalizing is None else {"normalize": normalizing.scaled}),
    )
