"""Runs of algorithms that learn from a replay of single steps.

A cycle collects steps into the replay, then takes gradient steps on batches of it in one compiled call. An epoch has
several cycles, and ends with a test and a row of the logs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.config.algorithm import Algorithm
from tfbaselines.config.bases import OffPolicyConfig, ReplayConfig
from tfbaselines.demos import DataSetReplay, Demonstrations, load_demonstrations
from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.wrappers import goal_reward
from tfbaselines.errors import bad_argument
from tfbaselines.files import require_memory
from tfbaselines.learn.engine import Engine
from tfbaselines.learn.optimizers import AveragedPolicy
from tfbaselines.logs import logger
from tfbaselines.logs.statistics import Store
from tfbaselines.policy.base import BasePolicy
from tfbaselines.replay import Replay
from tfbaselines.replay.hindsight import HindsightReplay
from tfbaselines.rollout.collector import Behave, Collector
from tfbaselines.training.clock import Plan
from tfbaselines.training.epochs import begin_row, end_row, make_table
from tfbaselines.training.model import PolicyModel
from tfbaselines.training.run import Run

# Most bytes of the batches in one compiled call.
BLOCK_BYTES = 2**26

# A batch as arrays, as tensors, as float32 and its gradient; what networks compute from a small observation is larger.
BATCH_COPIES = 6
LEAST_ROW = 2**12

# Hindsight replay: transitions with a new goal for each transition with its own goal.
REPLAY_K = 4


@dataclass(frozen=True, kw_only=True)
class Course:
    """Amounts of collecting and learning in a run.

    Attributes:
        steps: environment steps of this rank in the run.
        collected: steps of each environment in a cycle.
        gradient_steps: gradient steps in a cycle.
        cycles_per_epoch: cycles in an epoch, at least one.
        save_freq: epochs between checkpoints; 0 saves only the last.
        log_episodes: see Plan.
    """

    steps: int
    collected: int
    gradient_steps: int
    cycles_per_epoch: int = 1
    save_freq: int = 0
    log_episodes: int | None = None

    @classmethod
    def of(cls, config: OffPolicyConfig, num_envs: int) -> "Course":
        """Return the course that Spinning Up's arguments declare."""
        collected = max(1, round(config.update_every / num_envs))
        return cls(
            steps=config.run_steps,
            collected=collected,
            gradient_steps=collected * num_envs if config.num_update is None else config.num_update,
            cycles_per_epoch=max(1, round(config.steps_per_epoch / (collected * num_envs))),
            save_freq=config.save_freq,
        )


class OffPolicyModel(PolicyModel):
    """An actor with critics, or a Q-network, their targets, their gradient steps and the replay.

    Args:
        policy: the actor with its critics, or the Q-network.
        averaged: the targets.
        update: the gradient steps.
        others: further variables that learn, such as a temperature.
        rng, parts: see PolicyModel.
        replay: experience to learn from; None if the model does not train.
    """

    def __init__(
        self,
        policy: BasePolicy,
        averaged: AveragedPolicy,
        update: Engine,
        others: list[keras.Variable] | None = None,
        rng: np.random.Generator | None = None,
        *,
        replay: Replay | None = None,
        parts: Sequence[Any] = (),
    ) -> None:
        super().__init__(policy, rng=rng, averaged=averaged, parts=parts)
        self.update = update
        self.replay = replay
        self._others = others or []

    def variables(self) -> list[Any]:
        return [*super().variables(), *self._others]

    def save_replay_buffer(self, directory: str) -> None:
        """Write the replay to a directory of files that load without pickle and can be mapped into memory."""
        self.replay.save(directory)

    def load_replay_buffer(self, directory: str) -> None:
        """Read a replay that `save_replay_buffer` wrote."""
        self.replay.load(directory)

    def train(self, block: dict[str, Any], **coefficients: float) -> dict[str, np.ndarray]:
        """Take a gradient step for each batch of a block; see Engine.block."""
        statistics = self.update.block(block, **coefficients)
        self.actor.refresh()
        return statistics

    def state(self) -> dict[str, Any]:
        return super().state() | {
            "update": self.update.state(),
            "others": {str(number): variable.numpy() for number, variable in enumerate(self._others)},
        }

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.update.restore(state["update"])
        for i, variable in enumerate(self._others):
            variable.assign(state["others"][str(i)])


