"""The reward signals of a run that learns from a replay: what they pay for replayed steps, and how they learn.

A cycle's gradient steps begin with those of the signals. The rewards of its batches are computed after them, so that no
outdated reward is learnt from. The critics of the signals: losses/signal_critics.py.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from tfbaselines.envs.vec import VecEnv
from tfbaselines.experience.rewards import RewardSignals
from tfbaselines.experience.rollout import GO_ON, TERMINATE
from tfbaselines.losses.signal_critics import SignalCritics
from tfbaselines.policy.actor_critic import ActorCritic
from tfbaselines.running.make_signals import EXTRINSIC, make_signals
from tfbaselines.running.off_policy import OffPolicyRun


class ReplaySignals:
    """See the module.

    Attributes:
        learnt: the signals but for the environment's rewards; parts of the model.
        critics: theirs.
        columns: names of the statistics beside those of the critics.

    Args:
        run: with ReplaySignalsConfig.
        policy: an actor with two critics for each signal.
        target: its targets.
        env: the environments.
    """

    def __init__(self, run: OffPolicyRun, policy: ActorCritic, target: ActorCritic, env: VecEnv) -> None:
        self._run, self._arguments = run, run.config.signals
        self.learnt = make_signals(self._arguments, policy, env, run.rng, run.comm)
        self._by_name, self._signals = {signal.name: signal for signal in self.learnt}, RewardSignals(self.learnt)
        ends = [TERMINATE if name == EXTRINSIC else self._by_name[name].ends for name in self._arguments]
        # Whether the end of an episode ends a signal's returns.
        self._terminates = np.array([one == TERMINATE for one in ends])
        self._gammas = np.float32([signal.gamma for signal in self._arguments.values()])
        strengths = [signal.strength for signal in self._arguments.values()]
        goes_on = [one == GO_ON for one in ends]
        self._go_on = any(goes_on)
        self.critics = SignalCritics(policy, target, list(self._arguments), strengths, goes_on)
        own = [f"{signal.name}/{name}" for signal in self.learnt for name in signal.statistics]
        self.columns = [*(f"{name}/reward" for name in self._arguments), *own]
        self._row: dict[str, float] = {}

    def collected(self) -> None:
        """Let the signals take in the steps that were just collected."""
        if self.learnt:
            batch = self._run.replay.gather_latest(self._run.course.collected)
            for signal in self.learnt:
                signal.take_in(batch)

    def learn(self, gradient_steps: int) -> None:
        """The signals' gradient steps of a cycle, on single steps of the replay.

        Args:
            gradient_steps: of the policy.
        """
        if not self.learnt:
            return
        run, size = self._run, self._run.config.batch_size
        steps, rows = run.config.reward_signal_num_update or gradient_steps, []
        for block in run.blocks(steps, lambda count: run.replay.sample(run.rng, count, size)):
            batch = tf.nest.map_structure(lambda array: array.reshape(-1, *array.shape[2:]), block)
            indices = np.arange(len(batch["rows"]), dtype=np.int32).reshape(-1, size)
            transitions = {name: batch[name] for name in ("obs", "actions", "next_obs")}
            rows.append(run.check(self._signals.update(transitions, indices)))
        self._row |= {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}

    def paid(self, block: dict[str, Any]) -> dict[str, Any]:
        """A block of batches with rewards and discounts [M, B, K] of the K signals, whose means are kept for the logs.

        Args:
            block: arrays [M, B, ...] of the replay, of which `discount` is 0 after a termination, else 1.
        """
        obs, actions, next_obs = block["obs"], block["actions"], _next_obs(block)
        every = {name: signal.rewards(obs, actions, next_obs, None) for name, signal in self._by_name.items()}
        rewards = np.stack([(every | {EXTRINSIC: block["rewards"]})[name] for name in self._arguments], axis=-1)
        self._row |= {f"{name}/reward": float(rewards[..., k].mean()) for k, name in enumerate(self._arguments)}
        goes_on = block["discount"][..., None]
        own = {"rewards": rewards, "discount": self._gammas * np.where(self._terminates, goes_on, np.float32(1.0))}
        if "valid" in block:
            # No sequence has the observation at which an episode ended.
            own["counts"] = block["valid"][..., None] * np.where(self._terminates, np.float32(1.0), goes_on)
        return {name: array for name, array in block.items() if name != "following" or self._go_on} | own

    def row(self) -> dict[str, float]:
        """The latest statistics but for those of actor and critics."""
        return self._row


def replay_signals(run: OffPolicyRun, policy: ActorCritic, target: ActorCritic, env: VecEnv) -> ReplaySignals | None:
    """The reward signals of a run, which it then learns from; None where it learns from rewards alone.

    Args:
        run: of an algorithm with ReplaySignalsConfig.
        policy: an actor with two critics for each signal.
        target: its targets.
        env: the environments.
    """
    if run.config.signals is not None:
        run.signals = ReplaySignals(run, policy, target, env)
    return run.signals


def _next_obs(block: dict[str, Any]) -> Any:
    """Observations [M, B, ...] after the steps of a block; of sequences those of the rows that follow."""
    if "next_obs" in block:
        return block["next_obs"]
    rows = block["next_rows"]
    count, sequences, length = rows.shape
    places = (rows + length * np.arange(sequences)[:, None]).reshape(count, -1)
    return tf.nest.map_structure(lambda array: array[np.arange(count)[:, None], places], block["obs"])
