"""The reward signals of a run that learns from a replay: what they pay for replayed steps, and how they learn.

A cycle's gradient steps begin with those of the signals. The rewards of its batches are computed after them, so that no
outdated reward is learnt from. The critics of the signals: algs/sac/signals.py.

Soft critics of several reward signals: each signal has its own pair, discount and rewards; see algs/sac.py.

The critics q_k1, q_k2 of signal k, of strength c_k, descend 0.5 (q_ki(s, a) - y_k)^2 towards

    y_k = r_k + gamma_k (1 - d_k) (min_i q_ki'(s', a') - alpha log pi(a'|s') / sum_j c_j),   a' ~ pi(s')

and the actor ascends sum_k c_k min_i q_ki(s, a) - alpha log pi(a|s). With equal discounts that sum is the soft value of
the rewards sum_k c_k r_k.

Which critics a run of SAC has.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfbaselines.algs.sac.loss import SoftCritics, Statistics, expectation
from tfbaselines.algs.sac.offline import ConservativeCritics
from tfbaselines.envs.vec import VecEnv
from tfbaselines.errors import given
from tfbaselines.learn.losses import Batch, mean, spread, targets
from tfbaselines.policy.actor_critic import ActorCritic, View
from tfbaselines.rewards.signals import EXTRINSIC, RewardSignals, make_signals
from tfbaselines.rollout.rollout import GO_ON, TERMINATE
from tfbaselines.training.off_policy import OffPolicyRun


class SignalCritics(SoftCritics):
    """The critics of K reward signals.

    Args:
        policy: an actor with two critics for each signal.
        target: its targets.
        names: of the signals, in the order of their critics.
        strengths: of each signal.
        goes_on: of each signal, whether its returns go on in the next episode.
    """

    def __init__(
        self,
        policy: ActorCritic,
        target: ActorCritic,
        names: Sequence[str],
        strengths: Sequence[float],
        goes_on: Sequence[bool],
    ) -> None:
        super().__init__(policy, target)
        self._names = list(names)
        self._strengths, self._goes_on = np.float32(strengths), np.array(goes_on)
        total = float(np.sum(strengths))
        # Of the entropy in each signal's targets. Without any strength the actor ascends its own entropy alone.
        self._share = 1.0 / total if total else 0.0
        self.columns = tuple(f"{name}/{of}" for name in names for of in ("value", "q_loss"))

    def value(self, view: View, noise: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
        """The weighted sum [B] of the signals' values, and log pi [B]; see `expectation`."""
        values, logp = expectation(self._policy, self._policy, view, noise)
        return self._weighted(values), logp

    def prepared(self, batch: Batch, temperature: tf.Tensor) -> dict[str, Any]:
        """Returns [B, K] of each row as 'targets'.

        Args:
            batch: prepared, with rewards and discount [B, K], and `following` where returns go on in the next episode.
            temperature: alpha.
        """
        soft = self._soft_values(batch["next"], batch, temperature)
        if self._goes_on.any() and "following" in batch:
            following = self._soft_values(self._policy.view(batch["following"]), batch, temperature)
            soft = tf.where(self._goes_on, following, soft)
        columns = zip(*(tf.unstack(x, axis=-1) for x in (batch["rewards"], batch["discount"], soft)), strict=True)
        own = [batch | {"rewards": rewards, "discount": discount} for rewards, discount, _ in columns]
        return {"targets": tf.stack([targets(one, soft[:, k]) for k, one in enumerate(own)], axis=-1)}

    def loss(self, batch: Batch) -> tuple[tf.Tensor, Statistics]:
        """The sum of all critics' losses, and its statistics: of the weighted sums of values, and of each signal.

        Args:
            batch: prepared, with targets [B, K]; of sequences also `counts` [B, K], 1 for a signal's valid rows.
        """
        q = tf.stack(self._policy.q(batch["now"], batch["actions"]), axis=-1)
        pairs = tf.reshape(q, (-1, len(self._names), 2))
        statistics, losses = {}, []
        for k, name in enumerate(self._names):
            rows = batch | {"valid": batch["counts"][:, k]} if "counts" in batch else batch
            both = [0.5 * mean(rows, tf.square(pairs[:, k, i] - batch["targets"][:, k])) for i in range(2)]
            losses.append(both)
            value = mean(rows, tf.reduce_min(pairs[:, k], axis=-1))
            statistics |= {f"{name}/value": value, f"{name}/q_loss": tf.add_n(both)}
        loss1, loss2 = (tf.add_n(of_one) for of_one in zip(*losses, strict=True))
        q1, q2 = (self._weighted(pairs[:, :, i]) for i in range(2))
        statistics |= {"LossQ1": loss1, "LossQ2": loss2} | spread("Q1Vals", batch, q1) | spread("Q2Vals", batch, q2)
        return loss1 + loss2, statistics

    def _soft_values(self, view: View, batch: Batch, temperature: tf.Tensor) -> tf.Tensor:
        values, logp = expectation(self._policy, self._target, view, batch.get("noise_next"))
        return values - temperature * self._share * logp[:, None]

    def _weighted(self, values: tf.Tensor) -> tf.Tensor:
        return tf.linalg.matvec(values, self._strengths)


class ReplaySignals:
    """See the module.

    Attributes:
        learnt: the signals but for the environment's rewards; parts of the model.
        critics: theirs.
        columns: names of the statistics beside those of the critics.

    Args:
        run: with reward signals.
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
        run: of an algorithm with reward signals.
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


def make_critics(run: OffPolicyRun, policy: ActorCritic, target: ActorCritic, env: VecEnv) -> SoftCritics:
    """The critics of a run: of reward signals, of a data set, or plain ones.

    Args:
        run: of sac; gains its reward signals, if it has any.
        policy: an actor with two critics, or two for each signal.
        target: its targets.
        env: the environments.
    """
    config = run.config
    signals = replay_signals(run, policy, target, env)
    if signals is not None:
        return signals.critics
    if config.offline is None:
        return SoftCritics(policy, target)
    own = given(weight=config.cql_weight, threshold=config.cql_threshold, actions=config.cql_actions)
    return ConservativeCritics(policy, target, **own)