class OffPolicyRun(Run):
    """Collect experience and learn from a replay, in cycles.

    ::

        with OffPolicyRun(ALGORITHM, env, config, Course.of(config, env.num_envs)) as run:
            policy, averaged = with_targets(lambda: make_policy(...), config.polyak)
            update = make_update(policy, averaged, ...)
            model = OffPolicyModel(policy, averaged, update, rng=run.rng, replay=run.make_replay(policy))
            for gradient_steps in run.cycles(model, explore, row):
                for block in run.blocks(gradient_steps):
                    run.table.store(**run.train(block))
        return model

    Attributes:
        course: amounts of collecting and learning.
        table: values of the epoch, for its row of the logs.

    For the arguments see Run.
    """

    def __init__(
        self, algorithm: Algorithm, env: VecEnv, config: ReplayConfig, course: Course, eval_env: VecEnv | None = None
    ) -> None:
        steps_per_cycle = course.collected * env.num_envs
        plan = Plan(
            total_timesteps=course.steps,
            steps_per_update=steps_per_cycle,
            log_interval=course.cycles_per_epoch,
            log_first=False,
            log_episodes=course.log_episodes,
            save_interval=course.save_freq * course.cycles_per_epoch,
        )
        super().__init__(algorithm, env, config, plan, eval_env=eval_env)
        self.course = course
        spinup = hasattr(config, "logger_kwargs")
        self.table = make_table(self, config.logger_kwargs) if spinup else Store(self.comm)

    @property
    def epoch(self) -> int:
        """Number of the present epoch, from 1."""
        return -(-self.update // self.course.cycles_per_epoch)

    @property
    def replay(self) -> Replay:
        """Experience that the model learns from."""
        return self.model.replay

    def cycles(
        self,
        model: OffPolicyModel,
        behave: Behave,
        row: Callable[[], dict[str, Any]],
        *,
        on_end: Callable[[np.ndarray], None] | None = None,
        on_cycle: Callable[[list[dict[str, Any]]], None] | None = None,
        observed: Callable[[], Any] | None = None,
        acting: Sequence[Any] = (),
        reward_scale: float = 1.0,
        render: bool = False,
    ) -> Iterator[int]:
        """Start the run, and yield the number of gradient steps whenever some are due.

        Args:
            model: model that learns, with its replay.
            behave: chooses actions, with exploration.
            row: returns the columns of a row of the logs, at an epoch's end.
            on_end, reward_scale, render: see Collector.
            on_cycle: called after the collection of every cycle with the episodes that ended in it.
            observed: returns the observations that the policy's running mean takes in after a cycle; None for all of
                the cycle.
            acting: objects with a state of each rank's own; see Run.acts.
        """
        config = self.config
        replay = model.replay
        logger.info(replay.describe())
        nbytes = max(replay.obs_nbytes * BATCH_COPIES, LEAST_ROW)
        require_memory(self._batch_rows(model.policy) * nbytes, "batch_size", "learning from a batch")
        if self.offline is not None and model.policy.normalizer:
            model.policy.normalizer.fit(replay.observations)
        saved = config.save_replay_buffer and self.offline is None
        self.start(model, replay=replay if saved else None)
        start = -(-config.start_steps // self.env.num_envs)
        collector = Collector(self.env, model.policy, replay, self.rng, behave, start, on_end, reward_scale, render)
        # A checkpoint in the middle of an epoch includes the epoch's values.
        self.acts(collector, self.table, *acting)
        observed = observed or (lambda: replay.latest(self.course.collected)[0])
        for _ in self.updates():
            if self.offline is None:
                episodes = self._collect(collector)
                if on_cycle is not None:
                    on_cycle(episodes)
                model.observe(observed)
            if self.course.gradient_steps and self.enough():
                yield self.course.gradient_steps
            self.finish_update(row)

    def _collect(self, collector: Collector) -> list[dict[str, Any]]:
        """Collect the steps of a cycle, and return the episodes that ended."""
        before = (self.timesteps - self.plan.steps_per_update) // self.env.num_envs
        with self.timers.phase("collect"):
            episodes = collector.run(self.course.collected, before)
        self.episodes.extend(episodes)
        if self.course.log_episodes is None:
            self.table.store_episodes(episodes)
        return episodes

    def passed(self, steps: int) -> bool:
        """Return whether this cycle reached or passed a multiple of so many environment steps."""
        return self.timesteps // steps > (self.timesteps - self.plan.steps_per_update) // steps

    @property
    def offline(self) -> str | None:
        """Data set that replaces the environments; None for none."""
        return getattr(self.config, "offline", None)

    def make_replay(self, policy: BasePolicy) -> Replay:
        """Make the replay that the config declares."""
        config = self.config
        env = self.env
        if getattr(config, "replay", "uniform") == "hindsight":
            return _hindsight(env, policy, config)
        own = _rewards_and_ends(config) | {"n_step": config.n_step, "state_size": policy.state_size}
        if self.offline is None:
            replay = Replay(env, int(config.replay_size), **own)
        else:
            replay = DataSetReplay(_data_set(env, config), env, **own)
        if policy.recurrent and replay.size < self.sequence_length * replay.num_envs:
            advice = ": raise replay_size" if self.offline is None else ""
            accepted = f"a replay of {replay.size} transitions is too small{advice}"
            raise bad_argument("sequence_length", self.sequence_length, accepted)
        return replay

    @property
    def sequence_length(self) -> int:
        """Steps of a replayed sequence, for recurrent policies."""
        return getattr(self.config, "sequence_length", OffPolicyConfig.arguments()["sequence_length"].default)

    def train(self, block: dict[str, Any]) -> dict[str, np.ndarray]:
        """Take the gradient steps of a block at the present learning rates, and update priorities."""
        rows = block.pop("rows", None)
        statistics = self.check(self.model.train(block, **self.rates()))
        errors = statistics.pop("td_errors", None)
        # An update with other errors will be dropped.
        if errors is not None and np.isfinite(errors).all():
            self.replay.update_priorities(rows, errors)
        return statistics

    def blocks(self, steps: int, draw: Callable[[int], dict[str, Any]] | None = None) -> Iterator[dict[str, Any]]:
        """Yield batches for gradient steps, in blocks of bounded size.

        Args:
            steps: number of gradient steps.
            draw: draws a number of batches; None for the run's `draw`.
        """
        count = self._batches_in_block(steps)
        for _ in range(steps // count):
            yield (draw or self.draw)(count)

    def enough(self) -> bool:
        """Return whether the replay of every rank has enough transitions to learn from."""
        least = max(1, min(self.config.update_after, self.replay.size))
        if self.model.policy.recurrent:
            least = max(least, self.sequence_length * self.replay.num_envs)
        enough = len(self.replay) >= least and self.replay.any_valid
        return enough if self.comm.size == 1 else all(self.comm.gather(enough))

    def draw(self, batches: int) -> dict[str, Any]:
        """Draw batches of the replay: arrays [batches, B, ...]."""
        if self.model.policy.recurrent:
            return self.replay.sample_sequences(self.rng, batches, self.config.batch_size, self.sequence_length)
        return self.replay.sample(self.rng, batches, self.config.batch_size)

    def draw_one(self) -> dict[str, Any]:
        """Draw one batch of the replay: arrays [B, ...]."""
        return tf.nest.map_structure(lambda array: array[0], self.draw(1))

    def _batches_in_block(self, steps: int) -> int:
        """Return the largest divisor of `steps` with a block of at most BLOCK_BYTES."""
        most = max(1, int(BLOCK_BYTES / (self._batch_rows(self.model.policy) * self.replay.obs_nbytes)))
        return max(count for count in range(1, min(steps, most) + 1) if steps % count == 0)

    def _batch_rows(self, policy: BasePolicy) -> int:
        """Return the number of observations in a batch."""
        return self.config.batch_size * (self.sequence_length if policy.recurrent else 2)


def _hindsight(env: VecEnv, policy: BasePolicy, config: OffPolicyConfig) -> HindsightReplay:
    if policy.recurrent:
        raise bad_argument("replay", config.replay, "a policy without memory: sequences keep the goals that they had")
    replay_k = REPLAY_K if config.replay_k is None else config.replay_k
    size = int(config.replay_size)
    return HindsightReplay(env, size, compute_reward=goal_reward(env), replay_k=replay_k, **_rewards_and_ends(config))


def _rewards_and_ends(config: OffPolicyConfig) -> dict[str, Any]:
    """Return the replay's arguments for rewards and ends; reward signals have their own discounts and ends."""
    signals = getattr(config, "signals", None)
    ends = {"gamma": config.gamma} if signals is None else {"gamma": 1.0, "keep_ends": True}
    return ends | {"reward_clip": getattr(config, "reward_clip", None)}


def _data_set(env: VecEnv, config: OffPolicyConfig) -> Demonstrations:
    data = load_demonstrations(config.offline, env.observation_space, env.action_space, "offline")
    steps = len(data.with_next_obs())
    if steps < config.batch_size:
        raise bad_argument("offline", config.offline, f"at least batch_size={config.batch_size} steps, it has {steps}")
    logger.info(
        f"offline: {len(data.lengths)} episodes, {steps} steps, returns {data.returns.min():.4g} to "
        f"{data.returns.max():.4g}, mean {data.returns.mean():.4g}"
    )
    return data


def epoch_row(run: OffPolicyRun, values: Sequence[str], losses: Sequence[str]) -> dict[str, Any]:
    """End an epoch: test, and return the row under Spinning Up's names.

    Args:
        run: a run with Spinning Up's table.
        values, losses: statistics with columns for mean, deviation, minimum and maximum, and with one for the mean.
    """
    table = run.table
    begin_row(table, run, run.epoch)
    table.log_tabular("TotalEnvInteracts", run.steps_of_all())
    for name in values:
        table.log_tabular(name, with_min_and_max=True)
    for name in losses:
        table.log_tabular(name, average_only=True)
    return end_row(table, run)
