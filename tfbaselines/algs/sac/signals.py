"""SAC with several reward signals (reward_signals): each has its own pair of critics, discount and rewards.

The critics q_k1, q_k2 of signal k with strength c_k minimize 0.5 (q_ki(s, a) - y_k)^2 with

    y_k = r_k + gamma_k (1 - d_k) (min_i q_ki'(s', a') - alpha log pi(a'|s') / sum_j c_j),   a' ~ pi(s')

and the actor maximizes sum_k c_k min_i q_ki(s, a) - alpha log pi(a|s). With equal discounts the sum is the soft value
of the rewards sum_k c_k r_k.

A cycle begins with the gradient steps of the signals. Only then are the rewards of the policy's batches computed, so
the critics never learn from outdated rewards.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfbaselines.algs.sac.loss import Losses
from tfbaselines.envs.vec import VecEnv
from tfbaselines.learn.losses import Batch, Statistics, mean, spread, targets, views
from tfbaselines.policy.actor_critic import ActorCritic, View
from tfbaselines.rewards import EXTRINSIC, RewardSignals, make_signals
from tfbaselines.rollout.rollout import GO_ON, TERMINATE
from tfbaselines.training.off_policy import OffPolicyRun


class SignalLosses(Losses):
    """SAC's losses with critics for each of K reward signals.

    Args:
        parts: arguments of Losses; the actor has two critics for each signal.
        strengths: strength of each signal by name, in the order of their critics.
        goes_on: whether a signal's return continues in the next episode.
    """

    def __init__(self, *parts: Any, strengths: Mapping[str, float], goes_on: Sequence[bool]) -> None:
        super().__init__(*parts)
        self._names = list(strengths)
        self._strengths = np.float32(list(strengths.values()))
        self._goes_on = np.array(goes_on)
        total = float(sum(strengths.values()))
        # Share of the entropy in each signal's targets. If all strengths are 0, the actor maximizes its entropy alone.
        self._share = 1.0 / total if total else 0.0
        self.columns = tuple(f"{name}/{kind}" for name in strengths for kind in ("value", "q_loss"))

    def prepare(self, batch: Batch) -> Batch:
        """Compute the targets [B, K] of all signals.

        Args:
            batch: rewards and discount [B, K], and `following` if a return continues in the next episode.
        """
        batch = batch | views(self._policy, batch)
        soft = self._soft_values(batch["next"], batch)
        if self._goes_on.any() and "following" in batch:
            following = self._soft_values(self._policy.view(batch["following"]), batch)
            soft = tf.where(self._goes_on, following, soft)
        columns = zip(*(tf.unstack(x, axis=-1) for x in (batch["rewards"], batch["discount"], soft)), strict=True)
        each = [targets(batch | {"rewards": r, "discount": discount}, value) for r, discount, value in columns]
        return batch | {"targets": tf.stack(each, axis=-1)}

    def critic_loss(self, batch: Batch) -> tuple[tf.Tensor, Statistics]:
        """Return the sum of all critics' losses.

        Args:
            batch: prepared; sequences also have `counts` [B, K], 1 for a signal's valid rows.
        """
        q = tf.stack(self._policy.q(batch["now"], batch["actions"]), axis=-1)
        pairs = tf.reshape(q, (-1, len(self._names), 2))
        statistics, losses = {}, []
        for k, name in enumerate(self._names):
            rows = batch | {"valid": batch["counts"][:, k]} if "counts" in batch else batch
            pair = [0.5 * mean(rows, tf.square(pairs[:, k, i] - batch["targets"][:, k])) for i in range(2)]
            losses.append(pair)
            value = mean(rows, tf.reduce_min(pairs[:, k], axis=-1))
            statistics |= {f"{name}/value": value, f"{name}/q_loss": tf.add_n(pair)}
        loss1, loss2 = (tf.add_n(column) for column in zip(*losses, strict=True))
        q1, q2 = (self._weighted(pairs[:, :, i]) for i in range(2))
        statistics |= {"LossQ1": loss1, "LossQ2": loss2} | spread("Q1Vals", batch, q1) | spread("Q2Vals", batch, q2)
        return loss1 + loss2, statistics

    def _value(self, view: View, noise: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
        values, logp = self._actions.value(self._policy, view, noise)
        return self._weighted(values), logp

    def _soft_values(self, view: View, batch: Batch) -> tf.Tensor:
        values, logp = self._actions.value(self._target, view, batch.get("noise_next"))
        return values - self.temperature() * self._share * logp[:, None]

    def _weighted(self, values: tf.Tensor) -> tf.Tensor:
        return tf.linalg.matvec(values, self._strengths)


class ReplaySignals:
    """Several reward signals, computed for replayed steps, in place of EnvironmentRewards in sac.py.

    Attributes:
        strengths: strength of each signal, by name.
        goes_on: whether a signal's return continues in the next episode.
    """

    def __init__(self, run: OffPolicyRun, policy: ActorCritic, env: VecEnv) -> None:
        self._run = run
        signals = run.config.signals
        self.learned = make_signals(signals, policy, env, run.rng, run.comm)
        self._by_name = {signal.name: signal for signal in self.learned}
        self._trained = RewardSignals(self.learned)
        ends = [TERMINATE if name == EXTRINSIC else self._by_name[name].ends for name in signals]
        # True for a signal with returns that end with an episode.
        self._terminates = np.array([end == TERMINATE for end in ends])
        self._gammas = np.float32([signal.gamma for signal in signals.values()])
        self.strengths = {name: signal.strength for name, signal in signals.items()}
        self.goes_on = [end == GO_ON for end in ends]
        statistics = [f"{signal.name}/{name}" for signal in self.learned for name in signal.statistics]
        self.columns = [*(f"{name}/reward" for name in signals), *statistics]
        self._row: dict[str, float] = {}

    def collected(self, episodes: list[dict[str, Any]]) -> None:
        if self.learned:
            batch = self._run.replay.gather_latest(self._run.course.collected)
            for signal in self.learned:
                signal.take_in(batch)

    def learn(self, gradient_steps: int) -> None:
        if not self.learned:
            return
        run, size = self._run, self._run.config.batch_size
        steps, rows = run.config.reward_signal_num_update or gradient_steps, []
        # Signals learn from single steps, also where the policy learns from sequences.
        for block in run.blocks(steps, lambda count: run.replay.sample(run.rng, count, size)):
            batch = tf.nest.map_structure(lambda array: array.reshape(-1, *array.shape[2:]), block)
            indices = np.arange(len(batch["rows"]), dtype=np.int32).reshape(-1, size)
            transitions = {name: batch[name] for name in ("obs", "actions", "next_obs")}
            transitions["terminated"] = batch["discount"] == 0
            rows.append(run.check(self._trained.update(transitions, indices)))
        self._row |= {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}

    def row(self) -> dict[str, float]:
        return self._row

    def draw(self, count: int) -> dict[str, Any]:
        """Draw a block of batches [count, B, ...] with rewards and discounts [count, B, K] of the K signals."""
        # The replay's discount is 0 after a termination, else 1.
        block = self._run.draw(count)
        obs, actions, next_obs = block["obs"], block["actions"], _next_obs(block)
        steps = obs, actions, next_obs, None, block["discount"] == 0
        every = {name: signal.rewards(*steps) for name, signal in self._by_name.items()}
        rewards = np.stack([(every | {EXTRINSIC: block["rewards"]})[name] for name in self.strengths], axis=-1)
        self._row |= {f"{name}/reward": float(rewards[..., k].mean()) for k, name in enumerate(self.strengths)}
        goes_on = block["discount"][..., None]
        added = {"rewards": rewards, "discount": self._gammas * np.where(self._terminates, goes_on, np.float32(1.0))}
        if "valid" in block:
            # Sequences do not contain the last observation of an episode.
            added["counts"] = block["valid"][..., None] * np.where(self._terminates, np.float32(1.0), goes_on)
        return {name: array for name, array in block.items() if name != "following" or any(self.goes_on)} | added


def _next_obs(block: dict[str, Any]) -> Any:
    """Return the observations [M, B, ...] after the steps of a block; a sequence has them in its following rows."""
    if "next_obs" in block:
        return block["next_obs"]
    rows = block["next_rows"]
    count, sequences, length = rows.shape
    places = (rows + length * np.arange(sequences)[:, None]).reshape(count, -1)
    return tf.nest.map_structure(lambda array: array[np.arange(count)[:, None], places], block["obs"])
